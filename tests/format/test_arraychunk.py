"""Array chunks: the kernel agrees with the reference, for sound chunks and damaged ones."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
import zstandard

from bloscpack._ext import arraychunk as kernel
from bloscpack.exceptions import CodecError, FormatError, TruncatedError, UnsupportedError
from bloscpack.format.arraychunk import (
    PLAN_START,
    ArrayChunkHead,
    Coder,
    Map,
    Plan,
    PlanePlan,
    Predictor,
    scale_of,
)
from bloscpack.format.codec import (
    ChunkHeader,
    CodecParams,
    decode_blocks_into,
    decode_into,
    decode_range_into,
    encode,
    extent_of_range,
)

from ..fuzz.array_vectors import plan_fields, random_chunk
from ..reference.arraychunk import decode
from ..reference.refused import RefusedError

ERRORS = (FormatError, CodecError, UnsupportedError)
# C-Blosc has Zstandard 1.5.6, which refuses some damaged frames that earlier releases decode.
IS_LENIENT = zstandard.ZSTD_VERSION < (1, 5, 6)


@pytest.fixture(params=[0, 1], ids=["portable", "avx2"])
def vectors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each decoder that this processor supports."""
    if kernel.limit_vectors(request.param) < request.param:
        pytest.skip("the processor has no such instructions")
    yield
    kernel.limit_vectors(1)


def decoded(chunk: bytes) -> bytes:
    out = bytearray(ChunkHeader.unpack(chunk).nbytes)
    decode_into(chunk, out)
    return bytes(out)


