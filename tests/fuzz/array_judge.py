"""Decoding of damaged array chunks beside guard pages, whole and block by block.

As in chunk_judge.py, each is decoded twice over different memory: bytes that differ were not
written.
"""

from functools import cache
from math import prod
from random import Random

import numpy as np
from array_vectors import plan_fields, random_chunk
from chunk_judge import _M_PERTURB, AREA_NBYTES, ERRORS, _libc, areas
from mutation import damage

from bloscpack.format.arraychunk import ArrayChunkHead, BlockRun, Plan
from bloscpack.format.codec import ARRAY_CHUNK_VERSION, decode_into

NCHUNKS = 300


@cache
def array_chunks() -> list[tuple[Plan, bytes]]:
    rng = Random(1)
    return [random_chunk(rng, largest=rng.choice((20, 300, 3000))) for _ in range(NCHUNKS)]


def run_case(rng: Random) -> tuple[str, list[str], int]:
    number = rng.randrange(NCHUNKS)
    plan, chunk = array_chunks()[number]
    data = bytearray(chunk)
    what = f"chunk {number}: {damage(rng, data, plan_fields(plan))}"
    if len(data) >= 16 and rng.random() < 0.9:
        # A chunk whose stored size is not its length is refused immediately.
        data[12:16] = len(data).to_bytes(4, "little")
    return what, judge(bytes(data)), 2 * AREA_NBYTES


def judge(chunk: bytes) -> list[str]:
    """Return the faults found while decoding `chunk`."""
    faults: list[str] = []
    nbytes = int.from_bytes(chunk[4:8], "little") if len(chunk) >= 8 else 0
    if nbytes > AREA_NBYTES:
        return _unpack_faults(chunk)
    whole = _decode(chunk, nbytes, None, faults)
    try:
        head = ArrayChunkHead.unpack(chunk)
    except ERRORS:
        if whole is not None and chunk[0] == ARRAY_CHUNK_VERSION:  # else it may be a Blosc chunk
            faults.append("a chunk with a damaged head was decoded")
        return faults
    point = len(head.plan.planes) * head.plan.itemsize
    for index in range(min(head.plan.nblocks, 50)):
        _, sides = head.plan.block_place(index)
        block = _decode(chunk, prod(sides) * point, index, faults)
        if whole is not None and block is None:
            faults.append(f"block {index} is damaged, the whole is not")
    first = head.plan.nblocks // 3
    _check_run(chunk, head, (first, min(first + 3, head.plan.nblocks)), whole, faults)
    return faults


def _check_run(
    chunk: bytes, head: ArrayChunkHead, run: tuple[int, int], whole: bytes | None, faults: list[str]
) -> None:
    """Decode adjacent blocks to their places; nothing else may be written."""
    first, stop = run
    try:
        low, high = head.extent(first)[0], head.extent(stop - 1)[1]
    except ERRORS:
        return
    source, target = areas()
    out = target.last(head.header.nbytes)
    out[:] = b"\x55" * len(out)
    try:
        blocks = BlockRun(first, stop, low, high)
        head.decode_run_into(source.holding(chunk[low:high]), blocks, out)
    except ERRORS:
        if whole is not None:
            faults.append(f"blocks {first} to {stop} are damaged, the whole is not")
        return
    held = np.zeros(head.plan.shape, bool)
    for index in range(first, stop):
        start, sides = head.plan.block_place(index)
        held[tuple(slice(at, at + side) for at, side in zip(start, sides, strict=True))] = True
    held = held.repeat(len(out) // held.size)
    found = np.frombuffer(out, "u1")
    if (found[~held] != 0x55).any():
        faults.append(f"blocks {first} to {stop}: bytes of other blocks were written")
    if whole is not None and (found[held] != np.frombuffer(whole, "u1")[held]).any():
        faults.append(f"blocks {first} to {stop} are not what the whole is")


def _unpack_faults(chunk: bytes) -> list[str]:
    try:
        ArrayChunkHead.unpack(chunk)
    except ERRORS:
        pass
    except Exception as err:
        return [f"ArrayChunkHead.unpack: {type(err).__name__}: {err}"]
    return []


def _decode(chunk: bytes, room: int, index: int | None, faults: list[str]) -> bytes | None:
    what = "whole" if index is None else f"block {index}"
    results = []
    for fill in (0x55, 0xAA):
        _libc.mallopt(_M_PERTURB, fill)
        source, target = areas()
        out = target.last(room)
        out[:] = bytes((fill,)) * room
        try:
            if index is None:
                decode_into(source.holding(chunk), out)
            else:
                head = ArrayChunkHead.unpack(chunk)
                low, high = head.extent(index)
                # Only the block is present: the source ends where it ends.
                head.decode_block_into(source.holding(chunk[low:high]), low, index, out)
        except ERRORS:
            results.append(None)
        except Exception as err:
            faults.append(f"{what}: {type(err).__name__}: {err}")
            return None
        else:
            results.append(bytes(out))
        finally:
            _libc.mallopt(_M_PERTURB, 0)
    if results[0] != results[1]:
        faults.append(f"{what}: the result depends on what was in memory before")
        return None
    return results[0]
