"""Single errors in valid files: every byte set to suspicious values, every field to extremes.

If a checksum covers chunks and metadata, no single byte of the file may change the result.
"""

import struct

import numpy as np
import pytest
from crafted import ARRAY, file_of, header, memcpy_chunk, section
from entries import Reader, describe, outcome

import bloscpack as bp
from bloscpack.exceptions import BloscpackError
from tests.conftest import Some

READ = ("unpack_bytes_from_bytes", "load", "slices")


def _small(**options: object) -> bytes:
    args = {"offsets": True, "checksum": "adler32", "max_app_chunks": 1} | options
    return bp.pack_bytes_to_bytes(
        bytes(range(40)), chunk_size=16, bloscpack_args=bp.BloscpackArgs(**args)
    )


def _small_array(**options: object) -> bytes:
    args = {"checksum": "crc32", "max_app_chunks": 1} | options
    return bp.pack_ndarray_to_bytes(
        np.arange(6, dtype="<u2"),
        chunk_size=8,
        bloscpack_args=bp.BloscpackArgs(**args),
        metadata_args=bp.MetadataArgs(max_meta_size=90),
    )


FILES = {
    "chunks": _small(),
    "chunks, no offsets": _small(offsets=False),
    "chunks, no spare": _small(max_app_chunks=0),
    "one chunk": bp.pack_bytes_to_bytes(b"0123456789"),
    "empty": bp.pack_bytes_to_bytes(b""),
    "metadata": bp.pack_bytes_to_bytes(
        b"0123456789",
        metadata={"name": "value"},
        metadata_args=bp.MetadataArgs(max_meta_size=30),
    ),
    "array": _small_array(),
    "array, no offsets": _small_array(offsets=False),
    "array, sha1": _small_array(checksum="sha1"),
}


# Each bit of the old value flipped, one at a time.
VALUES = (0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x08, 0x10, 0x7F, 0x80, 0xFE, 0xFF)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", FILES)
def test_every_byte(every_reader: dict[str, Reader], name: str, some: Some) -> None:
    data = FILES[name]
    whole = {reader: every_reader[reader](data) for reader in READ}
    faults = []
    for at in range(len(data)):
        damaged = bytearray(data)
        for value in some(sorted({*VALUES, *(data[at] ^ 1 << bit for bit in range(8))}), 5):
            damaged[at] = value
            for reader, right in whole.items():
                what, found = outcome(reader, every_reader[reader], bytes(damaged))
                if what == "fault" or (what == "value" and found != right):
                    faults.append(f"{reader}, byte {at} to {value:#x}: {found!r}"[:200])
    assert not faults, f"{len(faults)}: " + "\n".join(faults[:40])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("at", "size"), [(8, 4), (12, 4), (16, 8), (24, 8)])
def test_extremes_of_the_wide_fields(
    every_reader: dict[str, Reader], name: str, at: int, size: int, some: Some
) -> None:
    data = FILES[name]
    bits = 8 * size
    values = {1 << bit for bit in range(bits)} | {(1 << bit) - 1 for bit in range(bits + 1)}
    values |= {(1 << bits) - value for value in (2, 16, 1 << 31 if size == 8 else 1 << 15)}
    right = every_reader["unpack_bytes_from_bytes"](data)
    for value in some(sorted(values), 11):
        damaged = data[:at] + value.to_bytes(size, "little") + data[at + size :]
        for reader, read in every_reader.items():
            what, found = outcome(reader, read, damaged)
            assert what != "fault", (reader, value, found)
            if what == "value" and reader == "unpack_bytes_from_bytes":
                assert found == right, (reader, value)