def encoded(work: np.ndarray[Any, Any], plane: PlanePlan, block: tuple[int, int, int]) -> bytes:
    shape = (work.shape[0], work.shape[1], work.shape[2])
    plan = Plan(work.itemsize, shape, block, (plane,))
    found = plan.kernel().encode([work.tobytes()], [None], [None], 1 << 24)
    assert found is not None
    return plan.pack(found[1], found[0])


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("seed", range(8))
def test_kernel_agrees_with_the_reference(seed: int) -> None:
    for number in range(25):
        plan, chunk = random_chunk(Random(f"{seed} {number}"))
        head = ArrayChunkHead.unpack(chunk)
        assert head.plan == plan
        content = decoded(chunk)
        assert content == decode(chunk)
        points = np.frombuffer(content, "u1").reshape(*plan.shape, -1)
        for index in {0, plan.nblocks // 2, plan.nblocks - 1}:
            low, high = head.extent(index)
            start, sides = plan.block_place(index)
            place = tuple(slice(at, at + side) for at, side in zip(start, sides, strict=True))
            out = bytearray(points[place].nbytes)
            head.decode_block_into(chunk[low:high], low, index, out)
            assert bytes(out) == points[place].tobytes()


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("seed", range(8))
def test_ranges_of_the_content(seed: int) -> None:
    """From a whole chunk, and from its head and only the part that is said to be needed."""
    rng, nparts = Random(f"range {seed}"), 0
    for _ in range(20):
        plan, chunk = random_chunk(rng)
        content = decode(chunk)
        head = chunk[: ChunkHeader.unpack(chunk).head_size(chunk)]
        for _ in range(20):
            start, stop = sorted(rng.choices(range(len(content) + 1), k=2))
            out = bytearray(stop - start)
            decode_range_into(chunk, start, out)
            assert out == content[start:stop], plan
            if start == stop:
                continue
            low, high = extent_of_range(head, start, stop)
            out = bytearray(stop - start)
            decode_blocks_into(head, chunk[low:high], low, start, out)
            assert out == content[start:stop], plan
            nparts += (low, high) != (len(head), len(chunk))
    assert nparts > 20


def test_only_blocks_of_the_range_are_needed() -> None:
    work = np.arange(8 * 6 * 10, dtype="u2").reshape(8, 6, 10)
    plane = PlanePlan(Map.OFFSET, 2, Predictor.LEFT, Coder.PLANES, scale=1)
    head = ArrayChunkHead.unpack(encoded(work, plane, (1, 2, 10)))
    assert list(head.blocks_of_range(0, 40)) == [0]
    assert list(head.blocks_of_range(39, 41)) == [0, 1]
    assert list(head.blocks_of_range(100, 130)) == [2, 3]
    head = ArrayChunkHead.unpack(encoded(work, plane, (4, 2, 10)))
    assert list(head.blocks_of_range(0, 40)) == [0]
    assert list(head.blocks_of_range(40, 80)) == [1]
    assert list(head.blocks_of_range(120, 160)) == [0]  # the second slice
    assert list(head.blocks_of_range(100, 130)) == [0, 1, 2]  # the end of a slice and the next
    assert list(head.blocks_of_range(3 * 120 + 100, 4 * 120 + 30)) == [2, 3]
    assert list(head.blocks_of_range(0, 960)) == [0, 1, 2, 3, 4, 5]
    for start, stop in ((-1, 4), (4, 4), (0, 961)):
        with pytest.raises(CodecError, match="no blocks"):
            head.extent_of_range(start, stop)
        if start != stop:
            with pytest.raises(CodecError, match="no bytes"):
                head.decode_range_into(b"", 0, start, bytearray(stop - start))


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("seed", range(8))
def test_kernel_and_reference_agree_on_damage(seed: int) -> None:
    """Both refuse a chunk, or both return the same items."""
    rng = Random(f"damage {seed}")
    refused = 0
    for _ in range(10):
        plan, chunk = random_chunk(rng, largest=300)
        for _ in range(30):
            data = bytearray(chunk)
            if rng.random() < 0.5:
                at, _ = rng.choice([f for f in plan_fields(plan) if f[0] + f[1] <= len(data)])
                data[at] = rng.choice((0, 1, data[at] ^ 1 << rng.randrange(8), 255))
            else:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            try:
                ours = decoded(bytes(data))
            except ERRORS:
                ours = None
            try:
                theirs = decode(bytes(data))
            except RefusedError:
                theirs = None
            if IS_LENIENT and ours is None:
                theirs = None
            assert ours == theirs, plan
            refused += ours is None
    assert 50 < refused < 290  # damage of both kinds


@pytest.mark.sampled(23)
@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("predictor", [0, 1, 2, 3, 5, 8, 9, 10, 11, 13])
@pytest.mark.parametrize("coder", Coder)
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_integers_come_back(itemsize: int, coder: Coder, predictor: int) -> None:
    rng = np.random.default_rng(itemsize)
    shape = (3, 17, 75)  # two vectors of bytes and a rest
    walk = np.cumsum(rng.integers(-9, 10, 3 * 17 * 75)).reshape(shape).astype(f"u{itemsize}")
    extremes = rng.integers(0, 2, shape, "u8") * np.uint64(2**64 - 1)
    noise = rng.integers(0, 2**64, shape, "u8", endpoint=False)
    for work in (walk, extremes.astype(walk.dtype), noise.astype(walk.dtype), np.zeros_like(walk)):
        plane = PlanePlan(Map.OFFSET, itemsize, predictor, coder, k=1 * (coder == 2), scale=1)
        for block in ((3, 17, 75), (1, 5, 75), (2, 1, 75)):
            chunk = encoded(work, plane, block)
            assert decoded(chunk) == work.tobytes() == decode(chunk)


def test_a_block_of_part_of_a_row() -> None:
    work = np.arange(10_000, dtype="u4").reshape(1, 1, -1)
    plane = PlanePlan(Map.OFFSET, 4, Predictor.LEFT, Coder.BINS, k=2, scale=1)
    chunk = encoded(work, plane, (1, 1, 999))
    assert decoded(chunk) == work.tobytes()
    assert ArrayChunkHead.unpack(chunk).plan.nblocks == 11
    rows = np.zeros((2, 3, 50), "u4")
    with pytest.raises(ValueError, match="part of a row"):
        encoded(rows, plane, (1, 2, 20))


def test_unaligned_and_short_outputs() -> None:
    work = np.arange(5000, dtype="u8").reshape(1, 50, 100)
    chunk = encoded(work, PlanePlan(Map.OFFSET, 8, 3, Coder.BINS, k=1, scale=1), (1, 20, 100))
    memory = bytearray(work.nbytes + 3)
    decode_into(chunk, memoryview(memory)[3:])
    assert memory[3:] == work.tobytes()
    for room in (0, work.nbytes - 1, work.nbytes + 1):
        with pytest.raises(CodecError, match="decodes to 40000"):
            decode_into(chunk, bytearray(room))
    head = ArrayChunkHead.unpack(chunk)
    low, high = head.extent(1)
    with pytest.raises(CodecError, match="block 1 is damaged"):
        head.decode_block_into(chunk[low : high - 1], low, 1, bytearray(20 * 100 * 8))
    with pytest.raises(CodecError, match="block 1 is damaged"):
        head.decode_block_into(chunk[low:high], low, 1, bytearray(20 * 100 * 8 - 1))


def test_every_truncation_is_refused() -> None:
    for seed in range(6):
        _, chunk = random_chunk(Random(seed), largest=60)
        for end in range(len(chunk)):
            with pytest.raises(ERRORS):
                decoded(chunk[:end])
            # With the length as its stored size, it passes the first check.
            cut = bytearray(chunk[:end])
            cut[12:16] = end.to_bytes(4, "little")
            with pytest.raises(ERRORS):
                decoded(bytes(cut))


def test_prefixes_of_the_head_are_truncated() -> None:
    _, chunk = random_chunk(Random(3))
    head_nbytes = ArrayChunkHead.size(chunk)
    for end in range(head_nbytes):
        with pytest.raises(TruncatedError):
            ArrayChunkHead.unpack(chunk[:end])
    assert ArrayChunkHead.unpack(chunk[:head_nbytes]) == ArrayChunkHead.unpack(chunk + b"more")


@pytest.fixture
def chunk() -> bytes:
    work = np.arange(4096, dtype="u4").reshape(4, 16, 64) // 7
    values = np.array([3, 9], "u4").tobytes()
    plane = PlanePlan(Map.OFFSET, 4, 3, Coder.BINS, k=2, scale=1, values=values)
    return encoded(work, plane, (2, 8, 64))


@pytest.mark.parametrize(
    ("at", "new", "error", "message"),
    [
        (0, b"\x02", FormatError, "version is 0x2, expected 0x82"),
        (1, b"\x02", UnsupportedError, "revision 2 with flags 0x0"),
        (2, b"\x01", UnsupportedError, "revision 1 with flags 0x1"),
        (3, b"\x03", FormatError, "items of 3 bytes"),
        (4, bytes(4), FormatError, "decoded size 0 is not 1 to"),
        (4, b"\xff\xff\xff\xff", FormatError, "decoded size 4294967295"),
        (4, b"\x00\x00\x00\x7f", FormatError, "cannot decode to"),
        (8, bytes(4), FormatError, "block size 0"),
        (8, b"\x00\x08\x00\x00", FormatError, "are not 2048"),
        (12, b"\x10\x00\x00\x00", FormatError, "expected 48 to 16"),
        (16, b"\x2f\x00\x00\x00", FormatError, "head of 47 bytes"),
        (16, b"\x80\x00\x00\x00", FormatError, "do not end at 128"),
        (20, b"\x00\x00", FormatError, "declared as 0"),
        (22, b"\x00", FormatError, "0 planes"),
        (22, b"\x11", FormatError, "17 planes"),
        (22, b"\x02", FormatError, "are not 16384"),
        (23, b"\x02", FormatError, "byte order 2 of items of 4 bytes"),
        (24, bytes(4), FormatError, "in a chunk of"),
        (36, bytes(4), FormatError, "in a chunk of"),
        (44, b"\x20", FormatError, "cut several rows"),
        (48, b"\x04", UnsupportedError, "map 4"),
        (49, b"\x03", FormatError, "integers of 3 bytes"),
        (49, b"\x08", FormatError, "integers of 8 bytes for items of 4"),
        (50, b"\x04", UnsupportedError, "predictor 4"),
        (50, b"\x20", UnsupportedError, "predictor 32"),
        (50, b"\x11", FormatError, "no plane before"),
        (51, b"\x03", UnsupportedError, "coder 3"),
        (51, b"\x00", FormatError, "k 2 and 2 residuals with coder 0"),
        (52, b"\x01", FormatError, "shift 1 of map 0"),
        (53, b"\x04", FormatError, "2 frequent residuals with k 4"),
        (53, b"\x20", FormatError, "2 frequent residuals with k 32"),
        (54, b"\xff\x00", FormatError, "255 frequent residuals"),
        (64, bytes(8), FormatError, "factor 0"),
        (72, b"\x09", FormatError, "do not ascend"),
    ],
)
def test_fields_are_checked(
    chunk: bytes, at: int, new: bytes, error: type[Exception], message: str
) -> None:
    data = bytearray(chunk)
    data[at : at + len(new)] = new
    with pytest.raises(error, match=message):
        ArrayChunkHead.unpack(bytes(data))
    with pytest.raises(RefusedError):
        decode(bytes(data))


def test_ends_are_checked(chunk: bytes) -> None:
    head = ArrayChunkHead.unpack(chunk)
    assert head.plan.nblocks == 4
    table = 48 + 24 + 8
    low, high = head.extent(1)
    for index, end in ((0, high + 1), (1, low - 1), (0, len(chunk) + 1)):
        data = bytearray(chunk)
        data[table + 4 * index : table + 4 * index + 4] = end.to_bytes(4, "little")
        damaged = ArrayChunkHead.unpack(bytes(data))
        if index or end > len(chunk):
            with pytest.raises(FormatError, match=f"block {index} is stored from"):
                damaged.extent(index)
        with pytest.raises(CodecError, match="a block is damaged"):
            decoded(bytes(data))
    data = bytearray(chunk)
    data[table + 12] ^= 1
    with pytest.raises(FormatError, match="last block does not end"):
        ArrayChunkHead.unpack(bytes(data))


def test_dictionaries_are_checked() -> None:
    work = (np.arange(8000, dtype="u4") % 5).reshape(1, 80, 100)
    entries = np.array([7, 1, 1 << 31, 0, 3], "u4")
    stored = encode(entries.tobytes(), CodecParams("zstd", 5, 1, 4))
    plane = PlanePlan(Map.RANK, 4, 0, 0, dictionary=entries.tobytes(), stored_dictionary=stored)
    chunk = encoded(work, plane, (1, 80, 100))
    assert decoded(chunk) == entries[work].tobytes() == decode(chunk)
    for fields, message in (
        ({"dictionary": b""}, "0 entries, expected 1 to 500"),
        ({"dictionary": bytes(4 * 501)}, "501 entries, expected 1 to 500"),
        ({"dictionary": entries[:4].tobytes()}, "decodes from 36 to 20 bytes"),
        ({"stored_dictionary": stored[:-1]}, "decodes from 36 to 20 bytes"),
        ({"stored_dictionary": b""}, "dictionary of plane 0: found 0 of 16 bytes"),
        (
            {
                "stored_dictionary": encode(entries.tobytes() * 20, CodecParams("lz4", 5, 1, 4)),
                "dictionary": entries.tobytes() * 20,
            },
            "dictionary of plane 0 is neither zstd nor",
        ),
    ):
        damaged = replace(plane, **fields)
        head = ArrayChunkHead.unpack(chunk)
        plan = replace(head.plan, planes=(damaged,))
        blocks = chunk[ArrayChunkHead.size(chunk) :]
        with pytest.raises(FormatError, match=message):
            ArrayChunkHead.unpack(plan.pack([len(blocks)], blocks))
    # Ranks without an entry are damage that only the block shows.
    out_of_range = encoded(work + np.uint32(1), plane, (1, 80, 100))
    with pytest.raises(CodecError, match="a block is damaged"):
        decoded(out_of_range)
    with pytest.raises(RefusedError):
        decode(out_of_range)


def test_quotients_divide_once_in_binary64() -> None:
    work = np.arange(30_000, dtype="u4").reshape(1, 100, 300)
    for itemsize, offset in ((4, 0), (8, 0), (4, -15_000), (8, 2**40), (8, -(2**62))):
        scale = scale_of(100.0)
        plane = PlanePlan(Map.QUOTIENT, 4, 3, Coder.BINS, k=2, offset=offset % 2**64, scale=scale)
        plan = Plan(itemsize, (1, 100, 300), (1, 50, 300), (plane,))
        found = plan.kernel().encode([work.tobytes()], [None], [None], 1 << 24)
        assert found is not None
        chunk = plan.pack(found[1], found[0])
        expected = ((work.astype("i8") + offset) / 100.0).astype(f"f{itemsize}")
        assert decoded(chunk) == expected.tobytes() == decode(chunk)
    for divisor in (0.0, float("inf"), float("nan")):
        bad = replace(plane, scale=scale_of(divisor))
        with pytest.raises(ValueError, match="no division"):
            replace(plan, planes=(bad,)).kernel()
        with pytest.raises(FormatError, match="division by"):
            ArrayChunkHead.unpack(replace(plan, planes=(bad,)).pack(found[1], found[0]))


@pytest.mark.parametrize("offset", [-(2**24), -32_768, 0, 2**24 - 65_535, 2**24])
@pytest.mark.parametrize("divisor", [100.0, 3.0, -7.0, 0.1, 1e-30, 3e38, 2.0**-40, 16_777_215.0])
def test_quotients_of_small_integers(offset: int, divisor: float) -> None:
    """In binary32 where this gives the same, also for denormal numbers and infinity."""
    work = np.arange(65_536, dtype="u2").reshape(1, 256, 256)
    scale = scale_of(divisor)
    plane = PlanePlan(Map.QUOTIENT, 2, 3, Coder.QUOTIENTS, offset=offset % 2**64, scale=scale)
    plan = Plan(4, (1, 256, 256), (1, 64, 256), (plane,))
    found = plan.kernel().encode([work.tobytes()], [None], [None], 1 << 24)
    assert found is not None
    with np.errstate(all="ignore"):
        expected = ((work.astype("i8") + offset) / divisor).astype("f4")
    assert decoded(plan.pack(found[1], found[0])) == expected.tobytes()


def test_a_short_chunk_cannot_declare_much() -> None:
    """A constant block takes 12 bytes; what is allocated is bounded by the stored size."""
    work = np.zeros((1, 256, 65536), "u1")
    plane = PlanePlan(Map.OFFSET, 1, 1, Coder.BINS, k=1, scale=1)
    chunk = encoded(work, plane, (1, 1, 65536))
    assert work.nbytes <= 8192 * len(chunk) + 65536
    assert decoded(chunk) == work.tobytes()
    with pytest.raises(FormatError, match="cannot decode to"):
        ArrayChunkHead.unpack(encoded(work, plane, (1, 4, 65536)))
    assert ArrayChunkHead.size(chunk) == PLAN_START + 24 + 4 * 256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, (1, 1, 9), (1, 1, 9), []), "itemsize must be"),
        ((4, (1, 1, 9), (1, 1, 9), []), "1 to 16 planes"),
        ((4, (1, 1, 9), (1, 1, 10), [1]), "do not divide"),
        ((4, (1, 1, 9), (1, 1, 0), [1]), "do not divide"),
        ((4, (1, 1, 1 << 20), (1, 1, 1 << 20), [1]), "at most 262144 bytes"),
        ((8, (1, 1 << 15, 1 << 14), (1, 1, 1 << 14), [1]), "at most 2 GiB"),
    ],
)
def test_the_kernel_checks_its_plan(arguments: tuple[Any, ...], message: str) -> None:
    """It does not rely on its caller: a wrong plan would make its loops write anywhere."""
    from bloscpack._ext.arraychunk import Kernel

    itemsize, shape, block, planes = arguments
    plane = (0, 1, 0, 0, 0, 0, 0, 1, 1.0, b"", b"")
    with pytest.raises(ValueError, match=message):
        Kernel(itemsize, shape, block, [plane for _ in planes])


