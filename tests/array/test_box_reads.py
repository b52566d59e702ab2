"""Reads of a box of a large chunk decode only the blocks that hold it."""

import io
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array import gather
from bloscpack.array.chunkcodec import chunkencoder
from bloscpack.container import blocks, reader
from bloscpack.format.arraychunk import ArrayChunkHead, Plan, PlanePlan
from bloscpack.format.codec import decode_run_into
from bloscpack.types import BlockRun, BytesLike, StridedItems

from ..arrayfiles import NotingFile, saved
from .test_auto_codec import smooth

AnyArray = np.ndarray[Any, Any]


def head_of(plan: Plan) -> ArrayChunkHead:
    """Return a head with blocks of one stored byte."""
    work = np.zeros(plan.shape, f"<u{plan.itemsize}")
    found = plan.kernel().encode([work.tobytes()] * len(plan.planes), [None] * len(plan.planes),
                                 [None] * len(plan.planes), 1 << 24)  # fmt: skip
    assert found is not None
    return ArrayChunkHead.unpack(plan.pack(found[1], found[0]))


@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_strided_items_are_not_missed(seed: int) -> None:
    """Also if the chunk has other rows and slices than the items: then no box is found."""
    rng, nfound = Random(f"strided {seed}"), 0
    for _ in range(150):
        shape = tuple(rng.choice((1, 2, 3, 5, 8)) for _ in range(3))
        w = shape[2]
        block = (rng.randint(1, shape[0]), rng.randint(1, shape[1]), w)
        if rng.random() < 0.3:
            block = (1, 1, rng.randint(1, w))
        nplanes, itemsize = rng.choice((1, 2, 3)), rng.choice((1, 2))
        plan = Plan(itemsize, shape, block, (PlanePlan(0, itemsize, 0, 0, scale=1),) * nplanes)
        head = head_of(plan)
        nitems = shape[0] * shape[1] * shape[2] * nplanes
        lengths = (*shape, nplanes) if rng.random() < 0.7 else (nitems // w, w)
        scales = np.cumprod((1, *lengths[:0:-1]))[::-1].tolist()
        index = tuple(slice(rng.randrange(n), None, rng.choice((1, 1, 2, -1, -2))) for n in lengths)
        places = np.arange(np.prod(lengths)).reshape(lengths)[index]
        items = StridedItems(
            int(places.flat[0]) * itemsize,
            places.shape,
            tuple(
                (1 if one.step is None else one.step) * scale * itemsize
                for one, scale in zip(index, scales, strict=True)
            ),
            itemsize,
        )
        runs = head.runs_of_items(items)
        if runs is None:
            assert len(lengths) == 2
            continue
        nfound += 1
        found = {index for run in runs for index in range(run.first, run.stop)}
        assert all(one.stop < two.first for one, two in pairwise(runs))
        needed = set()
        for index_ in range(plan.nblocks):
            start, sides = plan.block_place(index_)
            box = tuple(slice(at, at + side) for at, side in zip(start, sides, strict=True))
            held = np.arange(nitems).reshape(*shape, nplanes)[box]
            if np.isin(held, places).any():
                needed.add(index_)
        assert needed <= found
        if all(abs(one.step or 1) == 1 for one in index):
            assert found == needed
    assert nfound > 60


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("access", [None, "series"])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((20, 18, 30), (8, 9, 11)),
        ((20, 18, 30), (20, 9, 11)),
        ((4, 5, 12, 14), (3, 5, 7, 14)),
        ((12, 16, 20, 3), (5, 16, 9, 3)),
    ],
)
def test_any_box_has_the_items_of_numpy(
    monkeypatch: pytest.MonkeyPatch, shape: Any, chunks: Any, access: Any, order: Any
) -> None:
    monkeypatch.setattr(gather, "_SHORT_SPAN_NBYTES", 0)
    monkeypatch.setattr(chunkencoder, "TILE_BLOCK_NBYTES", 600)
    monkeypatch.setattr(chunkencoder, "BLOCK_NBYTES", dict.fromkeys((1, 2, 4, 8), 600))
    rng = Random(f"{shape} {chunks} {order}")
    for dtype in ("<i2", ">f4", "<c8"):
        array = smooth(shape, dtype, order)
        file = io.BytesIO()
        bp.save(file, array, codec="auto", chunks=chunks, access=access)
        for verify in (True, False, "always"):
            with bp.open(file.getvalue(), verify=verify) as a:
                for _ in range(40):
                    index = tuple(
                        rng.choice(
                            (
                                slice(None),
                                slice(
                                    rng.randrange(n), rng.randrange(n) + 1, rng.choice((1, 2, 5))
                                ),
                                slice(None, None, -rng.randint(1, 3)),
                                rng.randrange(n),
                            )
                        )
                        for n in shape
                    )
                    assert np.array_equal(a[index], array[index]), index
                picked = sorted(rng.sample(range(shape[1]), 3))
                assert np.array_equal(a[:, picked], array[:, picked])