PROMISES = {
    "more chunks than a file can have": {"nchunks": 1 << 62},
    "the largest of everything": {"nchunks": (1 << 63) - 1},
    "many chunks without a table": {"nchunks": 1 << 32},
}
USES = {
    "len": len,
    "size": lambda array: array.size,
    "repr": repr,
    "chunks": lambda array: array.chunks,
    "cratio": lambda array: array.cratio,
    "index": lambda array: array[0],
    "last": lambda array: array[-1],
    "slice": lambda array: array[1:3],
    "reversed": lambda array: array[::-1],
    "steps": lambda array: array[:: 1 << 40],
    "iterate": lambda array: next(iter(array)),
    "whole": lambda array: array.read(),
    "numpy": np.asarray,
    "chunk": lambda array: array.read_chunk(0),
    "last chunk": lambda array: array.read_chunk(array.nchunks - 1),
    "offset": lambda array: array.chunk_offset(1),
    "chunk iterator": lambda array: next(array.iter_chunks()),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("promise", PROMISES)
def test_array_of_promises(promise: str, use: str) -> None:
    """A header for 21 bytes of content declares up to 2^94: no use of it may overflow."""
    full = (1 << 31) - 17
    file = header(chunk_size=full, last_chunk=5, **PROMISES[promise]) + memcpy_chunk(b"abcde")

    def use_and_read() -> None:
        with bp.open(file) as array:
            USES[use](array)
            # A way that returns only a value of the header is refused when data are read, at the
            # latest.
            array.read()

    with pytest.raises(BloscpackError):
        use_and_read()


def _version_2(sizes: list[int], **fields: int) -> tuple[bytes, bytes]:
    content = bytes(range(251))[: sum(sizes)]
    chunks, at = [], 0
    for size in sizes:
        chunks.append(memcpy_chunk(content[at : at + size]))
        at += size
    return content, b"blpk\2" + file_of(chunks, checksum="adler32", **fields)[5:]


@pytest.mark.parametrize("sizes", [[100, 150], [10, 10, 10, 35], [1, 200]])
@pytest.mark.parametrize("offsets", [False, True])
def test_last_chunk_larger_than_the_others(
    every_reader: dict[str, Reader], sizes: list[int], offsets: bool
) -> None:
    """Release 0.2 wrote such files for a requested number of chunks."""
    content, file = _version_2(sizes, offsets=offsets)
    assert every_reader["unpack_bytes_from_bytes"](file) == (content, None)
    _check_slices(file, content)


@pytest.mark.parametrize("sizes", [[100, 150], [10, 10, 10, 35]])
def test_unknown_sizes_with_a_large_last_chunk(sizes: list[int]) -> None:
    content, _ = _version_2(sizes)
    chunks, at = [], 0
    for size in sizes:
        chunks.append(memcpy_chunk(content[at : at + size]))
        at += size
    meta = section({**ARRAY, "shape": [len(content)]})
    file = file_of(chunks, meta=meta, checksum="md5", nchunks=-1, chunk_size=-1, last_chunk=-1)
    assert bp.unpack_bytes_from_bytes(file)[0] == content
    _check_slices(file, content)


def _check_slices(file: bytes, content: bytes) -> None:
    whole = np.frombuffer(content, "u1")
    assert describe(bp.load(file)) == describe(whole)
    with bp.open(file) as array:
        for key in (-1, 0, slice(-20, None), slice(None, None, 3), slice(None, None, -1)):
            assert describe(array[key]) == describe(whole[key]), key
        for start in range(0, len(content), 7):
            assert describe(array[start : start + 9]) == describe(whole[start : start + 9])
        assert b"".join(array.iter_chunks()) == content
        assert [int(value) for value in array] == list(content)


def test_table_that_lies_about_everything(every_reader: dict[str, Reader]) -> None:
    """Entries that point into each other, to the front, or to a copy of a chunk after the end."""
    chunks = [memcpy_chunk(bytes((65 + value,)) * 30) for value in range(3)]
    data = file_of(chunks, checksum="crc32", offsets=True)
    copy = len(data)
    data += data[56:106]
    right = every_reader["unpack_bytes_from_bytes"](data)
    lies = [[56] * 3, [copy] * 3, [156, 106, 56], [0] * 3, [-1] * 3, [56, 106, copy]]
    for entries in lies:
        damaged = data[:32] + struct.pack("<3q", *entries) + data[56:]
        for reader, read in every_reader.items():
            what, found = outcome(reader, read, damaged)
            assert what != "fault", (reader, entries, found)
            if what == "value" and reader == "unpack_bytes_from_bytes":
                assert found == right, entries
