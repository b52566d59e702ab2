"""Make the conformance set: ``python -m tests.conformance.make NEW_FOLDER``.

The files in this folder are fixed: readers in other languages rely on them. This program shows how
each was made, and makes new ones; it refuses to write over a file. Another release of C-Blosc or
zlib may make other bytes of the same content.
"""

import io
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.container.members import read_index
from bloscpack.format.archiveindex import pack_index
from bloscpack.format.codec import CodecParams, encode
from bloscpack.format.metadata import pack_section
from bloscpack.storage.memory import MemorySource

from ..reference.file import assemble
from . import stores
from .describe import write_twin

RAMP = (np.arange(1500) // 25).astype("<u4").tobytes()
FILES: dict[str, Callable[[], bytes]] = {}


def add(name: str, make: Callable[..., bytes], *arguments: Any, **options: Any) -> None:
    assert name not in FILES, name
    FILES[name] = lambda: make(*arguments, **options)


def chunk(
    data: bytes, codec: str = "lz4", shuffle: int = 1, typesize: int = 4, size: int = 0
) -> bytes:
    return encode(data, CodecParams(codec, 5, shuffle, typesize, size))


def chunks(*data: bytes, **options: Any) -> list[bytes]:
    return [chunk(each, **options) for each in data]


THREE = (RAMP[:2000], RAMP[2000:4000], RAMP[4000:5001])


def version_1() -> bytes:
    return struct.pack("<4sB3xq", b"blpk", 1, 3) + b"".join(chunks(*THREE))


def version_4(checksum: str) -> bytes:
    return bp.pack_bytes_to_bytes(
        RAMP,
        2000,
        {"unit": "m"},
        bp.BloscArgs(cname="zstd"),
        bp.BloscpackArgs(checksum=checksum, max_app_chunks=1),
        bp.MetadataArgs(meta_checksum=checksum),
    )


def snappy_chunk(data: bytes) -> bytes:
    """Return a chunk of one Snappy stream: a literal, and copies of repeated bytes."""
    run = data[:32]
    assert data == run * (len(data) // 32)
    stream = bytes([len(data) & 127 | 128, len(data) >> 7, 60 << 2, 31]) + run
    left = len(data) - 32
    while left:
        count = min(left, 64)
        stream += bytes([(count - 1) << 2 | 2, 32, 0])
        left -= count
    return one_block(2, data, stream)


def one_block(stream_format: int, data: bytes, stream: bytes, flags: int = 0x10) -> bytes:
    """Return a chunk of typesize 1 with one stream."""
    head = bytes([2, 1, flags | stream_format << 5, 1])
    sizes = struct.pack("<III", len(data), len(data), 24 + len(stream))
    return head + sizes + struct.pack("<II", 20, len(stream)) + stream


def far_match() -> bytes:
    """Return a BloscLZ chunk with matches more than 8191 bytes back."""
    block = np.random.default_rng(3).integers(0, 256, 8704).astype("u1").tobytes()
    stream = b"".join(b"\x1f" + block[at : at + 32] for at in range(0, len(block), 32))
    stream += bytes([0xFF, 255, 100, 255, 1, 0, 0, 9])
    data = bytearray(block)
    for _ in range(7 + 255 + 100 + 2):
        data.append(data[-(8192 + 256)])
    return one_block(0, bytes(data) + b"\x09", stream)


def any_order() -> bytes:
    """Return a chunk whose blocks are stored out of order."""
    data = RAMP[:1536]
    whole = chunk(data, "zstd", 0, 1, 512)
    starts = struct.unpack_from("<3I", whole, 16)
    ends = (*starts[1:], len(whole))
    parts = [whole[a:b] for a, b in zip(starts, ends, strict=True)]
    places, body = [0] * 3, b""
    for number in (2, 0, 1):
        places[number] = 28 + len(body)
        body += parts[number]
    return whole[:16] + struct.pack("<3I", *places) + body


def early_digest() -> bytes:
    """Return metadata whose digest precedes the padding."""
    section = pack_section({"a": 1}, checksum="crc32", codec="None", reserve=40)
    data = section[32 : 32 + 7]
    return section[: 32 + 7] + struct.pack("<I", zlib.crc32(data)) + bytes(33)


def saved(array: Any, **options: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        bp.save(path, array, nthreads=1, **options)
        return path.read_bytes()


def appended() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        bp.save(path, np.arange(60, dtype="<i4").reshape(6, 10), chunks=4, attrs={"step": 1})
        for start in (60, 70, 120):
            with bp.open(path, "a") as array:
                array.append(np.arange(start, start + 50, dtype="<i4").reshape(5, 10))
        return path.read_bytes()


def with_trailer(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        path.write_bytes(data)
        assert bp.verify(path, fix=True).ok
        return path.read_bytes()


def stale_by_append() -> bytes:
    """Return a file with a stale trailer: a program unaware of trailers appended a chunk."""
    before = assemble(chunks(*[RAMP[:40]] * 4), checksum="crc32", spare=1)
    new = chunk(b"new")
    file = with_trailer(before)
    file = changed(file, len(before), new + struct.pack("<I", zlib.crc32(new)))
    file = changed(file, 32 + 4 * 8, struct.pack("<q", len(before)))
    return changed(file, 12, struct.pack("<iqq", 3, 5, 0))


def stale_by_metadata() -> bytes:
    """Return a file with a stale trailer: a program unaware of trailers replaced the metadata."""
    before, after = (
        pack_section({"unit": unit}, checksum="crc32", codec="None")
        for unit in ("kelvin", "metres")
    )
    file = with_trailer(assemble(chunks(*THREE), checksum="crc32", section=before))
    return changed(file, 32, after)


def changed(data: bytes, place: int, value: bytes | None = None) -> bytes:
    """Return a file with bytes replaced at `place`; by default one bit is flipped."""
    value = bytes([data[place] ^ 4]) if value is None else value
    return data[:place] + value + data[place + len(value) :]


def with_digest(data: bytes) -> bytes:
    """Return an extended header with a correct digest."""
    return data[:56] + xxh3_64_digest(data[:56]) + data[64:]


def sound_files() -> None:
    add("v1_bytes", version_1)
    add("v2_bytes_offsets", assemble, chunks(*THREE), version=2)
    add("v2_bytes_one_chunk", assemble, chunks(b"one"), version=2, chunk_size=0, offsets=False)
    for name in ("None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"):
        add(f"v3_bytes_{name.lower()}", assemble, chunks(*THREE, codec="zstd"), checksum=name)
    for name in ("xxh3_64", "xxh3_128"):
        add(f"v4_bytes_{name}_metadata", version_4, name)
    for codec in ("blosclz", "lz4", "zlib", "zstd"):
        for number, shuffle in enumerate(("none", "byte", "bit")):
            some = chunks(RAMP, b"ab" * 500, codec=codec, shuffle=number)
            add(f"codec_{codec}_{shuffle}", assemble, some, chunk_size=6000)
    for typesize in (1, 3, 5, 12, 16, 17, 255):
        for number, shuffle in ((1, "byte"), (2, "bit")):
            some = chunks(RAMP[:4093], codec="zstd", shuffle=number, typesize=typesize, size=1024)
            add(f"chunk_{shuffle}_typesize_{typesize}", assemble, some)
    big = (np.arange(75_001) // 500).astype("<u2").tobytes()
    for codec in ("blosclz", "lz4", "zlib"):
        add(f"chunk_split_{codec}", assemble, chunks(big, codec=codec, typesize=2))
    add("chunk_split_not_shuffled", assemble, chunks(big, shuffle=0, typesize=2))
    add("chunk_snappy", assemble, [snappy_chunk(bytes(range(32)) * 40)])
    add("chunk_blosclz_far_match", assemble, [far_match()])
    add("chunk_blocks_in_any_order", assemble, [any_order()])
    add("chunk_uncompressed", assemble, [encode(bytes(range(250)), CodecParams("lz4", 0))])
    add(
        "chunks_differ",
        assemble,
        [chunk(RAMP[:2000], "zlib", 0, 1), chunk(RAMP[:2000], "zstd", 2, 8)],
    )
    add("empty", assemble, chunks(b""), chunk_size=0, last_chunk=0)
    add("no_chunk", assemble, [], chunk_size=0, last_chunk=0, nchunks=0, checksum="crc32")
    add("spare_entries", assemble, chunks(*THREE), spare=5)
    add("no_offsets_trailing_bytes", assemble, chunks(*THREE), offsets=False, trailing=b"rest" * 9)
    add("nchunks_unknown", assemble, chunks(*THREE), offsets=False, nchunks=-1)
    add("sizes_unknown", assemble, chunks(*THREE), chunk_size=-1, last_chunk=-1)
    metadata: dict[str, bytes] = {
        "zlib_padding": pack_section({"text": "again and " * 20}, checksum="sha1", reserve=500),
        "uncompressed": pack_section([1, 2.5, None, "\u00e9"], checksum="adler32", codec="None"),
        "no_checksum": pack_section("text", checksum="None", codec="None", reserve=6),
        "early_digest": early_digest(),
    }
    for name, section in metadata.items():
        add(f"metadata_{name}", assemble, chunks(*THREE), section=section)
    for name, array in arrays().items():
        add(f"array_{name}", saved, array)
    add(
        "array_chunks_attrs", saved, np.arange(120.0).reshape(12, 10), chunks=5, attrs={"unit": "m"}
    )
    add("array_xxh3", saved, np.arange(120.0).reshape(12, 10), chunks=5, checksum="xxh3_64")
    grid = np.arange(60, dtype="<i2").reshape(3, 4, 5)
    add("array_grid", saved, grid, chunks=(2, 3, 4))
    add("array_grid_fortran", saved, np.asfortranarray(grid), chunks=(2, 3, 4), attrs={"unit": "m"})
    add("array_grid_appended", appended_grid)
    add_array_chunks()
    add("array_no_checksum", saved, np.arange(120.0).reshape(12, 10), chunks=5, checksum=None)
    add("array_no_trailer", lambda: bp.pack_ndarray_to_bytes(np.eye(5)))
    add("array_appended", appended)
    add("trailer_stale_by_append", stale_by_append)
    add("trailer_stale_by_metadata", stale_by_metadata)


def add_array_chunks() -> None:
    """Add files of array chunks, with every map and coder, and one among Blosc chunks."""
    rng = np.random.default_rng(11)
    y, x = np.ogrid[:24, :40]
    walk = rng.integers(-40, 41, 2000).cumsum()
    noisy = (7 * x + 3 * y * y + rng.integers(0, 3, (24, 40))).astype("<i2")
    mixed = np.concatenate([noisy, rng.integers(-(2**15), 2**15, (24, 40)).astype("<i2")])
    found = {
        "i2": noisy,
        "i4": (rng.standard_cauchy(1500) * 300).astype("<i4").cumsum(dtype="<i4"),
        "f4": (walk / 64 + rng.random(2000) / 64).astype("<f4"),
        "decimal": np.append(walk / 100, [-0.0, np.nan, np.inf]),
        "few_values": np.sqrt(np.arange(30.0))[rng.integers(0, 30, 4000)],
        "time": (1_700_000_000_000 + 1000 * np.arange(900) + walk[:900] % 50).astype("<M8[ms]"),
        "rgb": np.stack([noisy % 251, noisy % 251 + 2, noisy % 251 + 3], -1).astype("u1"),
        "mixed": mixed,
    }
    for name, array in found.items():
        add(
            f"array_auto_{name}", saved, array, codec="auto", chunks=24 if name == "mixed" else None
        )
    cube = (x * y)[None] + np.arange(6)[:, None, None] * 5 + rng.integers(0, 2, (6, 24, 40))
    grid = cube.astype("<u2")
    add("array_auto_grid", saved, grid, codec="auto", chunks=(4, 12, 30))
    add("array_auto_fortran", saved, np.asfortranarray(grid), codec="auto")


def appended_grid() -> bytes:
    """Return an array in a grid whose last row was rewritten by an append."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        array = np.arange(42, dtype="<i2").reshape(7, 6)
        bp.save(path, array[:4], chunks=(3, 4))
        with bp.open(path, "a") as a:
            a.append(array[4:])
        return path.read_bytes()


def arrays() -> dict[str, Any]:
    titles = np.dtype([(("a title", "x"), "<i2"), ("y", "u1", (2, 3))])
    mixed = np.dtype({"names": ["b", "a"], "formats": ["<i2", ">f4"], "offsets": [4, 0]})
    return {
        "f8": np.linspace(0, 1, 50).reshape(5, 10),
        "big_endian": np.arange(12, dtype=">u4").reshape(3, 4),
        "fortran": np.asfortranarray(np.arange(35, dtype="<i2").reshape(5, 7)),
        "scalar": np.array(2.5, "<f4"),
        "no_items": np.zeros((0, 3), "<c8"),
        "bool": np.arange(30) % 3 == 0,
        "text": np.array(["a", "\u00e9t\u00e9", ""]),
        "long_text": np.array(["x" * 70]),
        "bytes": np.array([b"ab", b"c"]),
        "time": np.arange(10).astype("<M8[ms]"),
        "struct": np.array([(1, [[1, 2, 3], [4, 5, 6]])], titles),
        "struct_reordered": np.array([(1, 2.5), (3, 4.5)], mixed),
        "bfloat16": np.arange(20).astype(ml_dtypes.bfloat16),
    }


def damaged_files() -> None:
    file = assemble(chunks(*THREE), checksum="crc32", offsets=False)
    first = len(chunk(THREE[0])) + 4
    add("bad_magic", changed, file, 0)
    add("bad_version", changed, file, 4, b"\x05")
    add("bad_option", changed, file, 5, b"\x04")
    add("bad_checksum_id", changed, file, 6, b"\x09")
    add("bad_last_chunk", changed, file, 12, struct.pack("<i", 2001))
    add("bad_header_cut", lambda: file[:20])
    add("bad_chunk_cut", lambda: file[: 32 + first - 10])
    add("bad_last_digest_cut", lambda: file[:-4])
    add("bad_chunk_flipped", changed, file, 32 + first + 40)
    add("bad_digest_flipped", changed, file, 32 + first - 1)
    add("bad_nchunks_too_small", changed, file, 12, struct.pack("<iq", 2000, 2))
    add("bad_nchunks_too_large", changed, file, 16, struct.pack("<q", 4))
    wrong = [chunk(THREE[0]), chunk(THREE[0][:1999]), chunk(THREE[2])]
    add("bad_chunk_of_another_size", assemble, wrong)
    later = changed(chunk(THREE[0]), 0, b"\x05")
    add("bad_chunk_of_blosc_2", assemble, [later])
    cut = chunk(THREE[0], "zstd")
    add("bad_stream", assemble, [changed(cut, 30, bytes(6))])
    add("bad_expansion", assemble, [changed(chunk(THREE[0]), 4, struct.pack("<I", 2**31 - 17))])
    add("bad_table_cut", lambda: assemble(chunks(*THREE), spare=9)[: 32 + 40])
    section = pack_section({"a": 1}, checksum="crc32", codec="None", reserve=20)
    some = assemble(chunks(*THREE), section=section)
    add("bad_metadata_flipped", changed, some, 32 + 35)
    add("bad_metadata_magic", changed, some, 32, b"YAML")
    add("bad_metadata_codec", changed, some, 32 + 10, b"\x02")
    add("bad_metadata_cut", lambda: some[:60])
    large = pack_section({"a": "x"}, checksum="None", codec="None", reserve=20)
    large = changed(large, 10, b"\x01" + b"\x06" + struct.pack("<I", 2**31))
    add("bad_metadata_expansion", assemble, chunks(*THREE), section=large)
    four = version_4("xxh3_64")
    add("bad_v4_header_flipped", changed, four, 16)
    add("bad_v4_feature", lambda: with_digest(changed(four, 40, b"\x08")))
    array = bp.pack_ndarray_to_bytes(
        np.arange(40, dtype="<i2").reshape(4, 10),
        metadata_args=bp.MetadataArgs(meta_codec="None", meta_checksum="None"),
    )
    add("bad_array_shape", changed, array, array.index(b"[4,10]"), b"[5,10]")
    add("bad_array_object", changed, array, array.index(b"'<i2'"), b"'|O8'")
    whole = saved(np.arange(40, dtype="<i2"), chunks=10)
    add("bad_front_with_trailer", changed, whole, 8, struct.pack("<i", 24))


def savez(arrays: dict[str, Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    bp.savez(stream, arrays, **options)
    return stream.getvalue()


def with_files_of(archive: bytes, more: int) -> bytes:
    """Return an archive of one bundle, whose directory declares more bytes; digests are right."""
    bundle = next(iter(read_index(MemorySource(archive))[0].values())).part
    fields = bundle.directory
    total = int.from_bytes(fields[8:12], "little") + more
    false = bundle._replace(directory=fields[:8] + total.to_bytes(4, "little") + fields[12:])
    chunk = archive[bundle.offset : bundle.end]
    return archive[: bundle.at] + false.pack() + chunk + pack_index([false], false.end)


def archives() -> None:
    fields = {
        "temperature": np.linspace(270, 300, 600, dtype="<f4").reshape(20, 30),
        "mask": np.arange(40).reshape(8, 5) % 3 == 0,
        "m\u00e9t\u00e9o/../0": np.asfortranarray(np.arange(24, dtype=">i2").reshape(4, 6)),
        "": np.array(7, "<i8"),
    }
    attrs = {"title": "fields", "levels": [1, 2]}
    add("archive_fields", savez, fields, attrs=attrs, chunks=8)
    ramp = {"ramp": np.arange(3000, dtype="<i4").reshape(60, 50)}
    add("archive_array_chunks", savez, ramp, codec="auto", chunks="auto")
    add("archive_empty", savez, {})
    bundled = {f"layers/{n}/bias": np.arange(n, n + 20, dtype="<f4") for n in range(8)}
    bundled |= {"noise": np.random.default_rng(0).integers(0, 256, 4000, "u1")}
    bundled |= {f"\u03b1{n}": np.full((n, 3), n, f"<i{1 << n % 4}") for n in range(8)}
    add("archive_bundles", savez, bundled, attrs={"title": "small arrays"})
    whole = savez({str(n): np.arange(n) for n in range(8)})
    add("bad_archive_directory", lambda: with_files_of(whole, 1))
    sound = savez(fields)
    add("bad_archive_cut", lambda: sound[:-1])
    add("bad_archive_index", changed, sound, len(sound) - 50)
    add("bad_archive_header", changed, sound, 12)


def states(array: Any, **options: Any) -> list[bytes]:
    """Return a log after each of three commits, which change items, the shape and the attrs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        bp.save(path, array, changeable=True, nthreads=1, **options)
        found = [path.read_bytes()]
        with bp.open(path, "r+", nthreads=1) as a:
            a[1:, ::3] = 7
            a.flush()
            found.append(path.read_bytes())
            lengths = list(a.shape)
            lengths[-1 if a.is_fortran else 0] += 3
            a.resize(lengths)
            a[-1] = a[0]
            a.attrs["unit"] = "K"
        return [*found, path.read_bytes()]


def unconfirmed(file: bytes, *places: int) -> bytes:
    """Return a log whose commits at some places are not confirmed."""
    for at in places:
        head = file[at : at + 114] + bytes(2) + file[at + 116 : at + 120]
        file = changed(file, at, head + xxh3_64_digest(head))
    return file


def logs() -> None:
    cube = np.arange(7 * 6 * 5, dtype="<u2").reshape(7, 6, 5)
    options: dict[str, Any] = {"chunks": (3, 4, 5), "codec": "auto", "checksum": "xxh3_64"}
    add("log_grid", lambda: states(cube, **options)[-1])
    fortran = np.asfortranarray(np.linspace(0, 1, 48).reshape(6, 8))
    add("log_fortran", lambda: states(fortran, chunks=3, checksum=None)[-1])
    add("log_statistics", lambda: states(cube, chunks=(3, 4, 5), stats=True)[-1])
    first, _, last = states(np.arange(60, dtype="<i4").reshape(6, 10), chunks=2)
    add("log_rows", lambda: last)
    # The third commit is in the second slot, at 4224, and in its copy, at 8320.
    slots, copies = (4096, 4224), (8192, 8320)
    torn = changed(last, slots[1] + 12, bytes(40))
    add("log_torn_commit", changed, torn, copies[1], first[copies[1] :][:128])
    # It was not confirmed; then the power failed before all of its group was on disk.
    add("log_unconfirmed", unconfirmed, last, slots[1], copies[1])
    group, nbytes = struct.unpack_from("<QI", last, slots[1] + 40)
    lost = changed(last, group + nbytes - 8)
    add("log_incomplete", unconfirmed, lost, slots[1], copies[1])
    without = last
    for at in (*slots, *copies):
        without = changed(without, at + 9)
    add("bad_log_no_commit", lambda: without)
    # In the padding of the metadata: no other checksum covers it.
    add("bad_log_group", changed, last, group + nbytes - 8)
    # A leaf of the only page, to which the node leads.
    (page,) = struct.unpack_from("<Q", last, group + 8)
    (leaf,) = struct.unpack_from("<Q", last, page + 20)
    add("bad_log_chunk", changed, last, leaf + 30)


def main(folder: Path) -> None:
    sound_files()
    damaged_files()
    archives()
    logs()
    stores.add_all(add)
    folder.mkdir(exist_ok=True)
    for name, make in FILES.items():
        data = make()
        with (folder / f"{name}.blp").open("xb") as stream:
            stream.write(data)
        write_twin(folder / f"{name}.blp", data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
