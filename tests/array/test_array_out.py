"""Reading into the caller's memory: arrays of any layout and any writable buffer."""

import array as arrays_of_python
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp

from ..arrayfiles import array_file
from ..strategies import (
    AnyArray,
    arrays,
    assert_same,
    fill,
    picking_selections,
    selections,
)

ARRAY = fill(np.dtype("<i4"), (12, 5), 4)


def stored(order: Any = "C", nitems: int = 10) -> bytes:
    return array_file(ARRAY.copy(order), chunk_nbytes=4 * nitems)


@given(arrays(), st.data(), st.integers(1, 200))
def test_a_buffer_is_filled_in_c_order(
    array: AnyArray, data: st.DataObject, chunk_nbytes: int
) -> None:
    picks = picking_selections(array.shape) if array.ndim else st.just(())
    index = data.draw(selections(array.shape) | picks)
    with bp.open(array_file(array, chunk_nbytes=max(1, chunk_nbytes))) as opened:
        wanted = opened.read(index)
        out = bytearray(wanted.nbytes)
        assert opened.read(index, out=out) is out
    if wanted.nbytes:  # as void items: padding is copied too
        assert out == wanted.view(np.dtype((np.void, array.dtype.itemsize))).tobytes()
    assert wanted.shape == array[index].shape


@pytest.mark.parametrize("order", ["C", "F"])
def test_kinds_of_buffers(order: Any, tmp_path: Path) -> None:
    expected = ARRAY[2:7].tobytes()
    path = tmp_path / "mapped"
    path.write_bytes(bytes(100))
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 100) as mapped:
        shaped = memoryview(bytearray(100)).cast("i", (5, 5))
        for out in (
            bytearray(100),
            memoryview(bytearray(100)),
            shaped,
            arrays_of_python.array("i", [0] * 25),
            mapped,
        ):
            with bp.open(stored(order)) as opened:
                assert opened.read(slice(2, 7), out=out) is out
            assert bytes(out) == expected
            if isinstance(out, memoryview):
                out.release()
    assert path.read_bytes() == expected


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    out = torch.zeros((5, 5), dtype=torch.int32)
    with bp.open(stored()) as opened:
        assert opened.read(slice(2, 7), out=out) is out
        assert out.numpy().tobytes() == ARRAY[2:7].tobytes()
        with pytest.raises(ValueError, match="contiguous"):
            opened.read(slice(2, 7), out=out.T)
        with pytest.raises(TypeError, match="require gradient"):
            opened.read(slice(2, 7), out=torch.zeros((5, 5), requires_grad=True))
        with pytest.raises(ValueError, match="items of float32, not int32"):
            opened.read(slice(2, 7), out=torch.zeros((5, 5)))
    assert bp.load(stored(), out=torch.zeros(60, dtype=torch.int32)).sum() == ARRAY.sum()


@pytest.mark.parametrize("size", [99, 101, 0])
def test_sizes_that_do_not_fit(size: int) -> None:
    with bp.open(stored()) as opened, pytest.raises(ValueError, match=f"{size} bytes.*needs 100"):
        opened.read(slice(2, 7), out=bytearray(size))


def test_items_of_another_type_are_refused() -> None:
    for out in (arrays_of_python.array("f", [0] * 25), memoryview(bytearray(100)).cast("H")):
        with bp.open(stored()) as opened, pytest.raises(ValueError, match="not int32 or bytes"):
            opened.read(slice(2, 7), out=out)
        assert not any(out)


def test_read_only_buffers_are_refused() -> None:
    frozen = np.zeros((5, 5), "<i4")
    frozen.flags.writeable = False
    with bp.open(stored()) as opened:
        for out in (bytes(100), memoryview(bytearray(200))[::2], frozen):
            with pytest.raises(ValueError, match="writable"):
                opened.read(slice(2, 7), out=out)
        for other in ([0] * 25, "text", 5, None.__class__):
            with pytest.raises(TypeError, match="writable buffer"):
                opened.read(slice(2, 7), out=other)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("nitems", [1, 5, 7, 10, 60])
def test_whole_arrays(order: Any, layout: Any, nitems: int) -> None:
    out = np.zeros((12, 5), "<i4", order=layout)
    assert bp.load(stored(order, nitems), out=out) is out
    assert_same(out, ARRAY)
    buffer = bytearray(240)
    assert bp.load(stored(order, nitems), out=buffer) is buffer
    assert buffer == ARRAY.tobytes()