@pytest.mark.parametrize(
    "changes",
    [
        {"map": 4}, {"width": 3}, {"width": 8}, {"predictor": 4}, {"predictor": 17}, {"coder": 3},
        {"shift": 32}, {"map": 3}, {"coder": 2, "k": 4}, {"coder": 2, "k": 40},
        {"coder": 2, "k": -1}, {"coder": 2, "k": 2, "values": bytes(8)},
        {"coder": 2, "k": 3, "values": bytes(4 * 17)},
    ],
)  # fmt: skip
def test_the_kernel_checks_its_planes(changes: dict[str, Any]) -> None:
    plane = replace(PlanePlan(Map.OFFSET, 4, scale=1), **changes)
    with pytest.raises(ValueError, match="plane 0"):
        Plan(4, (1, 1, 9), (1, 1, 9), (plane,)).kernel()


def test_the_kernel_checks_what_it_encodes() -> None:
    kernel = Plan(4, (1, 2, 9), (1, 1, 9), (PlanePlan(Map.OFFSET, 4, scale=1),)).kernel()
    good = bytes(72)
    with pytest.raises(ValueError, match="71 bytes of integers"):
        kernel.encode([good[1:]], [None], [None], 1000)
    with pytest.raises(ValueError, match="mask of 17 bytes"):
        kernel.encode([good], [bytes(17)], [good], 1000)
    with pytest.raises(ValueError, match="71 bytes of items"):
        kernel.encode([good], [bytes(18)], [good[1:]], 1000)
    with pytest.raises(IndexError):
        kernel.encode([good], [None], [None], 1000, [2])
    with pytest.raises(ValueError, match="a chunk has no"):
        kernel.encode([good], [None], [None], 2**64 - 1)
    assert kernel.encode([good], [None], [None], 5) is None
    for head, table in ((bytes(52), 45), (bytes(52), 15), (bytes(52), 2**63), (b"", 16)):
        with pytest.raises(ValueError, match="no table of 2 ends"):
            kernel.encode_chunk([good], [None], [None], head, table, 1000)
    assert kernel.encode_chunk([good], [None], [None], bytes(52), 44, 5) is None


