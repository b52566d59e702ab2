"""Faults of bloscpack 0.16 in memory safety and integrity, by number.

The numbers are those of section (e) of the reference. Each file makes the original crash, exhaust
memory, return wrong data or destroy a file; here it must be refused or be harmless. False shapes
and dtypes (1 to 3) are refused in `tests/array/test_array_hostile.py` and `test_dtype.py`.
"""

import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from crafted import (
    ARRAY,
    NOT_SPLIT,
    ZSTD,
    array_file,
    chunk,
    file_of,
    header,
    memcpy_chunk,
    section,
)
from entries import APPEND_ERRORS, ARRAY_ERRORS, READ_ERRORS, Reader, outcome

import bloscpack as bp
from bloscpack.append import append, append_fp
from bloscpack.exceptions import (
    ChecksumMismatch,
    TruncatedError,
)
from bloscpack.format.checksum import CHECKSUMS

Refuse = Callable[..., None]
Readers = dict[str, Reader]
ARRAY_READERS = (
    "unpack_ndarray_from_bytes",
    "unpack_ndarray_from_file",
    "load",
    "load(path)",
    "slices",
)


def refused(readers: Readers, data: bytes, names: tuple[str, ...] = ()) -> None:
    for name in names or tuple(readers):
        with pytest.raises(APPEND_ERRORS if name == "append" else ARRAY_ERRORS):
            readers[name](data)


@pytest.mark.parametrize("offsets", [False, True])
def test_1_chunk_larger_than_its_place(every_reader: Readers, offsets: bool) -> None:
    """One of several chunks decodes to more bytes than its part of the array."""
    chunks = [memcpy_chunk(bytes(100)), memcpy_chunk(bytes(4000)), memcpy_chunk(bytes(50))]
    meta = section({**ARRAY, "shape": [250]})
    file = file_of(chunks, meta=meta, offsets=offsets, chunk_size=100)
    refused(every_reader, file, ARRAY_READERS)


@pytest.mark.parametrize("flags", [0, 0x20, 0x60, ZSTD])
def test_4_chunk_that_declares_more_than_chunk_size(refuse: Refuse, flags: int) -> None:
    """118 KB that the original decodes to 2.1 GB: the chunk declares 2.1 GB, the header 1 MiB."""
    bomb = chunk(flags | NOT_SPLIT, 1, 2_100_000_000, 1 << 20, [[bytes(50)]] * 2003)
    refuse(file_of([bomb], chunk_size=1 << 20, last_chunk=1 << 20))


@pytest.mark.slow
def test_4_metadata_that_inflate_to_gigabytes(refuse: Refuse) -> None:
    """1.6 MB of metadata inflate to 1.6 GiB, as their header declares."""
    refuse(array_file(_inflating(1_600 << 20, size=1_600 << 20)))


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 100, 16 << 20])
def test_4_metadata_that_inflate_to_more_than_they_say(refuse: Refuse, size: int) -> None:
    refuse(array_file(_inflating(1_600 << 20, size=size)))


def _inflating(nbytes: int, size: int) -> bytes:
    """Return a section whose data are `nbytes` blanks, made without holding them in memory."""
    stream = zlib.compressobj(1)
    block = b" " * (1 << 20)
    stored = b"".join(stream.compress(block) for _ in range(nbytes >> 20)) + stream.flush()
    fields = (0, 0, 1, 6, size, len(stored), len(stored), b"")
    return struct.pack("<8sBBBBIII8s", b"JSON", *fields) + stored


def test_5_shape_of_two_gibibytes(refuse: Refuse) -> None:
    """The bytes are valid, so functions that do not use arrays return them."""
    file = array_file({**ARRAY, "shape": [2 << 30]})
    refuse(file, but=("unpack_bytes_from_bytes", "unpack_bytes_from_file", *PLAIN_READERS))


PLAIN_READERS = ("unpack_file_from_file", "verify")


@pytest.mark.parametrize("spare", [1 << 20, 1 << 31, 1 << 40, 1 << 60, (1 << 63) - 2])
def test_5_huge_max_app_chunks(refuse: Refuse, spare: int) -> None:
    file = file_of([memcpy_chunk(b"abcd")], offsets=True)
    refuse(file[:24] + struct.pack("<q", spare) + file[32:])