class TestSeries:
    """All slices at a point, for which ``access="series"`` cuts blocks."""

    CUBE = smooth((64, 96, 100), "<i2")
    CHUNKS = (64, 96, 50)

    def file(self, **options: Any) -> bytes:
        return saved(self.CUBE, codec="auto", chunks=self.CHUNKS, **options)

    def nread(self, data: bytes) -> int:
        """Return the bytes read for a series once the checksum of its chunk was compared."""
        stream = NotingFile(data)
        with bp.open(stream, nthreads=1) as a:
            expected = self.CUBE[:, 40, 7]
            assert np.array_equal(a[:, 41, 8], self.CUBE[:, 41, 8])
            stream.reads.clear()
            assert np.array_equal(a[:, 40, 7], expected)
            return sum(stop - start for start, stop in stream.reads)

    def test_it_reads_one_block(self) -> None:
        data = self.file(access="series")
        with bp.open(data) as a:
            chunk = bytes(a.container.fetch(0).data)
        head = ArrayChunkHead.unpack(chunk)
        assert head.plan.block[0] == 64
        assert head.plan.nblocks > 4
        sizes = [high - low for low, high in map(head.extent, range(head.plan.nblocks))]
        assert self.nread(data) in sizes
        assert 4 * self.nread(data) < self.nread(self.file())

    def test_rows_appended_later_have_such_blocks_too(self, tmp_path: Path) -> None:
        whole, grown = tmp_path / "whole", tmp_path / "grown"
        twice = np.concatenate((self.CUBE, self.CUBE))
        options: Any = {"codec": "auto", "chunks": self.CHUNKS, "access": "series"}
        bp.save(whole, twice, **options)
        with bp.Writer(
            grown, dtype=twice.dtype, shape=(None, *twice.shape[1:]), **options
        ) as writer:
            writer.append(self.CUBE[:10])
        with bp.open(grown, mode="a") as a:
            a.append(self.CUBE[10:])
            a.append(self.CUBE)
        with bp.open(whole) as one, bp.open(grown) as two:
            assert np.array_equal(two[:], twice)
            one_container, two_container = one.container, two.container
            assert one_container.nchunks == two_container.nchunks == 4
            for index in range(4):
                stored = one_container.fetch(index).data, two_container.fetch(index).data
                assert bytes(stored[0]) == bytes(stored[1])

    def test_the_hint_is_only_where_it_matters(self) -> None:
        for options, expected in (
            ({"access": "series"}, "series"),
            ({"access": "tiles"}, None),
            ({}, None),
        ):
            with bp.open(self.file(**options)) as a:
                assert a.container.metadata.get("access") == expected
        file = io.BytesIO()
        bp.save(file, self.CUBE, chunks=self.CHUNKS, access="series")  # Blosc chunks
        with bp.open(file.getvalue()) as a:
            assert "access" not in a.container.metadata


def test_damage_in_a_block_that_is_needed_is_found(tmp_path: Path) -> None:
    cube = smooth((16, 120, 100), "<i2")
    file = io.BytesIO()
    bp.save(file, cube, codec="auto", chunks=(16, 120, 50), checksum=None)
    with bp.open(file.getvalue()) as a:
        stored = a.container.fetch(0)
        chunk, offset = bytes(stored.data), stored.offset
    head = ArrayChunkHead.unpack(chunk)
    damaged = bytearray(file.getvalue())
    low, high = head.extent(0)
    damaged[offset + low : offset + high] = bytes(high - low)
    with bp.open(bytes(damaged), verify=False) as a:
        for place in product((0, 1), (0, 3)):
            with pytest.raises(bp.exceptions.BloscpackError):
                a[:, place[0], place[1]]


