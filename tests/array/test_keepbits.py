"""Files of rounded floats: every way of writing gives the same values and names the rounding."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import FormatError
from bloscpack.format.rounding import ATTRIBUTE, MANTISSA_BITS, Rounding

from ..strategies import AnyArray, fill

TYPES = ["<f2", ">f4", "<f8", "c8", ">c16"]


def rounded(array: AnyArray, keepbits: int) -> AnyArray:
    order: Any = "F" if array.flags.f_contiguous else "C"
    content = array.reshape(-1, order=order).view("u1").data
    found = Rounding.of(array.dtype, keepbits).apply(content)
    return np.frombuffer(found, array.dtype).reshape(array.shape, order=order)


def is_same(one: AnyArray, other: AnyArray) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.blp"


@pytest.fixture
def array() -> AnyArray:
    return np.random.default_rng(5).standard_normal((60, 20)).astype("f4")


def test_default_rounds_nothing(path: Path, array: AnyArray) -> None:
    bp.save(path, array)
    assert is_same(bp.load(path), array)
    assert bp.open(path).attrs == {}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", TYPES)
def test_save(dtype: str, order: Any, path: Path) -> None:
    array = np.asarray(fill(np.dtype(dtype), (30, 7), 4), order=order)
    before = array.tobytes()
    bp.save(path, array, chunks=4, keepbits=3)
    assert array.tobytes() == before
    assert is_same(bp.load(path), rounded(array, 3))
    with bp.open(path) as a:
        assert a.attrs == {ATTRIBUTE: 3}
        assert a.header.format_version == 3
    assert bp.verify(path).ok


@pytest.mark.parametrize("name", sorted(set(MANTISSA_BITS) - {np.dtype(d).name for d in TYPES}))
def test_extension_types(name: str, path: Path) -> None:
    array = np.arange(1, 9).astype(getattr(pytest.importorskip("ml_dtypes"), name))
    bp.save(path, array, keepbits=1)
    assert bp.load(path).astype(float).tolist() == [1, 2, 3, 4, 4, 6, 8, 8]


@given(shape=st.lists(st.integers(0, 5), max_size=3), keepbits=st.integers(1, 10))
def test_any_shape(shape: list[int], keepbits: int, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "shape.blp"
    array = fill(np.dtype("f2"), tuple(shape), 3)
    bp.save(path, array, keepbits=keepbits)
    assert is_same(bp.load(path), rounded(array, keepbits))


def test_source_of_read_only_memory(path: Path, array: AnyArray) -> None:
    array.flags.writeable = False
    bp.save(path, array, keepbits=5, nthreads=3)
    assert is_same(bp.load(path), rounded(array, 5))


@pytest.mark.parametrize("step", [1, 7, 60])
def test_writer(step: int, path: Path, array: AnyArray) -> None:
    with bp.Writer(path, dtype="f4", shape=(None, 20), chunks=9, keepbits=6) as w:
        assert w.attrs == {ATTRIBUTE: 6}
        for start in range(0, 60, step):
            w.append(array[start : start + step])
            if start % 14 == 0:
                w.flush()
    assert is_same(bp.load(path), rounded(array, 6))
    assert bp.open(path).attrs == {ATTRIBUTE: 6}


@pytest.mark.parametrize("order", ["C", "F"])
def test_append(order: Any, path: Path, array: AnyArray) -> None:
    array = np.asarray(array, order=order)
    cut: Any = (lambda a, b: array[:, a:b]) if order == "F" else (lambda a, b: array[a:b])
    bp.save(path, cut(0, 8), chunks=3, keepbits=6)
    with bp.open(path, "a") as a:
        a.append(cut(8, 10))
        assert is_same(a[...], rounded(cut(0, 10), 6))
        a.flush()
        a.append(cut(10, 20))
    assert is_same(bp.load(path), rounded(cut(0, 20), 6))
    assert bp.verify(path).ok


def test_append_without(path: Path, array: AnyArray) -> None:
    """Only `keepbits` makes later rows rounded, and not an attribute that was copied."""
    bp.save(path, array, attrs={ATTRIBUTE: 6})
    with bp.open(path, "a") as a:
        a.append(array)
        a.attrs[ATTRIBUTE] = 7
    assert is_same(bp.load(path), np.concatenate([array, array]))


def test_append_as_in_016(path: Path, array: AnyArray) -> None:
    bp.save(path, array, chunks=9, keepbits=6)
    (path.parent / "new").write_bytes(array.tobytes())
    bp.append.append(path, path.parent / "new")
    assert is_same(bp.load(path), rounded(np.concatenate([array, array]), 6))


def test_append_to_a_recovered_file(path: Path, array: AnyArray) -> None:
    bp.save(path, array, chunks=9, keepbits=6)
    data = path.read_bytes()
    bp.recover(data[: len(data) // 2], path)
    nrows = len(bp.load(path))
    assert 0 < nrows < 60
    with bp.open(path, "a") as a:
        a.append(array[nrows:])
    assert is_same(bp.load(path), rounded(array, 6))
    assert bp.open(path).attrs[ATTRIBUTE] == 6


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts(order: Any, tmp_path: Path) -> None:
    """Parts have the bytes of `save`, also where the size of blocks is tried on a sample."""
    array = np.random.default_rng(1).standard_normal((1100, 1001)).cumsum(0)
    array = np.asarray(array.astype("f4"), order=order)
    bp.save(tmp_path / "saved.blp", array, keepbits=9)
    job = bp.parts(
        tmp_path / "parts.blp",
        shape=array.shape,
        dtype="f4",
        order=order,
        keepbits=9,
        sample=array,
    )
    with job:
        cut: Any = (lambda a, b: array[:, a:b]) if order == "F" else (lambda a, b: array[a:b])
        job.commit([job.write(a, cut(a, b)) for a, b in job.split("1 MiB")])
    assert (tmp_path / "parts.blp").read_bytes() == (tmp_path / "saved.blp").read_bytes()
    assert is_same(bp.load(tmp_path / "parts.blp"), rounded(array, 9))


def test_parts_of_another_rounding(tmp_path: Path, array: AnyArray) -> None:
    jobs = [
        bp.parts(tmp_path / "a.blp", shape=array.shape, dtype="f4", id="x", keepbits=keepbits)
        for keepbits in (5, 6)
    ]
    record = jobs[0].write(0, array)
    with pytest.raises(ValueError, match="another job"):
        jobs[1].commit([record])


def test_blocks_are_tried_on_rounded_items(path: Path) -> None:
    """An item may end after the sample does."""
    array = np.random.default_rng(1).standard_normal(1_048_577 + 333_333)
    bp.save(path, array[1:], keepbits=9, chunks=1_000_001)
    assert is_same(bp.load(path), rounded(array[1:], 9))
    with bp.open(path) as a:
        chunk = a.container.fetch(0)
    assert 0 < chunk.header.blocksize < 1 << 19


def test_smaller(tmp_path: Path) -> None:
    array = np.random.default_rng(1).standard_normal(300_000).astype("f4")
    for keepbits in (None, 9, 2):
        bp.save(tmp_path / f"{keepbits}", array, keepbits=keepbits)
    sizes = [(tmp_path / str(keepbits)).stat().st_size for keepbits in (None, 9, 2)]
    assert sizes[1] < 0.6 * sizes[0]
    assert sizes[2] < 0.3 * sizes[0]


class TestAttrs:
    def test_beside_others(self, path: Path, array: AnyArray) -> None:
        given = {"unit": "m"}
        bp.save(path, array, keepbits=9, attrs=given)
        assert bp.open(path).attrs == {"unit": "m", ATTRIBUTE: 9}
        assert given == {"unit": "m"}

    @pytest.mark.parametrize("keepbits", [9, np.int32(9)])
    def test_equal(self, keepbits: Any, path: Path, array: AnyArray) -> None:
        bp.save(path, array, keepbits=keepbits, attrs={ATTRIBUTE: keepbits})
        assert bp.open(path).attrs == {ATTRIBUTE: 9}

    def test_contradiction(self, path: Path, array: AnyArray) -> None:
        attrs = {ATTRIBUTE: 8}
        message = f"{ATTRIBUTE} is 8, but the array is written with keepbits=9"
        with pytest.raises(ValueError, match=message):
            bp.save(path, array, keepbits=9, attrs=attrs)
        with pytest.raises(ValueError, match=message):
            bp.Writer(path, dtype="f4", keepbits=9, attrs=attrs)
        with pytest.raises(ValueError, match=message):
            bp.parts(path, shape=(3,), dtype="f4", keepbits=9, attrs=attrs)
        assert list(path.parent.iterdir()) == []

    def test_replaced(self, path: Path, array: AnyArray) -> None:
        bp.save(path, array, keepbits=9)
        with bp.open(path, "a") as a:
            with pytest.raises(ValueError, match="keepbits=9"):
                a.attrs = {ATTRIBUTE: 8}
            with pytest.raises(ValueError, match="keepbits=9"):
                a.update_attrs({ATTRIBUTE: 8})
            a.attrs = {"unit": "m"}
        assert bp.open(path).attrs == {"unit": "m", ATTRIBUTE: 9}

    def test_changed_in_place(self, path: Path, array: AnyArray) -> None:
        bp.save(path, array, keepbits=9)
        with bp.open(path, "a") as a:
            a.attrs[ATTRIBUTE] = 8
            with pytest.raises(ValueError, match="keepbits=9"):
                a.flush()
            del a.attrs[ATTRIBUTE]
        assert bp.open(path).attrs == {ATTRIBUTE: 9}


@pytest.mark.parametrize("dtype", ["i4", "S3", [("a", "f4")]])
def test_other_types(dtype: Any, path: Path) -> None:
    with pytest.raises(TypeError, match="keepbits rounds float16"):
        bp.save(path, np.zeros(3, dtype), keepbits=3)
    with pytest.raises(TypeError, match="keepbits rounds float16"):
        bp.Writer(path, dtype=dtype, keepbits=3)
    assert not path.exists()


def test_damaged_metadata(path: Path) -> None:
    """Reading does not depend on the rounding; appending refuses one that does not fit."""
    array = np.arange(9.0)
    metadata = {"dtype": "'<f8'", "shape": [9], "order": "C", "container": "numpy", "keepbits": 60}
    bp.pack_bytes_to_file(array.tobytes(), path, metadata=json.loads(json.dumps(metadata)))
    assert is_same(bp.load(path), array)
    with pytest.raises(FormatError, match=r"a\.blp.*keepbits must be 1 to 52"):
        bp.open(path, "a")
    (path.parent / "new").write_bytes(array.tobytes())
    with pytest.raises(FormatError, match="keepbits must be 1 to 52"):
        bp.append.append(path, path.parent / "new")
