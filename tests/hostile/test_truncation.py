"""File truncated at any byte: the value of the whole file, or a documented error."""

import io
from typing import Any

import numpy as np
import pytest
from crafted import file_of, memcpy_chunk
from entries import APPEND_ERRORS, PARTIAL, Reader, outcome

import bloscpack as bp
from bloscpack.append import append_fp
from bloscpack.container.reader import Container
from bloscpack.format.checksum import CHECKSUMS
from bloscpack.format.codec import ARRAY_CHUNK_VERSION
from bloscpack.storage.memory import MemorySource
from tests.conftest import Some

CONTENT = bytes(range(64)) * 5


def packed(
    content: bytes = CONTENT,
    *,
    chunk_size: int = 200,
    checksum: str = "adler32",
    offsets: bool = True,
    metadata: object = None,
    meta_checksum: str = "adler32",
    cname: str = "blosclz",
) -> bytes:
    return bp.pack_bytes_to_bytes(
        content,
        chunk_size=chunk_size,
        metadata=metadata,
        blosc_args=bp.BloscArgs(cname=cname, clevel=9),
        bloscpack_args=bp.BloscpackArgs(offsets=offsets, checksum=checksum, max_app_chunks=2),
        metadata_args=bp.MetadataArgs(meta_checksum=meta_checksum, max_meta_size=40),
    )


def packed_array(array: np.ndarray, **options: object) -> bytes:
    return bp.pack_ndarray_to_bytes(
        array,
        chunk_size=96,
        bloscpack_args=bp.BloscpackArgs(max_app_chunks=1, **options),
        metadata_args=bp.MetadataArgs(max_meta_size=90),
    )


def saved(array: np.ndarray, *, chunks: object = 4, **options: object) -> bytes:
    file = io.BytesIO()
    bp.save(file, array, chunks=chunks, **options)
    return file.getvalue()


# Rising numbers, whose differences take fewer bytes than the numbers.
NOISE = np.random.default_rng(2).integers(-3, 4, 360)
STEPS = (np.arange(360) * 1000 + NOISE).reshape(12, 30).astype("<i4")


def with_trailing_bytes() -> bytes:
    """Return a file as left by an append whose last chunk became smaller."""
    file = io.BytesIO(packed(np.random.default_rng(1).bytes(300), metadata={"a": 1}))
    append_fp(file, io.BytesIO(bytes(40)), 40)
    return file.getvalue() + b"left over"


FILES = {
    **{f"checksum {row.name}": packed(checksum=row.name) for row in CHECKSUMS},
    **{f"no offsets, {name}": packed(checksum=name, offsets=False) for name in ("None", "sha1")},
    **{f"codec {name}": packed(cname=name) for name in ("lz4", "zlib", "zstd")},
    "one chunk": packed(chunk_size=1000),
    "one chunk, no offsets, no checksum": packed(chunk_size=1000, checksum="None", offsets=False),
    "one byte": packed(b"x"),
    "empty": packed(b""),
    "many chunks": packed(CONTENT[:40], chunk_size=8),
    "metadata": packed(metadata={"name": "value"}),
    "metadata, nothing checked": packed(
        metadata=[1, 2], offsets=False, checksum="None", meta_checksum="None"
    ),
    "metadata sha512": packed(CONTENT[:90], metadata={}, meta_checksum="sha512"),
    "array": packed_array(np.arange(30.0).reshape(6, 5)),
    "array, no offsets": packed_array(np.arange(30, dtype=">u4"), offsets=False, checksum="None"),
    "array of Fortran order": packed_array(np.arange(24).reshape(2, 3, 4).T),
    "saved": saved(np.arange(10.0)),
    "saved, version 4": saved(np.arange(10, dtype="u2"), checksum="xxh3_64", attrs={"unit": "m"}),
    "trailing bytes": with_trailing_bytes(),
    "grid": saved(np.arange(15, dtype="<u2").reshape(3, 5), chunks=(2, 3), attrs={"unit": "m"}),
    "grid of Fortran order": saved(np.arange(24).reshape(2, 3, 4).T, chunks=(3, 2, 2)),
    "array chunks": saved(STEPS, codec="auto"),
    "array chunks in a grid": saved(STEPS, codec="auto", chunks=(8, 20)),
    "version 1": b"blpk\1\0\0\0\2" + bytes(7) + memcpy_chunk(b"abc") * 2,
    "version 2": b"blpk\2" + file_of([memcpy_chunk(b"abc")] * 2, checksum="md5")[5:],
}


