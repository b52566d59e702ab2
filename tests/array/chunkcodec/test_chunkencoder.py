"""Arrays of every dtype come back bit for bit, as an array chunk or as a Blosc chunk."""

import sys
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bloscpack.array.chunkcodec import chunkencoder
from bloscpack.array.chunkcodec.chunkencoder import (
    block_of,
    encode_chunk,
    geometry_of,
    kind_of,
)
from bloscpack.format.arraychunk import (
    MAX_BLOCK_NBYTES,
    ArrayChunkHead,
    Coder,
    Map,
    Predictor,
)
from bloscpack.format.codec import (
    ARRAY_CHUNK_VERSION,
    ChunkHeader,
    CodecParams,
    decode_into,
    encode,
)

from ...reference.arraychunk import decode

AnyArray = np.ndarray[Any, Any]

NUMPY = ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8",
         "<c16", "<M8[ns]", "<m8[D]", ">i2", ">u4", ">f4", ">f8", ">c8", ">M8[s]"]  # fmt: skip
FOREIGN = ["V3", "S5", "<U2", "<f16", "i4,f4"]
ML_DTYPES = sorted(
    name
    for name in dir(ml_dtypes)
    if isinstance(getattr(ml_dtypes, name), type)
    and name not in ("finfo", "iinfo")
    and not name.startswith("_")
)


def all_dtypes() -> list[np.dtype[Any]]:
    found = [np.dtype(name) for name in NUMPY]
    for name in ML_DTYPES:
        dtype = np.dtype(getattr(ml_dtypes, name))
        found.append(dtype)
    return found


def params_of(array: AnyArray) -> CodecParams:
    return CodecParams("zstd", 3, 1, min(array.dtype.itemsize, 255))


def chunk_of(array: AnyArray) -> bytes:
    view = memoryview(np.ascontiguousarray(array).reshape(-1).view("u1"))
    params = params_of(array)
    chunk = encode_chunk(view, array.dtype, array.shape, params)
    assert len(chunk) <= len(encode(view, params))
    return chunk


def check(array: AnyArray) -> bytes:
    """Encode an array, compare what both readers decode, and return the chunk."""
    chunk = chunk_of(array)
    content = np.ascontiguousarray(array).tobytes()
    out = bytearray(array.nbytes)
    decode_into(chunk, out)
    if chunk[0] == ARRAY_CHUNK_VERSION:
        assert decode(chunk) == content
    assert out == content
    return chunk


@pytest.mark.sampled(11)
@pytest.mark.parametrize("dtype", all_dtypes(), ids=str)
@given(data=st.data())
def test_any_bits_of_every_dtype_come_back(dtype: np.dtype[Any], data: st.DataObject) -> None:
    assert kind_of(dtype) is not None
    shape = data.draw(hnp.array_shapes(max_dims=4, min_side=0, max_side=12))
    seed = data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    nbytes = prod(shape) * dtype.itemsize
    content = {
        "noise": lambda: rng.bytes(nbytes),
        "few": lambda: rng.integers(0, 3, nbytes, "u1").tobytes(),
        "walk": lambda: np.cumsum(rng.integers(-2, 3, nbytes)).astype("u1").tobytes(),
        "drawn": lambda: data.draw(st.binary(min_size=nbytes, max_size=nbytes)),
    }[data.draw(st.sampled_from(["noise", "few", "walk", "drawn"]))]()
    check(np.frombuffer(content, dtype).reshape(shape))


FLOATS = [np.dtype(name) for name in ("<f2", "<f4", "<f8")] + [np.dtype(ml_dtypes.bfloat16)]


def special_bits(dtype: np.dtype[Any]) -> AnyArray:
    """NaN of every kind, infinities, zeros and denormals, as unsigned integers."""
    nbits = 8 * dtype.itemsize
    exponent = int(np.array(np.inf).astype(dtype).view(f"u{dtype.itemsize}"))
    quiet = exponent | (exponent & -exponent) >> 1
    positive = [0, 1, 2, (exponent & -exponent) - 1, exponent & -exponent, exponent - 1, exponent,
                exponent + 1, quiet, quiet + 5, (1 << nbits - 1) - 1]  # fmt: skip
    return np.array(positive + [v | 1 << nbits - 1 for v in positive], f"u{dtype.itemsize}")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("share", [0.0005, 0.05, 1.0])