def test_masked_items_would_stay_masked() -> None:
    out = np.ma.zeros((12, 5), "<i4")
    assert bp.load(stored(), out=out) is out
    assert_same(out.data, ARRAY)
    out[0, 0] = np.ma.masked
    with pytest.raises(ValueError, match="masked"):
        bp.load(stored(), out=out)


def test_empty_and_scalar_results() -> None:
    with bp.open(stored()) as opened:
        assert opened.read(slice(0, 0), out=bytearray()) == b""
        assert opened.read((3, 4), out=bytearray(4)) == ARRAY[3, 4].tobytes()
        zero = np.zeros((), "<i4")
        assert opened.read((3, 4), out=zero) is zero
        assert zero == ARRAY[3, 4]
    with bp.open(array_file(np.array(5.5))) as opened:
        assert opened.read(out=bytearray(8)) == np.array(5.5).tobytes()


def test_a_list_of_lists_into_strides_that_cannot_be_one_axis() -> None:
    index = [[4, 1, 0], [2, 2, 9]]
    with bp.open(stored()) as opened:
        out = np.zeros((2, 6, 5), "<i4")[:, :3]
        assert opened.read(index, out=out) is out
        assert_same(out, ARRAY[index])
        out[...] = 0
        assert opened.read(index, out=out, on_error="fill") is out
        assert_same(out, ARRAY[index])


def test_padding_is_kept() -> None:
    dtype = np.dtype([("a", "i1"), ("b", "<i4")], align=True)
    array = fill(dtype, (6, 4), 1)
    data = array_file(array, chunk_nbytes=5 * dtype.itemsize)
    nested = [[4, 1], [2, 2]]
    with bp.open(data) as opened:
        for index in (slice(None, None, 2), [3, 0, 5], nested):
            out = np.zeros((*np.shape(array[index])[:-1], 8), dtype)[..., ::2]
            found = opened.read(index, out=out)
            assert found.view("V8").tobytes() == array.view("V8")[index].tobytes()


class TestStraightIntoTheResult:
    """Whole chunks, and runs of them, are decoded straight into the result."""

    ARRAY = fill(np.dtype("<i4"), (40, 6, 8), 9)

    @pytest.mark.parametrize(
        ("index", "rows"),
        [
            ((), 3),
            (slice(3, 37), 3),
            ((slice(2, 30), None), 2),
            ((7, slice(1, 4)), 3),
            ((7, 2, slice(1, 4)), 3),
            # One run of each chunk:
            (slice(None, None, 2), 1),
            ([5, 1, 30], 1),
            ((slice(4, 9), 3), 1),
        ],
        ids=str,
    )
    def test_chunks_of_whole_rows(
        self, index: Any, rows: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bloscpack.array.gather._read_span", refuse)
        with bp.open(array_file(self.ARRAY, chunk_nbytes=rows * 192)) as opened:
            assert_same(opened[index], self.ARRAY[index])
            out = np.zeros_like(self.ARRAY[index])
            assert_same(opened.read(index, out=out), self.ARRAY[index])

    def test_chunks_that_cut_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bloscpack.array.gather._read_span", refuse)
        with bp.open(array_file(self.ARRAY, chunk_nbytes=100)) as opened:
            for index in (slice(3, 30), (slice(None, None, 3)), [9, 4], (5, slice(2, 4))):
                assert_same(opened[index], self.ARRAY[index])

    def test_fortran_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bloscpack.array.gather._read_span", refuse)
        with bp.open(array_file(self.ARRAY.copy("F"), chunk_nbytes=4 * 240)) as opened:
            for index in ((..., slice(2, 5)), (..., 3), (..., [5, 1])):
                assert_same(opened[index], self.ARRAY[index])

    def test_rows_that_are_not_adjacent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bloscpack.array.gather._read_span", refuse)
        out = np.zeros((40, 7, 8), "<i4")[:, :6]
        with bp.open(array_file(self.ARRAY, chunk_nbytes=192)) as opened:
            assert opened.read((), out=out) is out
        assert_same(out, self.ARRAY)


def refuse(*_: Any) -> memoryview:
    raise AssertionError("a chunk is decoded into memory of its own")