@pytest.mark.parametrize("spare", [1 << 16, 1 << 20])
def test_5_large_max_app_chunks_that_are_there(every_reader: Readers, spare: int) -> None:
    file = file_of([memcpy_chunk(b"abcd")], offsets=True, max_app_chunks=spare)
    assert every_reader["unpack_bytes_from_bytes"](file) == (b"abcd", None)


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("checksum", [row.name for row in CHECKSUMS[1:9]])
def test_6_last_digest_missing(every_reader: Readers, checksum: str, offsets: bool) -> None:
    chunks = [memcpy_chunk(b"abcdefgh"), memcpy_chunk(b"ijkl")]
    file = file_of(chunks, checksum=checksum, offsets=offsets)
    row = next(row for row in CHECKSUMS if row.name == checksum)
    for missing in (1, row.nbytes - 1, row.nbytes):
        refused(every_reader, file[:-missing])


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("nchunks", [0, 1, 2])
def test_7_nchunks_too_small(every_reader: Readers, nchunks: int, offsets: bool) -> None:
    chunks = [memcpy_chunk(bytes((value,)) * 20) for value in range(3)]
    file = file_of(chunks, checksum="adler32", offsets=offsets, nchunks=nchunks)
    names = [name for name in every_reader if name not in ("slices", "read_chunk")]
    refused(every_reader, file, tuple(names))


@pytest.mark.parametrize("spare", [1, 40, 1000])
def test_7_nchunks_0_with_a_table_beyond_the_end(every_reader: Readers, spare: int) -> None:
    """The offset table that the header declares is longer than the file."""
    file = file_of([memcpy_chunk(b"abcd")], offsets=True, nchunks=0)
    refused(every_reader, file[:24] + struct.pack("<q", spare + 10) + file[32:])


def test_7_nchunks_one_less_and_max_app_chunks_one_more(every_reader: Readers) -> None:
    """Two fields agree, so all offsets are unchanged; only the table itself detects it."""
    chunks = [memcpy_chunk(b"abcdefgh"), memcpy_chunk(b"ijklmnop")]
    file = file_of(chunks, checksum="adler32", offsets=True, max_app_chunks=3)
    lie = header(options=1, checksum=1, chunk_size=8, last_chunk=8, nchunks=1, max_app_chunks=4)
    refused(every_reader, lie + file[32:], ("unpack_bytes_from_bytes", "load", "verify", "append"))


def test_7_nchunks_unknown(every_reader: Readers) -> None:
    """Unknown is legal: the chunks extend to the end of the file."""
    chunks = [memcpy_chunk(b"abcdefgh"), memcpy_chunk(b"ijkl")]
    file = file_of(chunks, checksum="adler32", nchunks=-1)
    assert every_reader["unpack_bytes_from_bytes"](file) == (b"abcdefghijkl", None)
    assert every_reader["load"](file)[2] == b"abcdefghijkl"
    refused(every_reader, file_of(chunks, offsets=True, nchunks=-1))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("nchunks", [3, 4, 1 << 20, 1 << 40, 1 << 62, (1 << 63) - 1])
@pytest.mark.parametrize("offsets", [False, True])
def test_7_nchunks_too_large(refuse: Refuse, nchunks: int, offsets: bool) -> None:
    chunks = [memcpy_chunk(b"abcdefgh"), memcpy_chunk(b"ijklmnop")]
    lie = header(options=offsets, checksum=1, chunk_size=8, last_chunk=8, nchunks=nchunks)
    file = lie + file_of(chunks, checksum="adler32", offsets=offsets)[32:]
    refuse(file, but=() if offsets else ("read_chunk", "slices"))


@pytest.mark.parametrize("field", ["chunk_size", "last_chunk"])
@pytest.mark.parametrize("value", [0, 1, 5, 7, 9, 100, (1 << 31) - 17])
@pytest.mark.parametrize("offsets", [False, True])
def test_8_size_in_the_header(every_reader: Readers, field: str, value: int, offsets: bool) -> None:
    chunks = [memcpy_chunk(b"abcdefgh"), memcpy_chunk(b"ijklmn")]
    file = file_of(chunks, checksum="adler32", offsets=offsets, **{field: value})
    refused(every_reader, file, ("unpack_bytes_from_bytes", "unpack_file_from_file", "load"))
    refused(every_reader, file, ("verify", "append"))


@pytest.mark.parametrize("typesize", [0, 1, 3, 255])
def test_8_typesize_in_the_header_is_informative(every_reader: Readers, typesize: int) -> None:
    file = file_of([memcpy_chunk(b"abcdefgh")], offsets=True, typesize=typesize, max_app_chunks=2)
    assert every_reader["unpack_bytes_from_bytes"](file) == (b"abcdefgh", None)
    assert every_reader["append"](file) == (b"abcdefghappended", None)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("size", [0, 1, -1, +1, 1000, 16 << 20, (1 << 32) - 1])