@pytest.mark.parametrize("wait", [0, 9])
def test_a_chunk_is_its_head_and_its_blocks(wait: int) -> None:
    rng = np.random.default_rng(4)
    work = np.cumsum(rng.integers(-9, 10, (1, 90, 300)), -1).astype("u4")
    values = np.array([2, 5, 1 << 30], "u4").tobytes()
    planes = (
        PlanePlan(Map.OFFSET, 4, 3, Coder.BINS, k=2, scale=1, values=values),
        PlanePlan(Map.OFFSET, 4, 1, Coder.PLANES, scale=3),
    )
    plan = Plan(4, (1, 90, 300), (1, 20, 300), planes)
    mask = (rng.random(work.shape) < 0.1).astype("u1").tobytes()
    buffers = [work.tobytes()] * 2, [None, mask], [None, work.tobytes()]
    stored, sizes = plan.kernel().encode(*buffers, 1 << 20, matches_wait=wait)
    head = plan.pack([0] * plan.nblocks, b"")
    assert len(head) == plan.table_start() + 4 * plan.nblocks
    for limit, is_enough in ((len(stored), True), (len(stored) - 1, False)):
        chunk = plan.kernel().encode_chunk(*buffers, head, plan.table_start(), limit, wait)
        assert chunk == (plan.pack(sizes, stored) if is_enough else None)
    plain = plan.kernel().encode(buffers[0], [None] * 2, [None] * 2, 1 << 20, matches_wait=wait)
    size = len(plain[0])
    for limit in (size - 1, size, size + 1):
        assert plan.kernel().encoded_size(buffers[0], limit, wait) == min(size, limit)


def test_chunks_with_equal_plans_differ_in_dictionaries_and_ends() -> None:
    work = (np.arange(8000, dtype="u4") % 5).reshape(1, 80, 100)
    entries = np.array([7, 1, 1 << 31, 0, 3], "u4")
    chunks = []
    for number in range(3):
        data = (entries + np.uint32(number)).tobytes()
        stored = encode(data, CodecParams("zstd", 5, 1, 4))
        plane = PlanePlan(Map.RANK, 4, 0, 0, dictionary=data, stored_dictionary=stored)
        chunks.append((encoded(work, plane, (1, 40, 100)), (entries + np.uint32(number))[work]))
    plane = PlanePlan(Map.OFFSET, 4, Predictor.LEFT, Coder.PLANES, scale=1)
    for factor in (1, 7, 1000):
        chunks.append((encoded(work * np.uint32(factor), plane, (1, 40, 100)), work * factor))
    for chunk, items in [*chunks, *reversed(chunks)]:
        assert decoded(chunk) == items.astype("u4").tobytes() == decode(chunk)
