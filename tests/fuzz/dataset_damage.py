"""Damage to Benzina datasets: blind, or to sizes, kinds and numbers of boxes."""

from random import Random

from dataset_vectors import DatasetVector
from mutation import BLIND

_SIZES = (0, 1, 7, 8, 15, 16, 1 << 16, 1 << 31, (1 << 32) - 1)
_NUMBERS = (0, 1, 2, 5, 8, 1 << 8, 1 << 16, 1 << 24, 1 << 30, 1 << 31, (1 << 32) - 1)
_SOME = (b"moov", b"trak", b"mdia", b"stbl", b"stsz", b"stco", b"co64", b"stsc", b"hvcC", b"free")
_HEADER_NBYTES = 8


def damaged(rng: Random, vector: DatasetVector) -> tuple[str, bytes]:
    """Return a description of the damage, and the damaged file."""
    data, done = bytearray(vector.data), []
    for _ in range(rng.choice((1, 1, 2))):
        if len(data) < 2 * _HEADER_NBYTES:
            break
        if rng.random() < 0.4:
            done.append(rng.choice(BLIND)(rng, data))
        else:
            done.append(_aimed(rng, vector, data))
    return ", ".join(done), bytes(data)


def _aimed(rng: Random, vector: DatasetVector, data: bytearray) -> str:
    box = rng.choice(vector.boxes[: vector.nouter] if rng.random() < 0.5 else vector.boxes)
    choice = rng.randrange(8)
    if choice == 0:
        nbytes = rng.choice((*_SIZES, box.nbytes + rng.choice((-8, -4, -1, 1, 4, 8)), len(data)))
        return _put(data, box.offset, max(nbytes, 0).to_bytes(4, "big")[-4:], "size")
    if choice == 1:
        large = rng.choice((0, 15, 16, box.nbytes, 1 << 40, 1 << 63, (1 << 64) - 1 - box.offset))
        new = (1).to_bytes(4, "big") + box.kind + large.to_bytes(8, "big")
        return _put(data, box.offset, new, "size of 64 bits")
    if choice == 2:
        kind = rng.choice((*_SOME, rng.choice(vector.boxes).kind))
        return _put(data, box.offset + 4, kind, "kind")
    if choice == 3:
        other = rng.choice(vector.boxes)
        return _put(data, box.offset, data[other.offset : other.end][: box.nbytes], "box")
    # A word of the payload; most words are counts, sizes, offsets or rationals.
    nwords = max(1, (box.nbytes - box.header_nbytes) // 4)
    at = box.payload_offset + 4 * rng.randrange(min(nwords, 40))
    old = int.from_bytes(data[at : at + 4], "big")
    near = (old + rng.choice((-100, -4, -1, 1, 4, 100)), old * 2, old // 2, len(data) - old)
    new_number = rng.choice((rng.choice(_NUMBERS), rng.choice(near), old ^ 1 << rng.randrange(32)))
    return _put(data, at, (new_number & 0xFFFFFFFF).to_bytes(4, "big"), f"word of {box.kind!r}")


def _put(data: bytearray, at: int, new: bytes, what: str) -> str:
    old = bytes(data[at : at + len(new)])
    data[at : at + len(new)] = new[: max(0, len(data) - at)]
    return f"{what} at {at}: {old[:16].hex()} to {new[:16].hex()}"
