"""Reading parts of an array: equal to numpy, from the needed chunks only, with clear errors."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import ChecksumMismatch, CodecError, FormatError, NotBloscpackError
from bloscpack.format.codec import CODECS

from ..arrayfiles import NotingFile, array_file, content_file, grid_file
from ..reference.file import take_apart
from ..strategies import (
    AnyArray,
    arrays,
    assert_same,
    chunk_shapes,
    fill,
    picking_selections,
    selections,
)


def rows_file(array: AnyArray, rows: int) -> bytes:
    return array_file(array, chunk_nbytes=rows * array[:1].nbytes)


@st.composite
def stored_arrays(draw: st.DrawFn, min_dims: int = 0) -> tuple[AnyArray, bytes]:
    """Return an array and its file, with chunks of whole rows, of whole items, or cut anywhere."""
    array = draw(arrays().filter(lambda array: array.ndim >= min_dims))
    if array.ndim and draw(st.booleans()):
        chunks = draw(chunk_shapes(array.shape))
        return array, grid_file(array, chunks, codec=draw(st.sampled_from(CODECS)))
    unit = draw(
        st.sampled_from([1, max(1, array.dtype.itemsize), max(1, array[:1].nbytes)])
        if array.ndim
        else st.just(1)
    )
    most = max(1, -(-array.nbytes // unit))
    chunk_nbytes = unit * draw(st.integers(max(1, most // 20), most))
    data = array_file(
        array,
        chunk_nbytes=chunk_nbytes,
        codec=draw(st.sampled_from(CODECS)),
        checksum=draw(st.sampled_from(["None", "crc32"])),
        offsets=draw(st.booleans()),
    )
    return array, data


def indices(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Return a strategy of indices without lists or with one."""
    return selections(shape) | picking_selections(shape) if shape else selections(shape)


@given(stored_arrays(), st.data())
def test_indexing_equals_numpys(stored: tuple[AnyArray, bytes], data: st.DataObject) -> None:
    array, file = stored
    with bp.open(file) as opened:
        whole = np.asarray(opened)
        assert_same(whole, array)
        for _ in range(4):
            index = data.draw(indices(array.shape))
            assert_same(opened[index], whole[index])


@given(stored_arrays(), st.data(), st.sampled_from(["C", "F", "strided", "backwards"]))
def test_reading_into_an_array_equals_indexing(
    stored: tuple[AnyArray, bytes], data: st.DataObject, layout: str
) -> None:
    array, file = stored
    with bp.open(file) as opened:
        index = data.draw(indices(array.shape))
        entries = index if isinstance(index, tuple) else (index,)
        # With an ellipsis numpy gives an array, never a scalar.
        has_ellipsis = any(entry is Ellipsis for entry in entries)
        expected = array[entries if has_ellipsis else (*entries, ...)]
        if layout == "strided" and expected.ndim:
            out = np.zeros((*expected.shape[:-1], 2 * expected.shape[-1]), array.dtype)[..., ::2]
        elif layout == "backwards" and expected.ndim:
            out = np.zeros(expected.shape, array.dtype)[::-1]
        else:
            out = np.zeros(expected.shape, array.dtype, order="F" if layout == "F" else "C")
        if out.dtype != array.dtype:  # numpy.zeros turns S0 into S1
            return
        assert opened.read(index, out=out) is out
        assert_same(out, expected)
        assert_same(opened.read(index), expected)


@given(stored_arrays())
def test_describes_itself(stored: tuple[AnyArray, bytes]) -> None:
    array, file = stored
    with bp.open(file) as opened:
        assert (opened.shape, opened.dtype, opened.ndim) == (array.shape, array.dtype, array.ndim)
        assert (opened.size, opened.nbytes) == (array.size, array.nbytes)
        assert opened.cbytes == len(file)
        assert opened.cratio == array.nbytes / len(file)
        content = b"".join(opened.iter_chunks())
        assert len(content) == array.nbytes
        assert opened.nchunks == len(list(opened.iter_chunks()))
        assert content == b"".join(opened.read_chunk(n) for n in range(opened.nchunks))


@given(stored_arrays())
def test_rows_in_turn(stored: tuple[AnyArray, bytes]) -> None:
    array, file = stored
    with bp.open(file) as opened:
        if not array.ndim:
            with pytest.raises(TypeError):
                len(opened)
            with pytest.raises(TypeError):
                list(opened)
            return
        assert len(opened) == len(array)
        rows = list(opened)
        assert len(rows) == len(array)
        for found, expected in zip(rows, array, strict=True):
            assert_same(found, expected)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_empty_arrays(shape: tuple[int, ...], order: Any) -> None:
    array = np.zeros(shape, "<f8", order=order)
    stream = io.BytesIO()
    bp.save(stream, array)
    with bp.open(stream) as opened:
        assert_same(np.asarray(opened), array)
        assert [row.shape for row in opened] == [shape[1:]] * shape[0]
        assert_same(opened[..., None], array[..., None])
        assert_same(opened[::-2], array[::-2])