@pytest.mark.parametrize("codec", ["zstd", "lz4", "blosclz"])
@pytest.mark.parametrize("checksum", ["crc32", None])
def test_columns_of_blosc_chunks_have_the_items_of_numpy(codec: Any, checksum: Any) -> None:
    rng = Random(f"{codec} {checksum}")
    array = smooth((40, 3, 20_000), "<i2")
    file = io.BytesIO()
    bp.save(file, array, codec=codec, checksum=checksum)
    for verify in (True, False, "always"):
        with bp.open(file.getvalue(), verify=verify) as a:
            for _ in range(20):
                index: Any = tuple(
                    rng.choice((slice(None, None, rng.choice((1, 2, -1, -3))), rng.randrange(n)))
                    for n in (40, 3)
                )
                index += (rng.choice((rng.randrange(20_000), slice(5, 300, 7), [2, 19_000])),)
                assert np.array_equal(a[index], array[index]), index


def test_a_column_decodes_only_the_blocks_that_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(0).integers(0, 9, (64, 64_000), "u2")
    file, decoded = io.BytesIO(), 0
    bp.save(file, array)

    def counting(head: bytes, stored: BytesLike, run: BlockRun, out: BytesLike) -> None:
        nonlocal decoded
        decoded += run.stop - run.first
        decode_run_into(head, stored, run, out)

    for module in (blocks, reader):
        monkeypatch.setattr(module, "decode_run_into", counting)
    with bp.open(file.getvalue(), nthreads=1) as a:
        assert a.container.fetch(0).header.blocksize * 3 < array.shape[1] * 2
        for column in (0, 40_000):  # the first compares checksums of whole chunks
            assert np.array_equal(a[:, column], array[:, column])
    assert decoded == 2 * 64


def test_damage_in_a_block_of_a_column_is_found() -> None:
    array = np.random.default_rng(0).integers(0, 9, (64, 64_000), "u2")
    file = io.BytesIO()
    bp.save(file, array, checksum=None)
    with bp.open(file.getvalue()) as a:
        offset, data, header = a.container.fetch(0)
    nblocks = -(-header.nbytes // header.blocksize)
    ends = np.frombuffer(data, "<u4", nblocks, 16)
    damaged = bytearray(file.getvalue())
    damaged[offset + ends[4] + 4 : offset + ends[5]] = bytes(ends[5] - ends[4] - 4)
    column = 4 * header.blocksize // 2 % 64_000
    with bp.open(bytes(damaged), verify=False) as a, pytest.raises(bp.exceptions.CodecError):
        a[:, column]


@pytest.mark.parametrize("verify", [True, False, "always"])
def test_blocks_whose_ends_do_not_ascend_are_found_as_damage(tmp_path: Path, verify: Any) -> None:
    """Only the first and the last block of a run are looked at before it is read."""
    noise = np.random.default_rng(0).integers(-3, 3, (8, 256, 256), "i2")
    file, path = io.BytesIO(), tmp_path / "a.blp"
    bp.save(file, np.cumsum(noise, axis=2, dtype="i2"), codec="auto", chunks=8, checksum=None)
    with bp.open(file.getvalue()) as a:
        stored = a.container.fetch(0)
    head = ArrayChunkHead.unpack(bytes(stored.data))
    size, low = head.header.cbytes, head.extent(0)[0]
    assert head.plan.block == (1, 256, 256)
    damaged = bytearray(file.getvalue())
    table = stored.offset + head.plan.table_start()
    # Block 1 begins near the end of the chunk, and block 3 ends near its beginning.
    ends = (size - 5, size - 1, low + 1, low + 2)
    damaged[table : table + 16] = b"".join(end.to_bytes(4, "little") for end in ends)
    path.write_bytes(damaged)
    with bp.open(path, verify=verify) as a, pytest.raises(bp.exceptions.BloscpackError):
        a[1:4, 3:5, 3:5]
