"""The chain of segments: its length, how it is found, and how damaged segments are replaced."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.exceptions import FormatError
from bloscpack.frames.store import index as index_module
from bloscpack.frames.store import writer as writer_module
from bloscpack.frames.store.format import TAIL_SIZE
from bloscpack.frames.store.index import Finder

from ..conftest import Warned
from ..counting import CountingBytes
from .stores import changed, check, fill, made, name, tails


def chain(store: bp.frames.FrameStore) -> list[int]:
    return [segment.tail.nclips for segment in store._index.segments]


class TestChain:
    def test_flushes_merge_segments_of_similar_size(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        found = []
        with bp.frames.create(path) as store:
            for number in range(12):
                fill(store, number)
                store.flush()
                found.append(chain(store))
        assert found == [
            [1], [2], [3], [3, 1], [5], [5, 1], [5, 2], [8], [8, 1], [8, 2], [8, 3], [8, 3, 1],
        ]  # fmt: skip
        with bp.frames.open(path) as store:
            assert chain(store) == found[-1]
            check(store, *range(12))

    def test_close_flushes(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        made(path, 7)
        with bp.frames.open(path) as store:
            assert chain(store) == [7]

    def test_many_clips_without_a_flush(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(writer_module, "_MAX_SINGLE", 10)
        store = bp.frames.create(tmp_path / "a.blp")
        lengths = []
        for number in range(157):
            fill(store, number)
            lengths.append(len(chain(store)))
            with bp.frames.open(tmp_path / "a.blp") as again:
                assert chain(again) == chain(store)
            # No dict of all ids, only of those in small segments.
            small = [each for each in chain(store) if each < 64]
            assert len(store._index.few) == sum(small)
        assert max(lengths) <= 10 + 6
        with bp.frames.open(tmp_path / "a.blp") as again:
            check(again, *range(157))
        store.close()

    def test_a_segment_has_limits(self, tmp_path: Path, monkeypatch: Any) -> None:
        for limit, value in (("MAX_CLIPS", 3), ("MAX_CHUNKS", 9), ("MAX_METAS_NBYTES", 70)):
            with monkeypatch.context() as patch:
                patch.setattr(writer_module, limit, value)
                path = tmp_path / limit
                made(path, *[1] * 11)
                with bp.frames.open(path) as store:
                    assert chain(store) == [3, 3, 3, 2]
                    check(store, *range(11))

    def test_index_bytes(self, tmp_path: Path) -> None:
        """Writing the index of n clips, flushed one by one, costs about log n times its size."""
        sizes = {}
        for count in (64, 256):
            data = made(tmp_path / str(count), *[1] * count)
            sizes[count] = sum(tail.nbytes for tail in tails(data)) / count
        assert sizes[256] < sizes[64] * 8 / 6 * 1.1

    def test_ids_are_found_in_large_and_small_segments(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        made(path, 200, 30, 2)
        with bp.frames.open(path) as store:
            assert chain(store) == [200, 30, 2]
            for number in range(232):
                assert store._index.find(name(number)) == number
            assert "clip 232" not in store
            assert "" not in store


class TestReads:
    def test_a_small_store_is_opened_by_one_read(self, tmp_path: Path) -> None:
        data = made(tmp_path / "a.blp", 5, 1)
        source = CountingBytes(data)
        store = opened(source)
        assert source.reads == [(0, len(data))]
        assert len(store) == 6

    def test_a_large_one_by_two(self, tmp_path: Path) -> None:
        data = made(tmp_path / "a.blp", 60)
        assert len(data) > index_module.TAIL_NBYTES
        source = CountingBytes(data)
        store = opened(source)
        window = index_module.TAIL_NBYTES
        assert source.reads == [(len(data) - window, window), (0, 4096)]
        source.reads.clear()
        # The sections of chunks and metadata are in the bytes already read.
        assert store["clip 3"].meta == {"number": 3}
        assert source.reads == []

    def test_frames_are_read_and_nothing_else(self, tmp_path: Path) -> None:
        source = CountingBytes(made(tmp_path / "a.blp", 60))
        store = opened(source)
        found = store["clip 3"]
        source.reads.clear()
        extents = found.chunk_extents()
        assert [nbytes for _, nbytes in extents] == [24 * 25 + 16] * 3
        found.read([2, 0])
        first, last = extents[0], extents[2]
        assert source.reads == [(first[0], last[0] + last[1] + 8 - first[0])]
        source.reads.clear()
        found.read(1)
        assert source.reads == [(extents[1][0], extents[1][1] + 8)]

    def test_a_strided_clip(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        frames = np.random.default_rng(1).integers(0, 256, (16, 64, 175, 3), dtype=np.uint8)
        with bp.frames.create(path) as store:
            store.append("a", frames)
        source = CountingBytes(path.read_bytes())
        found = opened(source)["a"]
        source.reads.clear()
        assert np.array_equal(found[::4], frames[::4])
        assert source.reads == [(found.chunk_extents()[k][0], 64 * 175 * 3 + 24)
                                for k in (0, 4, 8, 12)]  # fmt: skip


def opened(source: CountingBytes) -> bp.frames.FrameStore:
    return bp.frames.FrameStore._over(source, nthreads=1)


class TestRecovery:
    """Clips before a damaged end of the file stay readable."""

    @pytest.mark.parametrize("rest", [b"x", bytes(5000), b"BLPKFRMS" * 300])
    def test_followed_by_anything(self, tmp_path: Path, rest: bytes, warned: Warned) -> None:
        data = made(tmp_path / "a.blp", 3, 2)
        check(bp.frames.open(data + rest), *range(5))
        assert f"the last {len(rest)} bytes" in warned.text

    def test_followed_by_a_copy_of_the_index(self, tmp_path: Path) -> None:
        data = made(tmp_path / "a.blp", 3, 2)
        last = tails(data)[-1]
        check(bp.frames.open(data + data[last.offset :]), *range(5))

    def test_every_damaged_segment(self, tmp_path: Path) -> None:
        """A merged segment is replaced by its parts, a single one by the merged segment."""
        data = made(tmp_path / "a.blp", 3, 1, 4)
        for tail in tails(data):
            sizes = np.cumsum([0, *(each.stored for each in tail.sections)]).tolist()
            for place in (*sizes[:-1], tail.nbytes - TAIL_SIZE, tail.nbytes - 1):
                store = bp.frames.open(changed(data, tail.offset + place))
                check(store, *range(8))

    def test_a_damaged_segment_in_the_middle(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        with bp.frames.create(path) as store:
            fill(store, *range(5))
            store.flush()
            fill(store, 5, 6)
            data = path.read_bytes()
            assert chain(store) == [5, 1, 1]
        merged = tails(data)[-3]
        assert (merged.nclips, merged.first_clip) == (5, 0)
        for place in (merged.offset, merged.end - 1):
            store = bp.frames.open(changed(data, place))
            check(store, *range(7))
            assert chain(store) == [1] * 7

    def test_a_damaged_section_is_noticed_when_it_is_used(
        self, tmp_path: Path, warned: Warned
    ) -> None:
        data = made(tmp_path / "a.blp", 4)
        for number, what in ((1, "chunks"), (2, "metadata")):
            store = bp.frames.open(changed(data, tails(data)[-1].section_offset(number)))
            assert chain(store) == [4]
            warned.clear()
            check(store, *range(4))
            assert chain(store) == [1] * 4
            assert f"of {what} is" in warned.text

    def test_damage_without_a_replacement(self, tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "a.blp") as store:
            fill(store, 0)
        data = (tmp_path / "a.blp").read_bytes()
        last = tails(data)[-1]
        store = bp.frames.open(changed(data, last.section_offset(1)))
        with pytest.raises(FormatError, match="of chunks"):
            store["clip 0"]
        store = bp.frames.open(changed(data, last.section_offset(2)))
        with pytest.raises(FormatError, match=r"clip 'clip 0': metadata: .*of metadata"):
            _ = store["clip 0"].meta
        assert np.array_equal(store["clip 0"].read(), store["clip 0"].read())
        assert list(bp.frames.open(changed(data, last.offset))) == []

    def test_unsynced_segments_that_are_lost(self, tmp_path: Path) -> None:
        """After a power failure, any blocks since the last flush may be zeros."""
        path = tmp_path / "a.blp"
        with bp.frames.create(path) as store:
            fill(store, *range(3))
            store.flush()
            durable = path.stat().st_size
            fill(store, *range(3, 9))
            data = path.read_bytes()
        rng = np.random.default_rng(0)
        for _ in range(100):
            blocks = bytearray(data)
            for start in range(durable, len(data), 512):
                if rng.integers(2):
                    stop = min(start + 512, len(data))
                    blocks[start:stop] = bytes(stop - start)
            store = bp.frames.open(bytes(blocks))
            assert len(store) >= 3
            assert list(store) == [name(number) for number in range(len(store))]
            for number in range(3):
                store[name(number)].read()

    def test_nothing_is_whole(self, tmp_path: Path) -> None:
        data = made(tmp_path / "a.blp", 2)
        for tail in tails(data):
            data = changed(data, tail.end - 1)
        with pytest.raises(FormatError, match="no index is whole"):
            bp.frames.open(data)

    def test_a_magic_across_blocks(self, tmp_path: Path, monkeypatch: Any) -> None:
        data = made(tmp_path / "a.blp", 2) + bytes(1000)
        monkeypatch.setattr(index_module, "TAIL_NBYTES", 100)
        for size in range(170, 240):
            monkeypatch.setattr(index_module, "_BLOCK_NBYTES", size)
            store = bp.frames.open(data)
            check(store, 0, 1)
            assert chain(store) == [2]

    def test_an_append_that_never_ended_is_large(self, tmp_path: Path) -> None:
        data = made(tmp_path / "a.blp", 2)
        source = CountingBytes(data + bytes(1 << 20))
        assert Finder(source, source.size()).find().nclips == 2
        # The window, blocks back to the tail with one extra byte per border, and the index.
        assert sum(nbytes for _, nbytes in source.reads) < 1.2 * source.size()


class TestHostile:
    def test_a_search_ends(self, tmp_path: Path, monkeypatch: Any) -> None:
        """Segments that all claim the whole file are not all read."""
        data = made(tmp_path / "a.blp", 1)
        first = tails(data)[0]
        front = data[: first.offset] + bytes(200000)
        packed = bytearray(front)
        for _ in range(400):
            stored = len(packed) - first.offset
            clips = first.sections[0]._replace(stored=stored, decoded=stored, digest=bytes(8))
            tail = first._replace(nbytes=stored + TAIL_SIZE, sections=(clips, *first.sections[1:]))
            packed += tail.pack()
        source = CountingBytes(bytes(packed))
        with pytest.raises(FormatError):
            Finder(source, source.size()).find()
        read = sum(nbytes for _, nbytes in source.reads)
        assert read < (index_module._MAX_SEARCH + 2) * len(packed)

    def test_a_chain_in_a_circle(self, tmp_path: Path) -> None:
        data = made(tmp_path / "a.blp", 1, 1)
        last = tails(data)[-1]
        around = last._replace(first_clip=2, previous=last.end)
        store = bp.frames.open(data[: last.end - TAIL_SIZE] + around.pack())
        check(store, 0, 1)
        assert chain(store) == [1, 1]

    def test_chunks_behind_the_index(self, tmp_path: Path) -> None:
        data = made(tmp_path / "a.blp", 1)
        last = tails(data)[-1]
        clips = bytearray(data[last.offset : last.offset + last.sections[0].stored])
        struct.pack_into("<Q", clips, 0, last.offset - 100)
        section = last.sections[0]._replace(digest=xxh3_64_digest(bytes(clips)))
        tail = last._replace(sections=(section, *last.sections[1:]))
        rest = data[last.offset + len(clips) : last.end - TAIL_SIZE]
        store = bp.frames.open(data[: last.offset] + bytes(clips) + rest + tail.pack())
        with pytest.raises(FormatError, match="end after the start of their index"):
            store["clip 0"]
