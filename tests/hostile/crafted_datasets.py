"""Benzina datasets of boxes that are assembled by hand."""

import struct

from bloscpack.benzina.mp4.bmff import pack_box, pack_large_header


def u32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def full(kind: bytes, *payload: bytes) -> bytes:
    return pack_box(kind, bytes(4), *payload)


def handler(name: bytes, kind: bytes = b"meta") -> bytes:
    return full(b"hdlr", bytes(4), kind, bytes(12), name)


def table(stsz: bytes, stsc: bytes, stco: bytes, *more: bytes, co64: bool = False) -> bytes:
    """Return a stbl; its parts are the bytes after version and flags."""
    offsets = full(b"co64" if co64 else b"stco", stco)
    return pack_box(b"stbl", full(b"stsz", stsz), full(b"stsc", stsc), offsets, *more)


def track(
    name: str, stbl: bytes, *, in_trak: bytes = b"", in_mdia: bytes = b"", in_minf: bytes = b""
) -> bytes:
    minf = pack_box(b"minf", stbl, in_minf)
    return pack_box(
        b"trak", pack_box(b"mdia", handler(name.encode() + b"\0"), minf, in_mdia), in_trak
    )


def even(name: str, nbytes: int, count: int, offset: int = 8) -> bytes:
    """Return a track of samples of one size, all in one chunk."""
    return track(name, table(u32(nbytes, count), u32(1, 1, count, 1), u32(1, offset)))


EMPTY = table(u32(0, 0), u32(0), u32(0))


def movie(*boxes: bytes) -> bytes:
    return pack_box(b"moov", *boxes)


def filled(box: bytes, nbytes: int = 1 << 19) -> bytes:
    """Return as many copies of a box as fit."""
    return box * (nbytes // len(box))


def with_a_hole(name: str, count: int, *before: bytes) -> tuple[int, dict[int, bytes]]:
    """Return a moov with a track whose table of sizes is a hole: its size, and its stored bytes.

    The moov also contains the boxes `before`.
    """
    stsc, stco = full(b"stsc", u32(1, 1, count, 1)), full(b"stco", u32(1, 8))
    inner = handler(name.encode() + b"\0")
    nbytes = 12 + 8 + 4 * count
    start = pack_large_header(b"stsz", nbytes + 8) + u32(0, 0, count)
    nbytes += 8 + len(stsc + stco)
    for kind, beside in ((b"stbl", b""), (b"minf", b""), (b"mdia", inner), (b"trak", b"")):
        nbytes += 16 + len(beside)
        start = pack_large_header(kind, nbytes) + beside + start
    nbytes += 16 + len(b"".join(before))
    start = pack_large_header(b"moov", nbytes) + b"".join(before) + start
    return nbytes, {0: start, nbytes - len(stsc + stco): stsc + stco}