def sound_nbytes(data: bytes) -> int:
    """Return the end of the last digest of a valid file."""
    container = Container.open(MemorySource(data))
    last = container.fetch(container.nchunks - 1)
    return last.offset + len(last.data) + container.header.checksum.nbytes


@pytest.mark.parametrize("name", ["array chunks", "array chunks in a grid"])
def test_these_files_have_array_chunks(name: str) -> None:
    with bp.open(FILES[name]) as array:
        container = array._container
        versions = {container.fetch(i).header.version for i in range(container.nchunks)}
    assert ARRAY_CHUNK_VERSION in versions


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", FILES)
def test_cut_at_every_byte(every_reader: dict[str, Reader], name: str, some: Some) -> None:
    data = FILES[name]
    sound = sound_nbytes(data)
    whole = {reader: outcome(reader, read, data) for reader, read in every_reader.items()}
    assert "fault" not in {what for what, _ in whole.values()}
    faults = []
    for size in some(range(len(data)), 13):
        for reader, read in every_reader.items():
            found = outcome(reader, read, data[:size])
            wrong = _fault_of_cut(found, whole[reader], size < sound, reader in PARTIAL)
            if reader == "verify" and size >= sound and "trailer: truncated" in str(found[1]):
                continue  # all data are present, and verify reports the missing bytes
            if wrong:
                faults.append(f"{reader} at {size} of {sound}: {wrong}")
    assert not faults, "\n".join(faults[:40])


def _fault_of_cut(
    found: tuple[str, Any], whole: tuple[str, Any], is_short: bool, is_partial: bool
) -> str:
    """Return the fault in the outcome of reading a truncated file, or ""."""
    what, value = found
    if what == "fault":
        return repr(value)
    if what == "refused":
        is_whole = whole[0] == "value" and not is_short
        return "refused, although only trailing bytes are gone" if is_whole else ""
    if whole[0] != "value" or value != whole[1]:
        return "another value"
    return "a value from a file cut short" if is_short and not is_partial else ""


@pytest.mark.sampled(13)
@pytest.mark.parametrize("extra", [b"\0", b"\2", b"\2" * 40, bytes(300), b"blpk\3" + bytes(40)])
@pytest.mark.parametrize("name", FILES)
def test_trailing_bytes_are_left_alone(
    every_reader: dict[str, Reader], name: str, extra: bytes
) -> None:
    data = FILES[name]
    for reader, read in every_reader.items():
        what, whole = outcome(reader, read, data)
        if what == "value":
            assert read(data + extra) == whole, reader


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", FILES)
def test_nothing_and_little_are_not_a_file(every_reader: dict[str, Reader], name: str) -> None:
    for data in (b"", b"b", b"blp", b"blpk", b"blpk\3", FILES[name][1:], b"\0" * 100):
        for reader, read in every_reader.items():
            with pytest.raises(APPEND_ERRORS):
                read(data)
            assert reader


def test_cut_of_a_file_with_an_unknown_number_of_chunks(every_reader: dict[str, Reader]) -> None:
    """Its chunks extend to the end of the file: a cut between two chunks cannot be detected."""
    chunks = [memcpy_chunk(b"12345678"), memcpy_chunk(b"87654321"), memcpy_chunk(b"9")]
    data = file_of(chunks, checksum="crc32", nchunks=-1, chunk_size=-1, last_chunk=-1)
    read = every_reader["unpack_bytes_from_bytes"]
    assert read(data) == (b"12345678876543219", None)
    legal = {32: b"", 60: b"12345678", 88: b"1234567887654321"}
    for size in range(len(data)):
        if size in legal:
            assert read(data[:size]) == (legal[size], None)
            continue
        for name, reader in every_reader.items():
            with pytest.raises(APPEND_ERRORS):
                reader(data[:size])
            assert name