def test_special_floats_come_back(dtype: np.dtype[Any], share: float) -> None:
    rng = np.random.default_rng(2)
    smooth = np.sin(np.arange(20_000) / 300).reshape(4, 50, 100)
    for base in (smooth, np.round(smooth, 2), np.zeros_like(smooth), np.round(smooth * 9)):
        bits = base.astype(dtype).view(f"u{dtype.itemsize}").copy()
        where = rng.random(bits.shape) < share
        bits[where] = rng.choice(special_bits(dtype), int(where.sum()))
        check(bits.view(dtype))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_extreme_integers_come_back(dtype: str) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(3)
    ramp = np.arange(6000).reshape(60, 100)
    for step, fill in ((1, info.max), (1, info.min), (100, info.min), (1000, info.max)):
        array = (ramp * step % 120).astype(dtype)
        array[rng.random(array.shape) < 0.05] = fill
        check(array)
    check(np.array([[info.min, info.max]] * 500, dtype))
    check(np.full((7, 9), info.min, dtype))


def map_of(array: AnyArray) -> set[Map]:
    plan = ArrayChunkHead.unpack(check(array)).plan
    return {Map(plane.map) for plane in plan.planes}


def test_the_map_suits_the_data() -> None:
    rng = np.random.default_rng(4)
    walk = np.cumsum(rng.integers(-99, 100, 60_000)).reshape(200, 300)
    assert map_of((walk / 100).astype("f8")) == {Map.QUOTIENT}
    # Fixed-point numbers, most of which have other low bits than 0.
    assert map_of((walk / 4096).astype("f4")) == {Map.QUOTIENT}
    assert map_of(np.sin(walk / 3e4).astype("f4")) == {Map.FLOAT}
    assert map_of(walk.astype("i8")) == {Map.OFFSET}
    values = np.sort(rng.random(40)).astype("f8")
    assert map_of(values[rng.integers(0, 40, (200, 300))]) == {Map.RANK}
    days = walk.astype("M8[D]").astype("M8[ns]")
    (plane,) = ArrayChunkHead.unpack(check(days)).plan.planes
    assert plane.scale == 86_400 * 10**9
    assert plane.width <= 4


def test_a_fill_value_costs_little() -> None:
    """A coast: NaN, or a number far from the others, over a quarter of the array."""
    y, x = np.mgrid[:300, :300]
    rng = np.random.default_rng(5)
    field = (280 + np.sin(y / 40) * np.cos(x / 30) + rng.normal(0, 1e-3, y.shape)).astype("f4")
    land = np.hypot(y - 100, x - 120) < 85 + 10 * np.sin(np.arctan2(y - 100, x - 120) * 7)
    for fill in (np.nan, 1e20, -9999.0):
        filled = np.where(land, np.float32(fill), field)
        assert len(check(filled)) < len(check(field))