class TestChunks:
    ARRAY = np.arange(24, dtype="<i4").reshape(4, 6)

    @pytest.mark.parametrize(
        ("nitems", "expected"),
        [
            (24, (4, 6)),
            (100, (4, 6)),
            (6, (1, 6)),
            (12, (2, 6)),
            (18, (3, 6)),
            (3, (1, 3)),
            (2, (1, 2)),
            (1, (1, 1)),
            (4, None),
            (5, None),
            (7, None),
        ],
    )
    def test_shape_of_a_chunk(self, nitems: int, expected: tuple[int, ...] | None) -> None:
        with bp.open(array_file(self.ARRAY, chunk_nbytes=4 * nitems)) as opened:
            assert opened.chunks == expected
        reverse = None if expected is None else expected[::-1]
        with bp.open(array_file(self.ARRAY.T, chunk_nbytes=4 * nitems)) as opened:
            assert opened.is_fortran
            assert opened.chunks == reverse

    def test_chunks_of_half_items(self) -> None:
        with bp.open(array_file(self.ARRAY, chunk_nbytes=10)) as opened:
            assert opened.chunks is None
            assert_same(opened[1:3, ::2], self.ARRAY[1:3, ::2])

    def test_chunk_by_chunk(self) -> None:
        with bp.open(rows_file(self.ARRAY, 3)) as opened:
            assert np.frombuffer(opened.read_chunk(0), "<i4").tolist() == list(range(18))
            assert [len(chunk) for chunk in opened.iter_chunks()] == [72, 24]
            for index in (-1, 2):
                with pytest.raises(IndexError):
                    opened.read_chunk(index)
                with pytest.raises(IndexError):
                    opened.chunk_offset(index)
                with pytest.raises(IndexError):
                    opened.read_chunk_into(index, bytearray(100))

    def test_chunk_offsets_are_places_in_the_file(self) -> None:
        data = rows_file(self.ARRAY, 1)
        with bp.open(data) as opened:
            assert [opened.chunk_offset(n) for n in range(4)] == take_apart(data).starts

    def test_chunk_into_a_buffer(self) -> None:
        with bp.open(rows_file(self.ARRAY, 3)) as opened:
            out = np.zeros((3, 6), "<i4")
            assert opened.read_chunk_into(0, out) == 72
            assert np.array_equal(out, self.ARRAY[:3])
            larger = bytearray(b"x" * 100)
            assert opened.read_chunk_into(1, larger) == 24
            assert larger == self.ARRAY[3].tobytes() + b"x" * 76
            with pytest.raises(ValueError, match="23 bytes, chunk 1 needs 24"):
                opened.read_chunk_into(1, bytearray(23))
            for wrong in (bytes(100), np.zeros(100, "u1")[::2], "text"):
                with pytest.raises((TypeError, ValueError, BufferError)):
                    opened.read_chunk_into(0, wrong)


class TestReads:
    """Only the chunks that contain part of the selection are read."""

    ARRAY = fill(np.dtype("<i4"), (100, 50), 3)

    @pytest.mark.parametrize(
        ("index", "chunks"),
        [
            (0, {0}),
            (99, {9}),
            (slice(25, 45), {2, 3, 4}),
            (slice(30, 40), {3}),
            (slice(None, None, 30), {0, 3, 6, 9}),
            (slice(None, None, -30), {9, 6, 3, 0}),
            ((slice(50, 52), 7), {5}),
            (slice(0, 0), set()),
            ((3, 49), {0}),
            ((slice(5, 95, 60), slice(None)), {0, 6}),
        ],
        ids=str,
    )
    def test_only_chunks_that_are_needed(self, index: Any, chunks: set[int]) -> None:
        data = rows_file(self.ARRAY, 10)
        starts = [*take_apart(data).starts, len(data)]
        stream = NotingFile(data)
        with bp.open(stream) as opened:
            stream.reads.clear()
            assert_same(opened[index], self.ARRAY[index])
        touched = {
            n
            for n in range(10)
            for begin, end in stream.reads
            # Reading a chunk's header does not count as reading its content.
            if end - begin > 16 and begin < starts[n + 1] and end > starts[n]
        }
        assert touched == chunks

    def test_only_blocks_that_are_needed_are_decoded(self) -> None:
        # Blocks have 256 bytes (64 items); damage to the last one does not affect the others.
        array = np.arange(10_000, dtype="<i4") // 3
        data = bytearray(array_file(array, checksum="None"))
        data[-30:] = b"\xff" * 30
        with bp.open(bytes(data)) as opened:
            assert opened.nchunks == 1
            assert_same(opened[:4000], array[:4000])
            assert_same(opened[4000:9000:7], array[4000:9000:7])
            with pytest.raises(CodecError, match="chunk 0 at offset"):
                opened[...]

    def test_each_chunk_is_read_once(self) -> None:
        stream = NotingFile(rows_file(self.ARRAY, 10))
        with bp.open(stream) as opened:
            stream.reads.clear()
            assert len(list(opened)) == 100
            assert len(stream.reads) <= 20

    def test_opening_reads_no_chunk(self) -> None:
        data = rows_file(self.ARRAY, 10)
        stream = NotingFile(data + bytes(10_000))
        with bp.open(stream) as opened:
            assert opened.shape == (100, 50)
            assert sum(end - begin for begin, end in stream.reads) <= 4096 + 8192


