"""Damage to files and chunks, from a seeded generator.

Half of the damage is blind (bits, bytes, cuts, regions). The other half hits the fields that
readers use: counts, sizes and offsets. A damaged file may be sealed: the digests of its chunks and
metadata are recomputed, so that the damage passes the checksums and reaches the decoders.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from xxhash import xxh3_64_digest

from bloscpack.format.checksum import CHECKSUMS

BYTES = (0x00, 0x01, 0x02, 0x03, 0x04, 0x7F, 0x80, 0xFF)
# New values of a count or a size of 4 or 8 bytes, besides values near the old one.
EXTREMES = (0, 1, 2, 15, 16, 17, 127, 128, 255, 256, 1 << 16, 1 << 24, 2**31 - 17, 2**31 - 1)
EXTREMES_8 = (*EXTREMES, 1 << 31, 1 << 32, 1 << 40, 1 << 60, 1 << 62, (1 << 63) - 1)

HEADER_BYTES = (4, 5, 6, 7)
HEADER_FIELDS = ((8, 4), (12, 4), (16, 8), (24, 8))
EXTENDED_HEADER_NBYTES = 64
EXTENDED_HEADER_FIELDS = ((32, 4), (36, 1), (38, 1), (40, 4), (44, 4), (48, 8))
METADATA_BYTES = (8, 9, 10, 11)
METADATA_FIELDS = ((12, 4), (16, 4), (20, 4))
CHUNK_BYTES = (0, 1, 2, 3)
CHUNK_FIELDS = ((4, 4), (8, 4), (12, 4))


@dataclass(frozen=True)
class Layout:
    """Positions and sizes in bytes of the fields of a valid file."""

    chunks: tuple[tuple[int, int], ...]
    offsets: tuple[int, int]
    metadata: int | None
    header_nbytes: int = 32

    def fields(self) -> list[tuple[int, int]]:
        found = [(at, 1) for at in HEADER_BYTES]
        found += HEADER_FIELDS * 3
        if self.header_nbytes == EXTENDED_HEADER_NBYTES:
            found += EXTENDED_HEADER_FIELDS
        if self.metadata is not None:
            found += [(self.metadata + at, 1) for at in METADATA_BYTES]
            found += [(self.metadata + at, size) for at, size in METADATA_FIELDS]
        start, count = self.offsets
        found += [(start + 8 * index, 8) for index in range(min(count, 8))]
        for offset, _ in self.chunks[:2] + self.chunks[-1:]:
            found += chunk_fields(offset)
        return found


def chunk_fields(offset: int) -> list[tuple[int, int]]:
    """Return the fields of the header, the first block start and the first stream of a chunk."""
    found = [(offset + at, 1) for at in CHUNK_BYTES]
    found += [(offset + at, size) for at, size in CHUNK_FIELDS]
    return [*found, (offset + 16, 4), (offset + 20, 4), (offset + 24, 4)]


def set_field(rng: Random, data: bytearray, at: int, size: int) -> str:
    old = int.from_bytes(data[at : at + size], "little")
    bits = 8 * size
    choice = rng.randrange(6)
    if size == 1:
        new = rng.choice(BYTES) if choice < 3 else old ^ 1 << rng.randrange(8)
    elif choice == 0:
        new = old + rng.choice((-16, -8, -4, -1, 1, 4, 8, 16))
    elif choice == 1:
        new = rng.choice((old * 2, old // 2, ~old, -old, len(data), len(data) - at))
    elif choice == 2:
        new = old ^ 1 << rng.randrange(bits)
    else:
        new = rng.choice(EXTREMES if size == 4 else EXTREMES_8) * rng.choice((1, 1, 1, -1))
    new &= (1 << bits) - 1
    data[at : at + size] = new.to_bytes(size, "little")
    return f"{size} bytes at {at}: {old:#x} to {new:#x}"


def flip_bit(rng: Random, data: bytearray) -> str:
    at, bit = rng.randrange(len(data)), rng.randrange(8)
    data[at] ^= 1 << bit
    return f"bit {bit} of byte {at}"


def set_byte(rng: Random, data: bytearray) -> str:
    at, new = rng.randrange(len(data)), rng.choice(BYTES)
    data[at] = new
    return f"byte {at} to {new:#x}"


def cut(rng: Random, data: bytearray) -> str:
    size = rng.choice((rng.randrange(len(data)), len(data) - rng.randrange(1, 80)))
    del data[max(size, 0) :]
    return f"cut to {len(data)} bytes"


def _region(rng: Random, data: bytearray) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.choice((1, 4, 8, 16, 20, 64, rng.randrange(1, 200))))


def duplicate(rng: Random, data: bytearray) -> str:
    start, stop = _region(rng, data)
    data[stop:stop] = data[start:stop]
    return f"bytes {start} to {stop} twice"


def drop(rng: Random, data: bytearray) -> str:
    start, stop = _region(rng, data)
    del data[start:stop]
    return f"bytes {start} to {stop} dropped"


def overwrite(rng: Random, data: bytearray) -> str:
    start, stop = _region(rng, data)
    at = rng.randrange(len(data))
    data[at : at + stop - start] = data[start:stop]
    return f"bytes {start} to {stop} copied over those at {at}"


def swap(rng: Random, data: bytearray) -> str:
    nbytes = rng.choice((1, 4, 8, 16, 64))
    if len(data) < 2 * nbytes:
        return flip_bit(rng, data)
    one = rng.randrange(len(data) - 2 * nbytes + 1)
    two = rng.randrange(one + nbytes, len(data) - nbytes + 1)
    first, second = data[one : one + nbytes], data[two : two + nbytes]
    data[one : one + nbytes], data[two : two + nbytes] = second, first
    return f"{nbytes} bytes at {one} and {two} swapped"


def insert(rng: Random, data: bytearray) -> str:
    at, extra = rng.randrange(len(data)), rng.randbytes(rng.choice((1, 4, 8, 100)))
    data[at:at] = extra
    return f"{len(extra)} bytes inserted at {at}"


def trail(rng: Random, data: bytearray) -> str:
    extra = rng.choice((rng.randbytes(rng.randrange(1, 200)), bytes(rng.randrange(1, 64))))
    data += extra
    return f"{len(extra)} bytes appended"


BLIND: tuple[Callable[[Random, bytearray], str], ...] = (
    flip_bit,
    flip_bit,
    set_byte,
    set_byte,
    cut,
    duplicate,
    drop,
    overwrite,
    swap,
    insert,
    trail,
)


def damage(rng: Random, data: bytearray, fields: list[tuple[int, int]]) -> str:
    """Damage `data` in one or two ways and return a description."""
    done = []
    for _ in range(rng.choice((1, 1, 2))):
        if not data:
            break
        at, size = rng.choice(fields)
        if rng.random() < 0.5 and at + size <= len(data):
            done.append(set_field(rng, data, at, size))
        else:
            done.append(rng.choice(BLIND)(rng, data))
    return ", ".join(done)


def seal(data: bytearray, layout: Layout) -> None:
    """Recompute the digests of `data` at the positions that the lengths of its parts give.

    A trailer is left alone: readers notice that it is stale and do without it.
    """
    is_extended = layout.header_nbytes == EXTENDED_HEADER_NBYTES
    if len(data) < layout.header_nbytes:
        return
    if is_extended:
        data[56:64] = xxh3_64_digest(bytes(data[:56]))
    checksum = data[38 if is_extended else 6]
    if checksum >= len(CHECKSUMS):
        return
    row = CHECKSUMS[checksum]
    for offset, cbytes in layout.chunks:
        end = offset + cbytes
        if row.nbytes and end + row.nbytes <= len(data):
            data[end : end + row.nbytes] = row.digest(bytes(data[offset:end]))
    start = layout.metadata
    if start is None or len(data) < start + 32 or data[start + 9] >= len(CHECKSUMS):
        return
    row = CHECKSUMS[data[start + 9]]
    reserved, stored = struct.unpack_from("<II", data, start + 16)
    end = start + 32 + reserved
    if row.nbytes and stored <= reserved and end + row.nbytes <= len(data):
        digest = row.digest(bytes(data[start + 32 : start + 32 + stored]))
        data[end : end + row.nbytes] = digest