def test_8_meta_size(every_reader: Readers, size: int, compress: bool) -> None:
    true = len(json.dumps(ARRAY))
    meta = section(ARRAY, compress=compress, size=true + size if abs(size) == 1 else size)
    refused(every_reader, array_file(meta))


@pytest.mark.parametrize("spare", [0, 3])
@pytest.mark.parametrize("first", range(1, 12))
def test_8_max_app_chunks_that_puts_another_chunk_first(
    every_reader: Readers, first: int, spare: int
) -> None:
    """The table is declared longer and ends where a later chunk begins: 40 bytes are five entries.

    The chunks before it can then be found by the table, but not by following the headers.
    """
    chunks = [memcpy_chunk(bytes((65 + index,)) * 20) for index in range(12)]
    file = file_of(chunks, checksum="adler32", offsets=True, max_app_chunks=spare)
    content = b"".join(bytes((65 + index,)) * 20 for index in range(12))
    lie = file[:24] + struct.pack("<q", spare + 5 * first) + file[32:]
    for name, read in every_reader.items():
        what, found = outcome(name, read, lie)
        assert what != "fault", (name, found)
        if what == "value" and name in ("unpack_bytes_from_bytes", "unpack_file_from_file"):
            assert found == (content, None)
        if what == "value" and name in ("load", "load(path)"):
            assert found[2] == content
        if what == "value" and name == "iter_chunks":
            assert b"".join(found) == content
        if what == "value" and name == "slices":
            assert found == every_reader["slices"](file)


@pytest.mark.parametrize("entry", [0, -1, 1, 31, 57, 81, 140, 150, 1 << 40, -(1 << 63)])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_8_wrong_offsets_are_not_followed(every_reader: Readers, entry: int, index: int) -> None:
    chunks = [memcpy_chunk(bytes((65 + value,)) * 20) for value in range(3)]
    file = bytearray(file_of(chunks, checksum="adler32", offsets=True, max_app_chunks=1))
    file[32 + 8 * index : 40 + 8 * index] = struct.pack("<q", entry)
    content = b"".join(bytes((65 + value,)) * 20 for value in range(3))
    assert every_reader["unpack_bytes_from_bytes"](bytes(file)) == (content, None)
    assert every_reader["slices"](bytes(file))[0][2] == content[:3]
    refused(every_reader, bytes(file), ("verify",))
    what, found = outcome("append", every_reader["append"], bytes(file))
    assert what == "refused" or found == (content + b"appended", None)


def test_8_offsets_of_two_chunks_exchanged(every_reader: Readers) -> None:
    chunks = [memcpy_chunk(bytes((65 + value,)) * 20) for value in range(4)]
    file = bytearray(file_of(chunks, offsets=True))
    file[40:48], file[48:56] = file[48:56], file[40:48]
    assert every_reader["unpack_bytes_from_bytes"](bytes(file))[0][20:40] == b"B" * 20


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("checksum", ["None", "adler32"])
def test_8_chunk_that_decodes_to_nothing(
    every_reader: Readers, offsets: bool, checksum: str
) -> None:
    chunks = [memcpy_chunk(b"abcdefgh"), memcpy_chunk(b""), memcpy_chunk(b"ijkl")]
    file = file_of(chunks, checksum=checksum, offsets=offsets)
    names = [name for name in every_reader if name not in ("read_chunk", "append")]
    refused(every_reader, file, tuple(names))


@pytest.mark.parametrize("cbytes", [0, 1, 15, 17, 23, 25, 1 << 20, (1 << 32) - 1])
@pytest.mark.parametrize("offsets", [False, True])
def test_8_stored_size_of_a_chunk(every_reader: Readers, offsets: bool, cbytes: int) -> None:
    """Checksums do not help: only the stored size gives the position of the next chunk."""
    good = memcpy_chunk(b"abcdefgh")
    bad = good[:12] + struct.pack("<I", cbytes) + good[16:]
    for chunks in ([bad], [good, bad], [bad, good]):
        names = [name for name in every_reader if name not in ("read_chunk", "slices", "append")]
        refused(every_reader, file_of(chunks, offsets=offsets), tuple(names))


@pytest.mark.parametrize("checksum", [row.name for row in CHECKSUMS[1:9]])
def test_9_append_to_a_damaged_last_chunk(checksum: str) -> None:
    args = bp.BloscpackArgs(checksum=checksum)
    whole = bytes(range(256)) * 5
    file = bytearray(bp.pack_bytes_to_bytes(whole, chunk_size=500, bloscpack_args=args))
    row = next(row for row in CHECKSUMS if row.name == checksum)
    file[-row.nbytes - 3] ^= 0x10
    damaged = io.BytesIO(file)
    with pytest.raises(ChecksumMismatch, match="chunk 2"):
        append_fp(damaged, io.BytesIO(b"more"), 4)
    assert damaged.getvalue() == file