class TestErrors:
    ARRAY = fill(np.dtype("<i4"), (10, 100), 5)

    def damaged(self, chunk: int) -> bytes:
        data = bytearray(rows_file(self.ARRAY, 2))
        data[take_apart(bytes(data)).starts[chunk] + 30] ^= 1
        return bytes(data)

    def test_are_named_and_spare_the_rest(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        path.write_bytes(self.damaged(3))
        with bp.open(path) as opened:
            assert_same(opened[:6], self.ARRAY[:6])
            assert_same(opened[8:], self.ARRAY[8:])
            for read in (
                lambda: opened[6],
                lambda: opened[...],
                lambda: opened.read_chunk(3),
                lambda: opened.read_chunk_into(3, bytearray(1000)),
                lambda: opened.chunk_offset(3),
                lambda: list(opened),
                lambda: np.asarray(opened),
                lambda: bp.load(path),
                lambda: bp.load(path, out=np.zeros((10, 100), "<i4")),
            ):
                with pytest.raises(ChecksumMismatch, match="chunk 3 at offset") as caught:
                    read()
                assert str(caught.value).startswith(str(path))
                assert caught.value.index == 3

    def test_verify_false(self) -> None:
        data = rows_file(self.ARRAY, 2)[:-1] + b"?"
        with bp.open(data, verify=False) as opened:
            assert_same(opened[...], self.ARRAY)
        with bp.open(data) as opened, pytest.raises(ChecksumMismatch):
            opened[9]

    def test_index_errors(self) -> None:
        with bp.open(rows_file(self.ARRAY, 2)) as opened:
            outside: list[Any] = [10, -11, (0, 100), (0, 0, 0)]
            for index in outside:
                with pytest.raises(IndexError):
                    opened[index]
            strange: list[Any] = ["a", 1.5, [1, 2.5], np.zeros(10, bool)[:3]]
            for index in strange:
                with pytest.raises((TypeError, IndexError)):
                    opened[index]

    def test_closed(self) -> None:
        opened = bp.open(rows_file(self.ARRAY, 2))
        opened.close()
        opened.close()
        assert (opened.shape, opened.dtype) == (self.ARRAY.shape, self.ARRAY.dtype)
        assert "closed" in repr(opened)
        for read in (
            lambda: opened[0],
            lambda: opened.read_chunk(0),
            lambda: opened.read_chunk_into(0, bytearray(1000)),
            lambda: opened.chunk_offset(0),
            lambda: list(opened.iter_chunks()),
            lambda: opened.read(),
            lambda: np.asarray(opened),
            lambda: opened.cbytes,
        ):
            with pytest.raises(ValueError, match="closed"):
                read()

    def test_no_such_mode(self) -> None:
        with pytest.raises(ValueError, match="mode"):
            bp.open(rows_file(self.ARRAY, 2), "x")

    def test_foreign_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.npy"
        np.save(path, self.ARRAY)
        with pytest.raises(NotBloscpackError, match="not a Bloscpack file") as caught:
            bp.open(path)
        assert str(path) in str(caught.value)

    def test_truncated_file(self) -> None:
        data = rows_file(self.ARRAY, 2)
        for length in (*range(0, 400, 7), *range(400, len(data), 101)):
            with pytest.raises(FormatError):
                bp.load(data[:length])


class TestNumpyProtocol:
    ARRAY = np.arange(6, dtype="<i4").reshape(2, 3)

    def test_asarray(self) -> None:
        with bp.open(rows_file(self.ARRAY, 1)) as opened:
            assert_same(np.asarray(opened), self.ARRAY)
            assert_same(np.array(opened), self.ARRAY)
            assert_same(np.asarray(opened, dtype="f8"), self.ARRAY.astype("f8"))
            assert_same(opened.__array__(copy=True), self.ARRAY)
            with pytest.raises(ValueError, match="copy"):
                opened.__array__(copy=False)
            assert np.sum(opened) == 15

    def test_repr(self) -> None:
        with bp.open(rows_file(self.ARRAY, 1)) as opened:
            assert "shape=(2, 3)" in repr(opened)
            assert "int32" in repr(opened)


class TestOtherFiles:
    """Files without array metadata are arrays of their bytes."""

    def test_bytes(self) -> None:
        for metadata in ({"a": 1}, [1, 2], None, "numpy", {"container": "other"}):
            data = content_file(b"some bytes", metadata, chunk_nbytes=4)
            with bp.open(data) as opened:
                assert (opened.dtype, opened.shape) == (np.dtype("u1"), (10,))
                assert bytes(opened[2:6]) == b"me b"
                assert opened.attrs == (metadata if isinstance(metadata, dict) else {})
                assert bp.load(data).tobytes() == b"some bytes"

    def test_no_bytes(self) -> None:
        assert bp.load(content_file(b"", None)).shape == (0,)
