"""Array chunks by random plans: every map, predictor, coder and shape of blocks."""

from math import prod
from random import Random

import numpy as np

from bloscpack.format.arraychunk import Coder, Map, Plan, PlanePlan, scale_of
from bloscpack.format.codec import CodecParams, encode

DIVISORS = (10.0, 0.1, -3.0, 1e-300, 2.0**40)


def random_plan(rng: Random, *, largest: int = 3000) -> Plan:
    """Return a plan of at most about `largest` points."""
    itemsize = rng.choice((1, 2, 4, 8))
    if rng.random() < 0.3:
        shape = (1, 1, rng.randrange(1, largest))
        block = (1, 1, rng.randrange(-(-shape[2] // 20), shape[2] + 1) or 1)
    else:
        shape = (rng.randrange(1, 6), rng.randrange(1, 20), rng.randrange(1, largest // 50 + 2))
        block = (rng.randrange(1, shape[0] + 1), rng.randrange(1, shape[1] + 1), shape[2])
    planes: list[PlanePlan] = []
    nbytes = prod(shape) * itemsize
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        planes.append(_random_plane(rng, itemsize, nbytes, planes))
    return Plan(itemsize, shape, block, tuple(planes), itemsize > 1 and rng.random() < 0.2)


def _random_plane(rng: Random, itemsize: int, nbytes: int, planes: list[PlanePlan]) -> PlanePlan:
    width = rng.choice([w for w in (1, 2, 4, 8) if w <= itemsize])
    predictor = rng.choice((0, 1, 2, 3, 5)) + rng.choice((0, 8))
    if planes and planes[-1].width == width:
        predictor += rng.choice((0, 16))
    coder = Coder(rng.choice((0, 1, 2, 2)))
    k, values = 0, b""
    if coder == Coder.BINS:
        k = rng.choice([k for k in range(min(8, 8 * width)) if (8 * width - k + 1) << k <= 256])
        room = 256 - ((8 * width - k + 1) << k)
        most = rng.choice((256**width, min(256**width, 1000)))
        numbers = sorted({rng.randrange(most) for _ in range(rng.randrange(room + 1))})
        values = b"".join(number.to_bytes(width, "little") for number in numbers)
    kinds = [Map.OFFSET, Map.FLOAT]
    if itemsize >= 4:
        kinds.append(Map.QUOTIENT)
    most = min(8192, nbytes // 16 // itemsize)
    if most:
        kinds.append(Map.RANK)
    kind = rng.choice(kinds)
    offset = rng.choice((0, 5, rng.randrange(2**64)))
    shift = scale = 0
    dictionary = stored = b""
    if kind == Map.OFFSET:
        scale = rng.choice((1, 1, 3, rng.randrange(1, 2**64)))
    elif kind == Map.FLOAT:
        shift = rng.randrange(8 * itemsize)
    elif kind == Map.QUOTIENT:
        scale = scale_of(rng.choice(DIVISORS))
    else:
        offset = 0
        dictionary = rng.randbytes(rng.randrange(1, most + 1) * itemsize)
        stored = encode(dictionary, CodecParams("zstd", 5, 1, itemsize))
    return PlanePlan(
        kind, width, predictor, coder, shift, k, offset, scale, values, dictionary, stored
    )


def random_chunk(rng: Random, *, largest: int = 3000) -> tuple[Plan, bytes]:
    """Return a plan, and a chunk of random integers by this plan."""
    plan = random_plan(rng, largest=largest)
    n = prod(plan.shape)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    works, masks, items = [], [], []
    for plane in plan.planes:
        most = 256**plane.width
        kind = rng.choice(("noise", "walk", "sparse", "constant", "smooth"))
        if kind == "noise":
            work = numbers.integers(0, most, n, dtype="u8")
        elif kind == "walk":
            work = np.cumsum(numbers.integers(-3, 4, n)).astype("u8")
        elif kind == "sparse":
            work = (numbers.random(n) < 0.05) * numbers.integers(0, 200, n).astype("u8")
        elif kind == "constant":
            work = np.full(n, rng.randrange(256), "u8")
        else:
            work = (np.sin(np.arange(n) / 50) * min(most, 2**40) / 3).astype("i8").view("u8")
        work = work.astype(f"u{plane.width}")
        if plane.map == Map.RANK:
            nentries = len(plane.dictionary) // plan.itemsize
            work = (work % min(nentries, most - 1)).astype(work.dtype)
        works.append(work.tobytes())
        if rng.random() < 0.4:
            share = rng.choice((0, 0.02, 0.5, 1))
            masks.append((numbers.random(n) < share).astype("u1").tobytes())
            items.append(numbers.bytes(n * plan.itemsize))
        else:
            masks.append(None)
            items.append(None)
    encoded = plan.kernel().encode(works, masks, items, 1 << 24)
    assert encoded is not None
    return plan, plan.pack(encoded[1], encoded[0])


def plan_fields(plan: Plan) -> list[tuple[int, int]]:
    """Return position and size of the fields of the head, and of the first bytes of blocks."""
    found = [(at, 1) for at in (0, 1, 2, 3)] + [(at, 4) for at in (4, 8, 12)]
    found += [(16, 4), (20, 2), (22, 1), (23, 1)] + [(at, 4) for at in range(24, 48, 4)]
    at = 48
    for plane in plan.planes:
        found += [(at + i, 1) for i in range(6)] + [(at + 6, 2), (at + 8, 8), (at + 16, 8)]
        found += [(at + 24 + i, 1) for i in range(0, len(plane.values), 7)]
        at += 24 + len(plane.values)
    found += [(at + 4 * i, 4) for i in range(min(plan.nblocks, 8))]
    at += 4 * plan.nblocks + sum(len(plane.stored_dictionary) for plane in plan.planes)
    return found + [(at + i, size) for i in (0, 4, 8, 12) for size in (1, 4)] * 3