@pytest.mark.parametrize("wrong", ["first", "none", "digest", "far"])
def test_9_append_with_a_wrong_last_offset(wrong: str) -> None:
    file = bytearray(bp.pack_bytes_to_bytes(bytes(range(256)) * 5, chunk_size=500))
    offsets = struct.unpack_from("<3q", file, 32)
    entry = {"first": offsets[0], "none": -1, "digest": offsets[2] - 4, "far": 1 << 40}[wrong]
    file[48:56] = struct.pack("<q", entry)
    damaged = io.BytesIO(file)
    with pytest.raises(READ_ERRORS):
        append_fp(damaged, io.BytesIO(b"more"), 4)
    assert damaged.getvalue() == file


@pytest.mark.parametrize("unknown", ["chunk_size", "last_chunk"])
@pytest.mark.parametrize("nbytes", [2, 30])
def test_9_append_to_a_file_with_unknown_sizes(unknown: str, nbytes: int) -> None:
    chunks = [memcpy_chunk(b"0123456789"), memcpy_chunk(b"abc")]
    data = file_of(chunks, offsets=True, max_app_chunks=5, **{unknown: -1})
    assert bp.unpack_bytes_from_bytes(data) == (b"0123456789abc", None)
    file = io.BytesIO(data)
    append_fp(file, io.BytesIO(b"z" * nbytes), nbytes)
    assert bp.unpack_bytes_from_bytes(file.getvalue()) == (b"0123456789abc" + b"z" * nbytes, None)


@pytest.mark.parametrize(
    "buffer",
    [
        memoryview(np.arange(1000.0)),
        np.arange(1000.0),
        np.arange(1000.0).reshape(10, 100),
        memoryview(np.arange(1000, dtype="<u2")),
        memoryview(np.ones((2, 3, 4), "<c16")),
    ],
    ids=["float64", "ndarray", "2-d", "uint16", "complex"],
)
def test_10_input_is_counted_in_bytes(tmp_path: Path, buffer: memoryview) -> None:
    whole = bytes(buffer) if isinstance(buffer, memoryview) else buffer.tobytes()
    assert bp.unpack_bytes_from_bytes(bp.pack_bytes_to_bytes(buffer)) == (whole, None)
    bp.pack_bytes_to_file(buffer, tmp_path / "packed.blp")
    assert bp.unpack_bytes_from_file(tmp_path / "packed.blp") == (whole, None)
    packed = bp.pack_bytes_to_bytes(whole)
    words = np.frombuffer(packed + bytes(-len(packed) % 4), "<u4")
    assert bp.unpack_bytes_from_bytes(memoryview(words)) == (whole, None)


@pytest.mark.parametrize("link", ["same", "symlink", "hardlink", "relative"])
def test_11_output_is_the_input(tmp_path: Path, link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain, packed = tmp_path / "plain", tmp_path / "packed.blp"
    plain.write_bytes(b"precious" * 100)
    bp.pack_file_to_file(plain, packed)
    before = packed.read_bytes()
    for path, pack in ((plain, bp.pack_file_to_file), (packed, bp.unpack_file_from_file)):
        linked = tmp_path / f"{link}.{path.name}"
        other = {"same": path, "relative": Path(path.name)}.get(link, linked)
        if link == "symlink":
            other.symlink_to(path)
        if link == "hardlink":
            other.hardlink_to(path)
        with pytest.raises(ValueError, match="same file"):
            pack(path, other)
    with pytest.raises(ValueError, match="itself"):
        append(packed, packed)
    assert plain.read_bytes() == b"precious" * 100
    assert packed.read_bytes() == before


def test_the_crafted_file_is_sound(every_reader: Readers) -> None:
    """The unmodified files can be read, so that a refusal is due to the modification."""
    for offsets in (False, True):
        file = array_file(ARRAY, offsets=offsets, checksum="adler32")
        assert every_reader["unpack_bytes_from_bytes"](file) == (b"abcd", ARRAY)
        for name in ("unpack_ndarray_from_bytes", "unpack_ndarray_from_file", "load", "load(path)"):
            assert every_reader[name](file) == ("uint8", (4,), b"abcd")
        assert every_reader["verify"](file) == (1, 4)
        with pytest.raises(TruncatedError):
            every_reader["load"](file[:-1])
    with pytest.raises(READ_ERRORS):
        every_reader["verify"](file[:-1])
