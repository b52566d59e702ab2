"""Hypothesis strategies for arrays and selections, and a strict comparison of arrays."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

Dtype = np.dtype[Any]
AnyArray = np.ndarray[Any, Dtype]

SCALARS = [
    "?", "i1", "u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">i8", ">u8",
    "<f2", "<f4", ">f4", "<f8", ">f8", "<f16", "<c8", ">c8", "<c16", "<c32",
    "S1", "S5", "S300", "<U1", ">U3", "<U70", "V1", "V7", "V300",
    "<M8[ns]", ">M8[D]", "<M8[25s]", "<M8", "<m8[us]", ">m8[7D]", "<m8",
]  # fmt: skip


@st.composite
def structured(draw: st.DrawFn, inner: st.SearchStrategy[Dtype]) -> Dtype:
    count = draw(st.integers(1, 4))
    names = [f"n{i}" for i in range(count)]
    formats: list[Dtype] = []
    for _ in range(count):
        shape = draw(st.lists(st.integers(1, 3), max_size=2))
        formats.append(np.dtype((draw(inner), tuple(shape))) if shape else draw(inner))
    layout = draw(st.sampled_from(["packed", "aligned", "titles", "free"]))
    if layout == "free":
        # Any offsets: gaps, overlaps, any order, and padding after the last field.
        offsets = [draw(st.integers(0, 20)) for _ in range(count)]
        end = max(at + one.itemsize for at, one in zip(offsets, formats, strict=True))
        return np.dtype(
            {
                "names": names,
                "formats": formats,
                "offsets": offsets,
                "itemsize": end + draw(st.integers(0, 5)),
            }
        )
    fields: list[Any] = list(zip(names, formats, strict=True))
    if layout == "titles":
        fields = [((f"Title {name}", name), one) for name, one in fields]
    return np.dtype(fields, align=layout == "aligned")


scalars = st.sampled_from(SCALARS).map(np.dtype)
dtypes = scalars | structured(scalars) | structured(scalars | structured(scalars))
shapes = st.one_of(
    st.just(()),
    st.tuples(st.integers(0, 40)),
    st.lists(st.integers(0, 6), min_size=2, max_size=4).map(tuple),
)


def fill(dtype: Dtype, shape: tuple[int, ...], seed: int) -> AnyArray:
    """Return an array of random bytes, but with valid text and booleans."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype.kind == "U":
        codes = rng.integers(1, 0x7F, count * dtype.itemsize // 4).astype(dtype.byteorder + "u4")
        data = codes.tobytes()
    elif dtype.kind == "b":
        data = rng.integers(0, 2, count, "u1").tobytes()
    else:
        data = rng.bytes(count * dtype.itemsize)
    return np.frombuffer(bytearray(data), dtype, count).reshape(shape)


def smooth(dtype: Dtype, shape: tuple[int, ...], seed: int) -> AnyArray:
    """Return rising numbers with some noise, of which array chunks are the smallest."""
    count = int(np.prod(shape))
    noise = np.random.default_rng(seed).integers(0, 9, count)
    return (1_000_003 * np.arange(count) + noise).astype(dtype).reshape(shape)


def arrange(array: AnyArray, layout: str) -> AnyArray:
    """Return the same array in another memory layout."""
    if layout == "F":
        return array.copy("F")
    if layout == "strided" and array.ndim:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "backwards" and array.ndim:
        return array[::-1].copy()[::-1]
    if layout == "transposed":
        return array.T
    return array


layouts = st.sampled_from(["C", "F", "strided", "backwards", "transposed"])


@st.composite
def arrays(draw: st.DrawFn, dtypes: st.SearchStrategy[Dtype] = dtypes) -> AnyArray:
    array = fill(draw(dtypes), draw(shapes), draw(st.integers(0, 2**32)))
    return arrange(array, draw(layouts))


@st.composite
def chunk_shapes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the chunks of a grid, which may be longer than the array."""
    return tuple(draw(st.integers(1, length + 2)) for length in shape)


@st.composite
def slices(draw: st.DrawFn, length: int) -> slice:
    place = st.none() | st.integers(-length - 3, length + 3)
    step = draw(st.none() | st.integers(-4, 4).filter(bool) | st.sampled_from([-100, 100]))
    return slice(draw(place), draw(place), step)


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    used = draw(st.integers(0, len(shape)))
    entries: list[Any] = []
    # Without an ellipsis, the omitted axes are the last ones.
    has_ellipsis = draw(st.booleans())
    split = draw(st.integers(0, used)) if has_ellipsis else used
    chosen = [*shape[:split], *shape[len(shape) - used + split :]]
    for length in chosen:
        if length and draw(st.booleans()):
            index = draw(st.integers(-length, length - 1))
            entries.append(draw(st.sampled_from([index, np.int64(index), np.int8(index)])))
        else:
            entries.append(draw(slices(length)))
    if has_ellipsis:
        entries.insert(split, Ellipsis)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    return entries[0] if len(entries) == 1 and draw(st.booleans()) else tuple(entries)


def assert_same(found: Any, expected: Any) -> None:
    """Check type (array or scalar), dtype, shape and every bit that belongs to a field."""
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert_same_bits(np.asarray(found), np.asarray(expected))


def assert_same_bits(found: AnyArray, expected: AnyArray) -> None:
    assert found.shape == expected.shape
    if expected.dtype.names is None:
        assert found.tobytes() == expected.tobytes()
    else:
        for name in expected.dtype.names:
            assert_same_bits(found[name], expected[name])


@st.composite
def picks(draw: st.DrawFn, length: int, *, flat: bool = False) -> Any:
    """Return a list, integer array or mask that indexes an axis of this length."""
    kind = draw(st.sampled_from(["list", "array", "mask", "regular", *([] if flat else ["nd"])]))
    if kind == "mask":
        mask = draw(st.lists(st.booleans(), min_size=length, max_size=length))
        return np.array(mask, bool) if draw(st.booleans()) or not mask else mask
    if not length:
        return draw(st.sampled_from([[], np.zeros(0, "i4")]))
    place = st.integers(-length, length - 1)
    if kind == "regular":
        return list(range(length)[draw(slices(length))])
    if kind == "list":
        return draw(st.lists(place, max_size=2 * length))
    dtype = draw(st.sampled_from(["i1", "<i4", ">i8", "i8"]))
    if kind == "array":
        return np.array(draw(st.lists(place, max_size=2 * length)), dtype)
    rows, columns = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    indices = draw(st.lists(place, min_size=rows * columns, max_size=rows * columns))
    return np.array(indices, dtype).reshape(rows, columns)


@st.composite
def picking_selections(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Return an index with one list or mask, for an array of at least one dimension."""
    used = draw(st.integers(1, len(shape)))
    has_ellipsis = draw(st.booleans())
    split = draw(st.integers(0, used)) if has_ellipsis else used
    chosen = [*shape[:split], *shape[len(shape) - used + split :]]
    listed = draw(st.integers(0, used - 1))
    entries: list[Any] = []
    for axis, length in enumerate(chosen):
        if axis == listed:
            entries.append(draw(picks(length)))
        elif length and draw(st.booleans()):
            entries.append(draw(st.integers(-length, length - 1)))
        else:
            entries.append(draw(slices(length)))
    if has_ellipsis:
        entries.insert(split, Ellipsis)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    return entries[0] if len(entries) == 1 and draw(st.booleans()) else tuple(entries)


@st.composite
def outer_selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index for `oindex` with an entry for each axis."""
    entries: list[Any] = []
    for length in shape:
        if length and draw(st.integers(0, 3)) == 0:
            entries.append(draw(st.integers(-length, length - 1)))
        else:
            entries.append(draw(slices(length) | picks(length, flat=True)))
    return tuple(entries)
