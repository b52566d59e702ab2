"""Misbehaving storage: short reads, false sizes, files that shrink between reads."""

import io
import os
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.append import append_fp
from bloscpack.exceptions import FormatError

CONTENT = np.random.default_rng(3).bytes(10_000) + bytes(range(256)) * 40
PACKED = bp.pack_bytes_to_bytes(CONTENT, chunk_size=1000, metadata={"list": list(range(2000))})
ARRAY = np.arange(6000.0).reshape(60, 100)


class ShortReads(io.BytesIO):
    """Returns at most `limit` bytes per read, as a raw stream may."""

    limit = 1

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.limit if size is None or size < 0 else min(size, self.limit))


class WrongSize(io.BytesIO):
    """Reports a false end at `size`."""

    size = 1 << 40

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.size if whence == os.SEEK_END else super().seek(offset, whence)


class LosesTheEnd(io.BytesIO):
    """A read that would reach the end silently stops `nbytes` before it."""

    nbytes = 4

    def read(self, size: int | None = -1) -> bytes:
        end = self.getbuffer().nbytes
        data = super().read(size)
        return data[: -self.nbytes] if data and self.tell() == end and len(data) > 100 else data


@pytest.mark.parametrize("limit", [1, 7, 31, 100, 1000, 5000])
def test_short_reads_are_continued(limit: int) -> None:
    file = ShortReads(PACKED)
    file.limit = limit
    assert bp.load(file).tobytes() == CONTENT
    with bp.open(file) as array:
        assert array[5000:5010].tobytes() == CONTENT[5000:5010]
    assert bp.verify(file).ok
    file = ShortReads(bp.pack_ndarray_to_bytes(ARRAY, chunk_size=8000))
    file.limit = limit
    assert (bp.load(file) == ARRAY).all()


def test_raw_file(tmp_path: Path) -> None:
    path = tmp_path / "packed.blp"
    path.write_bytes(PACKED)
    with path.open("rb", buffering=0) as file:
        assert bp.load(file).tobytes() == CONTENT


@pytest.mark.parametrize("chunk_size", [1000, 20_000, 1 << 20])
def test_a_digest_that_is_not_read_is_not_skipped(chunk_size: int) -> None:
    """A short read that omits the last digest must not disable its check."""
    packed = bytearray(bp.pack_bytes_to_bytes(CONTENT[:10_000], chunk_size=chunk_size))
    packed[-200] ^= 1
    with pytest.raises(FormatError):
        bp.load(LosesTheEnd(packed))
    with pytest.raises(FormatError), bp.open(LosesTheEnd(packed)) as array:
        array.read_chunk(array.nchunks - 1)


@pytest.mark.parametrize("size", [0, 10, 100, 5000, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("there", [33, 70, 2000, 6000, 12_000, 21_000])
def test_size_that_is_not_true(size: int, there: int) -> None:
    many = bp.pack_bytes_to_bytes(bytes(20_000), chunk_size=4)
    for packed in (PACKED, many):
        file = WrongSize(packed[:there])
        file.size = size
        with pytest.raises(FormatError):
            bp.load(file)
        with pytest.raises(FormatError), bp.open(file) as array:
            array.read_chunk(array.nchunks - 1)
        with pytest.raises(FormatError), bp.open(file) as array:
            array[3000 : array.shape[0] : 50]
        with pytest.raises(FormatError):
            append_fp(file, io.BytesIO(b"abcd"), 4)


@pytest.mark.parametrize("size", [0, 31, 33, 500, 6000, 14_000, -1])
def test_file_that_shrinks_while_it_is_open(tmp_path: Path, size: int) -> None:
    """Another program truncates the file between two reads."""
    path = tmp_path / "packed.blp"
    many = bp.pack_bytes_to_bytes(bytes(range(200)) * 100, chunk_size=4)
    for packed in (PACKED, many):
        path.write_bytes(packed)
        with bp.open(path) as array:
            array.read_chunk(0)
            os.truncate(path, size if size >= 0 else len(packed) - 1)
            for index in (array.nchunks - 1, array.nchunks - 2)[: 1 if size < 0 else 2]:
                with pytest.raises(FormatError):
                    array.read_chunk(index)
            with pytest.raises(FormatError):
                array.read()
            with pytest.raises(FormatError):
                array[-1]


def test_file_that_is_replaced_by_another_while_open(tmp_path: Path) -> None:
    """Facts cached from the old bytes must not be trusted for the new ones."""
    path = tmp_path / "packed.blp"
    path.write_bytes(PACKED)
    other = bp.pack_bytes_to_bytes(CONTENT[::-1], chunk_size=500)
    with bp.open(path) as array:
        array.read_chunk(0)
        path.write_bytes(other)
        for index in range(1, array.nchunks):
            with pytest.raises(FormatError):
                array.read_chunk(index)


@pytest.mark.parametrize("promised", [5, 100, 3000])
def test_content_that_ends_early(promised: int) -> None:
    """The new content is shorter than announced: all of it is discarded."""
    file = io.BytesIO(PACKED)
    for content in (io.BytesIO(b"1234"), WrongSize(b"1234"), io.BytesIO(b"")):
        with pytest.raises(ValueError, match=r"ended|left"):
            append_fp(file, content, promised)
        assert file.getvalue() == PACKED


def test_content_in_short_reads_is_appended_whole() -> None:
    file = io.BytesIO(PACKED)
    content = ShortReads(bytes(range(256)) * 10)
    content.limit = 100
    append_fp(file, content, 2560)
    assert bp.unpack_bytes_from_bytes(file.getvalue())[0] == CONTENT + bytes(range(256)) * 10
