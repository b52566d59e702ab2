"""Stored chunks: bounds and digests, by themselves.

A reader has later checks, which refuse most chunks that pass one of these by mistake.
"""

import pytest

from bloscpack.container.chunk import read_run, read_stored
from bloscpack.exceptions import ChecksumMismatch, FormatError, TruncatedError
from bloscpack.format.checksum import Checksum, checksum_by_name
from bloscpack.format.codec import ChunkHeader
from bloscpack.storage.memory import MemorySource

from .files import chunks

CHUNK = chunks()[0]
BEFORE, BEHIND = b"before", b"behind"
START = len(BEFORE)
ROWS = [checksum_by_name(name) for name in ("None", "adler32", "sha512")]
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
is_end_known = pytest.mark.parametrize("is_end_known", [True, False])


class Asked(MemorySource):
    """Source that records the most bytes that a read asked for."""

    most = 0

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        self.most = max(self.most, nbytes)
        return super().read_at(offset, nbytes)


def stored(row: Checksum) -> bytes:
    return BEFORE + CHUNK + row.digest(CHUNK) + BEHIND


def end_of(row: Checksum) -> int:
    return START + len(CHUNK) + row.nbytes


@rows
@is_end_known
def test_a_chunk_has_its_bytes_and_its_header(row: Checksum, is_end_known: bool) -> None:
    end = end_of(row) if is_end_known else None
    nbytes = len(CHUNK) + row.nbytes
    for probe in (16, nbytes - 1, nbytes, nbytes + 1, 4096):
        data, header = read_stored(MemorySource(stored(row)), row, START, end, True, probe)
        assert data == CHUNK
        assert header == ChunkHeader.unpack(CHUNK)


@rows
@is_end_known
@pytest.mark.parametrize("check", [True, False])
def test_a_chunk_is_truncated_at_every_byte(row: Checksum, is_end_known: bool, check: bool) -> None:
    """Even where no digest is compared: it is always within the file."""
    end = end_of(row) if is_end_known else None
    for size in range(START, end_of(row)):
        for probe in (16, size - START + 1, 4096):
            with pytest.raises(TruncatedError):
                read_stored(MemorySource(stored(row)[:size]), row, START, end, check, probe)


def test_a_stored_size_beyond_the_file_is_not_read() -> None:
    data = bytearray(stored(ROWS[0]))
    data[START + 12 : START + 16] = (1 << 30).to_bytes(4, "little")
    source = Asked(bytes(data))
    with pytest.raises(TruncatedError, match="exceeds the"):
        read_stored(source, ROWS[0], START, None, True, 16)
    assert source.most == 16


@is_end_known
@pytest.mark.parametrize("row", ROWS[1:], ids=lambda row: row.name)
def test_a_changed_byte_of_data_or_digest_is_seen_if_it_is_compared(
    row: Checksum, is_end_known: bool
) -> None:
    end = end_of(row) if is_end_known else None
    for at in range(START if is_end_known else START + 16, end_of(row)):
        data = bytearray(stored(row))
        data[at] ^= 1
        with pytest.raises(ChecksumMismatch) as caught:
            read_stored(MemorySource(bytes(data)), row, START, end, True)
        assert caught.value.actual == row.digest(bytes(data[START : START + len(CHUNK)]))
        assert caught.value.expected == data[START + len(CHUNK) : end_of(row)]
        if at >= START + 16:
            found, _ = read_stored(MemorySource(bytes(data)), row, START, end, False)
            assert found == data[START : START + len(CHUNK)]


@rows
@pytest.mark.parametrize("step", [-1, 1, len(BEHIND)])
def test_the_next_chunk_must_begin_where_the_chunk_ends(row: Checksum, step: int) -> None:
    with pytest.raises(FormatError, match=rf"{len(CHUNK)} bytes, .* after {len(CHUNK) + step}$"):
        read_stored(MemorySource(stored(row)), row, START, end_of(row) + step, False)


def test_a_chunk_that_is_shorter_than_a_digest() -> None:
    row = ROWS[-1]
    with pytest.raises(TruncatedError, match="found 0 of 16"):
        read_stored(MemorySource(stored(row)), row, START, START + row.nbytes - 20, False)


def test_a_run_splits_chunks_and_digests() -> None:
    row = ROWS[1]
    one = CHUNK + row.digest(CHUNK)
    source = MemorySource(BEFORE + one + one + one[:50])
    starts = [START, START + len(one), START + 2 * len(one)]
    whole = (CHUNK, row.digest(CHUNK))
    assert [*read_run(source, starts, None, row.nbytes)] == [whole, whole]
    found = [*read_run(source, starts, START + 3 * len(one), row.nbytes)]
    assert found == [whole, whole, (one[:50], b"")]


def test_a_run_of_chunks_that_are_shorter_than_their_digests() -> None:
    source = MemorySource(BEFORE + b"abcdefgh")
    found = [*read_run(source, [START, START + 5], START + 8, 4)]
    assert found == [(b"a", b"bcde"), (b"", b"fgh")]