def test_last_axes_of_a_few_items_are_planes() -> None:
    rng = np.random.default_rng(6)
    image = np.cumsum(rng.integers(-3, 4, (120, 200)), axis=1)
    pixels = np.stack([image, image + 1, image // 2], -1).astype("u1")
    plan = ArrayChunkHead.unpack(check(pixels)).plan
    assert len(plan.planes) == 3
    assert plan.planes[1].predictor & Predictor.AFTER_PLANE
    signal = np.cumsum(rng.normal(size=(30_000, 2)), axis=0).astype("f4").view("c8")
    assert len(ArrayChunkHead.unpack(check(signal)).plan.planes) == 2


@pytest.mark.parametrize("dtype", FOREIGN)
def test_other_types_are_blosc_chunks(dtype: str) -> None:
    array = np.zeros(500, dtype)
    assert kind_of(array.dtype) is None
    assert chunk_of(array)[0] == 2


def test_incompressible_and_repeated_data_are_blosc_chunks() -> None:
    rng = np.random.default_rng(7)
    assert check(rng.integers(0, 2**64, 5000, "u8"))[0] == 2
    assert check(np.tile(rng.integers(0, 2**32, 1000, "u4"), 50))[0] == 2
    assert check(np.zeros((0, 5), "f4"))[0] == 2


def test_all_shapes_have_blocks_within_the_limits() -> None:
    for shape in ((5,), (1, 1), (3, 0), (70_000, 3), (9, 8, 7), (2, 3, 4, 5, 6), (4, 100_000), ()):
        if prod(shape):
            assert prod(shape) % prod(geometry_of(shape)) == 0
    for sides in ((1, 1, 1 << 20), (1, 5000, 3), (900, 3, 3), (40, 300, 300), (3, 2, 20_000)):
        for nplanes, itemsize in ((1, 1), (2, 4), (8, 2), (16, 8)):
            for deep in (False, True):
                block = block_of(sides, nplanes, itemsize, deep=deep)
                assert all(1 <= b <= s for b, s in zip(block, sides, strict=True))
                assert prod(block) * nplanes * itemsize <= MAX_BLOCK_NBYTES // 2
                assert block[2] == sides[2] or block[:2] == (1, 1)


@pytest.mark.parametrize("dtype", ["i2", "i4", "f4", "f8", "c8"])
def test_byte_order_does_not_change_the_size(dtype: str) -> None:
    rng = np.random.default_rng(8)
    little = np.cumsum(rng.integers(-9, 10, (80, 300)), axis=1).astype(f"<{dtype}")
    chunk = check(little.astype(f">{dtype}"))
    assert chunk[0] == ARRAY_CHUNK_VERSION
    assert len(chunk) == len(check(little))


def test_blosc_encodes_all_only_if_it_may_be_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(view: Any, params: CodecParams) -> bytes:
        sizes.append(len(view))
        return encode(view, params)

    monkeypatch.setattr("bloscpack.array.chunkcodec.chunkencoder.encode", counted)
    rng = np.random.default_rng(8)
    smooth = np.cumsum(rng.integers(-9, 10, (700, 700)), axis=1).astype("i4")
    noise = rng.integers(0, 2**32, (700, 700), "u4")
    for array, is_whole in ((smooth, False), (smooth[:5], True), (noise, True)):
        sizes.clear()
        view = memoryview(np.ascontiguousarray(array).reshape(-1).view("u1"))
        encode_chunk(view, array.dtype, array.shape, CodecParams("zstd", 3, 1, array.itemsize))
        assert (array.nbytes in sizes) == is_whole


@pytest.mark.parametrize(("dtype", "most"), [("i2", 400), ("f4", 480)])
def test_the_choice_takes_few_calls(dtype: str, most: int) -> None:
    """Calls of Python hold the GIL, for which other threads that encode chunks wait."""
    rng = np.random.default_rng(8)
    numbers = np.cumsum(rng.integers(-9, 10, (500, 500)), axis=1)
    content = memoryview((numbers / 16).astype(dtype)).cast("B")
    params = CodecParams("zstd", 3, 1, np.dtype(dtype).itemsize)
    calls: list[str] = []

    def count(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            calls.append(event)

    encode_chunk(content, np.dtype(dtype), (500, 500), params)  # fills caches of shapes and types
    sys.setprofile(count)
    try:
        chunk = encode_chunk(content, np.dtype(dtype), (500, 500), params)
    finally:
        sys.setprofile(None)
    assert chunk[0] == ARRAY_CHUNK_VERSION
    assert 0 < len(calls) <= most, len(calls)


def test_labels_are_a_blosc_chunk_of_large_blocks() -> None:
    y, x = np.mgrid[:512, :512]
    labels = (y // 97 * 31 + x // 61 + (y * x % 3001 < 9)).astype("<i4")
    params = CodecParams("zstd", 3, 1, 4)
    chunk = check(labels)
    head = ChunkHeader.unpack(chunk)
    assert not head.is_array
    assert head.blocksize == 1 << 18
    assert len(chunk) < 0.9 * len(encode(labels.tobytes(), params))


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """Return a list that gets the arguments of each call of a function."""
    calls: list[Any] = []
    call = getattr(owner, name)

    def count(*args: Any, **named: Any) -> Any:
        calls.append(args)
        return call(*args, **named)

    monkeypatch.setattr(owner, name, count)
    return calls


def test_what_mostly_repeats_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    y, x = np.mgrid[:512, :512]
    labels = (y // 97 * 31 + x // 97).astype("<i4")
    mixed = labels.copy()
    # Not in the pieces that are looked at.
    mixed.reshape(8, -1)[:, 2048:] = np.random.default_rng(0).integers(0, 9999, (8, 30720))
    choices = counted(monkeypatch, chunkencoder, "_choose")
    encodings = counted(monkeypatch, chunkencoder, "encode")
    for array, count in ((labels, 0), (np.zeros((400, 500, 3), "u1"), 0), (mixed, 1)):
        choices.clear()
        encodings.clear()
        chunk = encode_chunk(array.tobytes(), array.dtype, array.shape, params_of(array))
        assert (len(choices), len(encodings) > 1) == (count, count > 0), array.dtype
    assert chunk[0] == ARRAY_CHUNK_VERSION
    check(labels)
    check(mixed)


def test_bins_are_tried_only_if_they_may_win(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    noise = np.cumsum(rng.integers(-9, 10, (300, 400)), axis=1).astype("<i2")
    heavy = np.cumsum(rng.standard_cauchy((300, 400)) * 100, axis=1).astype("<f4")
    trials = counted(monkeypatch, chunkencoder._Trial, "nbytes")
    found = []
    for array in (noise, heavy):
        trials.clear()
        check(array)
        found.append([plane.coder for _, plane, *_ in trials])
    assert Coder.BINS not in found[0]
    assert found[1][-1] == Coder.BINS


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_items_that_repeat_are_not_shuffled(dtype: str) -> None:
    rng = np.random.default_rng(3)
    # More numbers than a dictionary holds, in runs.
    array = rng.normal(size=(110, 25))[rng.integers(0, 110, 1600)].reshape(-1).astype(dtype)
    params = params_of(array)
    shuffled = len(encode(array.tobytes(), params))
    chunk = check(array)
    assert not ChunkHeader.unpack(chunk).is_array
    assert len(chunk) < 0.8 * shuffled


def test_coordinate_grids_have_third_differences() -> None:
    y, x = np.mgrid[-1:1:300j, -1:1:400j]
    latitude = np.degrees(np.arctan(np.hypot(x, 3 + y) * np.cos(x)))
    chunk = check(latitude)
    head = ArrayChunkHead.unpack(chunk)
    assert head.plan.shape == (300, 1, 400)
    assert head.plan.planes[0].predictor == Predictor.SECOND | Predictor.AFTER_SLICE
    # Second differences of one row are 40 bits, all three of the rows 30.
    assert len(chunk) < 0.55 * latitude.nbytes
    latitude[100:103, 50:60] = np.nan
    check(latitude)
    steps = np.random.default_rng(4).normal(size=(300, 400)) / 1000
    head = ArrayChunkHead.unpack(check(100 + np.cumsum(steps, axis=1)))
    assert head.plan.shape == (1, 300, 400)


def test_residuals_that_repeat_are_found_if_blosc_finds_them() -> None:
    rng = np.random.default_rng(5)
    walk = np.cumsum(np.tile(rng.integers(-30, 30, 1500), 20)).reshape(-1, 3).astype("<i4")
    assert len(check(walk)) < 0.05 * walk.nbytes


@pytest.mark.parametrize(("last", "nplanes"), [(8, 8), (9, 1), (14, 1)])
def test_a_last_axis_of_more_than_a_few_items_has_no_planes(last: int, nplanes: int) -> None:
    z, y, x = np.mgrid[:60, :50, :last]
    array = (100 * np.sin(z / 9) + 50 * np.cos(y / 7) + x).astype("<i4")
    head = ArrayChunkHead.unpack(check(array))
    assert len(head.plan.planes) == nplanes
