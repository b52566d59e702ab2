"""Parts of a merged segment and their directory: what is read when, damage, and false entries."""

import pickle
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.exceptions import FormatError
from bloscpack.frames.store import directory, index, writer
from bloscpack.frames.store.directory import Directory
from bloscpack.frames.store.format import (
    FLAG_DIRECTORY,
    FLAG_PART,
    TAIL_SIZE,
    FrameFormat,
    Tail,
)
from bloscpack.frames.store.recoverstore import compact_store
from bloscpack.storage.update import UpdateFile

from ..conftest import Warned
from ..counting import CountingBytes
from ..reference import frame_reader
from .stores import changed, check, clip, fill, made, name, tails

FIELDS, PART_SIZE, PAGE_SIZE, ENTRY = 72, 24, 16, 12


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut parts of 4 clips, and pages of 8 hashes."""
    monkeypatch.setattr(directory, "PART_CLIPS", 4)
    monkeypatch.setattr(directory, "PAGE_CLIPS", 8)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    """Return stores of many clips of one frame, by their number; "clip 7" has the value 7."""
    found = {}
    for count in (1500, 6000):
        path = tmp_path_factory.mktemp("large") / "a.blp"
        with bp.frames.create(path, nthreads=1) as store:
            for number in range(count):
                store.append(name(number), np.full((1, 3), number, "u2"), {"number": number})
        compact_store(path)
        found[count] = path.read_bytes()
    return found


def opened(data: bytes) -> tuple[bp.frames.FrameStore, CountingBytes]:
    source = CountingBytes(data)
    return bp.frames.FrameStore._over(source, nthreads=1), source


def compacted(path: Path, *groups: int) -> bytes:
    """Return a store of which no clip has a segment to itself."""
    made(path, *groups)
    compact_store(path)
    return path.read_bytes()


def parts(data: bytes) -> list[Tail]:
    return [tail for tail in tails(data) if tail.flags & FLAG_PART]


def last_directory(data: bytes) -> Tail:
    tail = tails(data)[-1]
    assert tail.flags & FLAG_DIRECTORY
    return tail


class TestReads:
    """Exact numbers of bytes and reads, which do not grow with the number of clips."""

    def test_opening_reads_the_table_alone(
        self, large: dict[int, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index, "TAIL_NBYTES", TAIL_SIZE)
        for count, data in large.items():
            nparts = -(-count // 1024)
            assert (len(parts(data)), parts(data)[0].nclips) == (nparts, 1024)
            tail = last_directory(data)
            table = FIELDS + (PART_SIZE + PAGE_SIZE) * nparts
            store, source = opened(data)
            assert source.reads == [
                (len(data) - TAIL_SIZE, TAIL_SIZE),
                (0, 4096),
                (tail.section_offset(2), table),
            ]
            assert len(store) == count
            assert store.keys()
            assert source.reads[3:] == []

    def test_the_window_has_it(self, large: dict[int, bytes]) -> None:
        for data in large.values():
            _, source = opened(data)
            window = index.TAIL_NBYTES
            assert source.reads == [(len(data) - window, window), (0, 4096)]

    def test_a_clip_takes_a_page_and_a_part(
        self, large: dict[int, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index, "TAIL_NBYTES", TAIL_SIZE)
        data = large[6000]
        (group,) = opened(data)[0]._index.segments
        assert isinstance(group, Directory)
        places = {tail.first_clip: (tail.offset, tail.nbytes) for tail in parts(data)}
        for number in (0, 1023, 1024, 3000, 5999):
            store, source = opened(data)
            source.reads.clear()
            found = store[name(number)]
            (page, size), part = source.reads
            start = last_directory(data).offset
            assert ((page - start) % (1024 * ENTRY), size) in ((0, 1024 * ENTRY), (0, 880 * ENTRY))
            assert part == places[number // 1024 * 1024]
            assert found.meta == {"number": number}
            assert len(source.reads) == 2
            assert found[0].tolist() == [number] * 3
            assert len(source.reads) == 3
            store[name(number)]
            assert len(source.reads) == 3
            store[store.keys()[number - number % 1024]]  # in the same part; perhaps another page
            assert len(source.reads) <= 4

    def test_a_missing_id_takes_a_page(self, large: dict[int, bytes]) -> None:
        for data in large.values():
            store, source = opened(data)
            source.reads.clear()
            assert "missing" not in store
            assert len(source.reads) <= 1

    def test_an_ordinal_takes_a_part(
        self, large: dict[int, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index, "TAIL_NBYTES", TAIL_SIZE)
        for count, data in large.items():
            store, source = opened(data)
            source.reads.clear()
            assert store.keys()[-1] == name(count - 1)
            assert store.keys()[-2] == name(count - 2)
            assert len(source.reads) == 1

    def test_everything_is_read_once(self, large: dict[int, bytes]) -> None:
        data = large[6000]
        store, source = opened(data)
        source.reads.clear()
        assert list(store) == [name(number) for number in range(6000)]
        assert len(source.reads) == 6
        assert (store.nframes, store.summary().nclips) == (6000, 6000)
        assert len(source.reads) == 6
        assert len(store._id_hashes()) == 6000
        assert len(source.reads) <= 12
        assert store[name(99)].meta == {"number": 99}

    @pytest.mark.usefixtures("small")
    def test_requests(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With latency, a directory is one request, and so are a page and a part."""
        monkeypatch.setattr(index, "TAIL_NBYTES", 2048)
        data = made(tmp_path / "a.blp", 60, 24, 9)
        source = CountingBytes(data)
        source.has_latency = True
        store = bp.frames.FrameStore._over(source, nthreads=1)
        groups = store._index.segments
        assert [each.extent.nclips for each in groups] == [60, 24, 9]
        assert source.reads == [
            (len(data) - 2048, 2048),
            (0, 4096),
            *((each.tail.end - 2048, 2048) for each in groups[1::-1]),
        ]
        source.reads.clear()
        assert store[name(7)].meta == {"number": 7}
        # The page of the last directory is in the first window that was read.
        assert len(source.reads) == 2
        source.reads.clear()
        assert store[name(5)].meta == {"number": 5}
        assert len(source.reads) <= 2

    def test_the_reference_reader_agrees(self, large: dict[int, bytes]) -> None:
        found = frame_reader.Store(large[1500])
        assert [each.id for each in found.clips] == [name(number) for number in range(1500)]

    def test_parts_have_few_bytes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(directory, "PART_NBYTES", 300)
        data = compacted(tmp_path / "a.blp", 9)
        for part in parts(data):
            decoded = sum(each.decoded for each in part.sections) - 64
            assert decoded <= 300 or part.nclips == 1
        assert sum(part.nclips for part in parts(data)) == 9
        assert len(parts(data)) == 3
        check(bp.frames.open(data), *range(9))
        monkeypatch.setattr(directory, "PART_NBYTES", 1)
        data = compacted(tmp_path / "b.blp", 9)
        assert [part.nclips for part in parts(data)] == [1] * 9
        check(bp.frames.open(data), *range(9))

    def test_a_store_of_one_part_has_no_directory(self, tmp_path: Path) -> None:
        assert parts(made(tmp_path / "a.blp", 9)) == []


@pytest.mark.usefixtures("small")
class TestChain:
    def test_every_number_of_clips(self, tmp_path: Path) -> None:
        for count in range(1, 27, 3):
            data = made(tmp_path / str(count), count)
            with bp.frames.open(data) as store:
                check(store, *range(count))
                assert name(count) not in store
                for number in range(count):
                    assert store.keys()[number - count] == name(number)
            assert bp.verify(data).ok
            assert len(parts(data)) == (0 if count < 5 else -(-count // 4))

    def test_several_directories(self, tmp_path: Path) -> None:
        data = made(tmp_path / "a.blp", 40, 12, 5, 2)
        with bp.frames.open(data) as store:
            counts = [each.extent.nclips for each in store._index.segments]
            assert counts == [40, 12, 5, 2]
            check(store, *range(59))
            again = pickle.loads(pickle.dumps(store))
            check(again, *range(59))
        assert bp.verify(data).ok

    def test_changes_in_parts(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        made(path, 20)
        with bp.frames.open(path, "a", nthreads=1) as store:
            ids = [name(number) for number in range(20)]
            for number in (0, 3, 9):
                del store[name(number)]
                ids.remove(name(number))
            for number in (1, 12, 19):
                store.rename(name(number), f"new {number}")
                ids[ids.index(name(number))] = f"new {number}"
            store[name(5)].meta = {"label": 5}
            fill(store, *range(20, 45))
            ids += [name(number) for number in range(20, 45)]
        data = path.read_bytes()
        assert any(part.has_changes and not part.extra for part in parts(data))
        (group,) = bp.frames.open(data)._index.segments
        assert isinstance(group, Directory)
        with bp.frames.open(path) as store:
            assert list(store) == ids
            assert (len(store), "clip 3" in store, "clip 19" in store) == (len(ids), False, False)
            assert np.array_equal(store["new 12"].read(), clip(12))
            assert store[name(5)].meta == {"label": 5}
            assert sorted(map(store._ids_with, store._id_hashes().tolist())) == sorted(
                [each] for each in ids
            )
        assert [each.id for each in frame_reader_of(data).clips] == ids
        assert bp.verify(path).ok

    def test_threads(self, tmp_path: Path) -> None:
        store = bp.frames.open(made(tmp_path / "a.blp", 60))
        errors = []

        def look(first: int) -> None:
            try:
                for number in [*range(first, 60), *range(first)]:
                    assert store[name(number)].meta == {"number": number}
            except BaseException as err:
                errors.append(err)

        threads = [threading.Thread(target=look, args=(7 * k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []

    def test_the_writer_finds_clips_in_parts(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        made(path, 30)
        with bp.frames.open(path, "a") as store:
            with pytest.raises(ValueError, match="there is a clip"):
                fill(store, 17)
            fill(store, 30)
        check(bp.frames.open(path), *range(31))


def frame_reader_of(data: bytes) -> frame_reader.Store:
    """Read without pages: those of the reference reader have the size in the specification."""
    tail = tails(data)[-1]
    assert tail.flags & FLAG_DIRECTORY
    return frame_reader.Store(data[: tail.offset] + emptied(tail))


def emptied(tail: Tail) -> bytes:
    """Return a segment without clips in the place of a directory."""
    none = tail.sections[1]
    return tail._replace(nbytes=TAIL_SIZE, sections=(none,) * 3, flags=0).pack()


@pytest.mark.usefixtures("small")
class TestDamage:
    def test_other_segments_stand_for_a_part_and_a_page(
        self, tmp_path: Path, warned: Warned
    ) -> None:
        data = made(tmp_path / "a.blp", 22)
        start = last_directory(data).offset
        for place in (*(each.offset for each in parts(data)), start, start + 8 * ENTRY):
            warned.clear()
            broken = changed(data, place)
            check(bp.frames.open(broken), *range(22))
            assert "the segments before it are used" in warned.text
            (damage,) = bp.verify(broken).damage
            assert damage.what == "index: damaged; clips may be missing that recover finds"
            assert bp.recover(broken, tmp_path / f"{place}.blp").ok
            check(bp.frames.open(tmp_path / f"{place}.blp"), *range(22))

    def test_a_part_that_nothing_stands_for(self, tmp_path: Path) -> None:
        data = compacted(tmp_path / "a.blp", 22)
        for k, part in enumerate(parts(data)):
            broken = changed(data, part.offset + 3)
            lost = range(4 * k, min(4 * k + 4, 22))
            store = bp.frames.open(broken)
            for number in range(22):
                if number in lost:
                    what = f"clips {lost[0]} to {lost[-1]}: xxh3_64 of clips"
                    for _ in range(2):
                        with pytest.raises(FormatError, match=what) as info:
                            store[name(number)]
                        assert info.value.offset == part.offset
                else:
                    assert np.array_equal(store[name(number)].read(), clip(number))
            with pytest.raises(FormatError, match="clips"):
                list(store)
            assert "missing" not in store
            report = bp.verify(broken)
            first, *_ = sorted(report.damage, key=lambda each: each.what)
            assert first.what.startswith(f"index: clips {lost[0]} to {lost[-1]}: ")
            assert first.offset == part.offset
            assert not report.ok
            with pytest.raises(FormatError, match="the store is damaged"):
                compact_path(tmp_path, broken)
            recovered = tmp_path / f"{k}.blp"
            bp.recover(broken, recovered)
            check(bp.frames.open(recovered), *(n for n in range(22) if n not in lost))

    def test_a_page_that_nothing_stands_for(self, tmp_path: Path) -> None:
        data = compacted(tmp_path / "a.blp", 22)
        for page in range(3):
            broken = changed(data, last_directory(data).offset + 8 * page * ENTRY + 5)
            store = bp.frames.open(broken)
            assert list(store) == [name(number) for number in range(22)]
            found = [is_found(store, number) for number in range(22)]
            assert found.count(False) == (8, 8, 6)[page]
            damage = [each.what for each in bp.verify(broken).damage]
            assert f"index: page {page} of ids: its digest is not the one stored" in damage
            bp.recover(broken, tmp_path / f"{page}.blp")
            check(bp.frames.open(tmp_path / f"{page}.blp"), *range(22))

    def test_a_part_of_changes(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        made(path, 20)
        with bp.frames.open(path, "a", nthreads=1) as store:
            del store[name(3)]
            fill(store, *range(20, 40))
        data = path.read_bytes()
        broken = changed(data, parts(data)[-2].offset)
        check(bp.frames.open(broken), *(n for n in range(40) if n != 3))

    def test_the_table(self, tmp_path: Path, warned: Warned) -> None:
        data = made(tmp_path / "a.blp", 22)
        check(bp.frames.open(changed(data, last_directory(data).section_offset(2))), *range(22))
        data = compacted(tmp_path / "b.blp", 22)
        broken = changed(data, last_directory(data).section_offset(2))
        with pytest.raises(FormatError, match="no index is whole"):
            bp.frames.open(broken)
        bp.recover(broken, tmp_path / "c.blp")
        check(bp.frames.open(tmp_path / "c.blp"), *range(22))

    def test_a_merge_that_was_not_finished(self, tmp_path: Path) -> None:
        """The parts that are there describe a state that the segments before them have, too."""
        path = tmp_path / "a.blp"
        data = made(path, 22)
        ends = [part.end for part in parts(data)]
        for size in (*ends, *(end + 60 for end in ends), len(data) - 1):
            check(bp.frames.open(data[:size]), *range(22))
            assert bp.verify(data[:size]).ok
            recovered = tmp_path / f"{size}.blp"
            assert bp.recover(data[:size], recovered).ok
            check(bp.frames.open(recovered), *range(22))
            path.write_bytes(data[:size])
            with bp.frames.open(path, "a") as store:
                check(store, *range(22))
                fill(store, 22)
            check(bp.frames.open(path), *range(23))
            assert bp.verify(path).ok

    def test_the_segments_are_durable_before_parts_replace_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A power failure may lose a part, and not the directory, of a merge without a flush."""
        path = tmp_path / "a.blp"
        synced: list[int] = []
        sync = UpdateFile.sync

        def watched(file: UpdateFile) -> None:
            sync(file)
            synced.append(path.stat().st_size if path.exists() else 0)

        monkeypatch.setattr(UpdateFile, "sync", watched)
        monkeypatch.setattr(writer, "_MAX_SINGLE", 6)
        with bp.frames.create(path) as store:
            fill(store, *range(6))
            data = path.read_bytes()
            assert [part.nclips for part in parts(data)] == [4, 2]
            assert synced[-1] == parts(data)[0].offset
            for part in parts(data):
                check(bp.frames.open(changed(data, part.offset, bytes(part.nbytes))), *range(6))

    def test_unfinished_parts_that_know_more_are_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        data = made(path, 22)
        last = parts(data)[-1]
        for tail in tails(data):
            if tail.nclips == 1 and tail.first_clip > 10:
                data = changed(data, tail.end - TAIL_SIZE)  # its magic
        path.write_bytes(data[: last.end])
        with bp.frames.open(path, "a") as store:
            assert len(store) == 11
        assert path.read_bytes()[: last.end] == data[: last.end]

    def test_every_flipped_byte_is_found(self, tmp_path: Path) -> None:
        data = compacted(tmp_path / "a.blp", 9)
        for place in range(parts(data)[0].offset, len(data), 7):
            report = bp.verify(changed(data, place))
            assert report.damage, place


def compact_path(folder: Path, data: bytes) -> None:
    path = folder / "broken.blp"
    path.write_bytes(data)
    compact_store(path)


def is_found(store: bp.frames.FrameStore, number: int) -> bool:
    """Return whether a clip is found; NotFoundError must not hide a damaged page."""
    try:
        return bool(np.array_equal(store[name(number)].read(), clip(number)))
    except FormatError:
        return False


@pytest.mark.usefixtures("small")
class TestLies:
    """Every digest is right, and a number is not."""

    def lying(self, data: bytes, place: int, value: int, size: int = 8) -> bytes:
        """Change a number in the table or the pages, and repair the digests over it."""
        tail = last_directory(data)
        packed = bytearray(data)
        packed[place : place + size] = value.to_bytes(size, "little")
        table = tail.section_offset(2)
        nparts, nclips = struct.unpack_from("<QQ", data, table)
        npages = -(-nclips // 8)
        if place < table:
            number = (place - tail.offset) // (8 * ENTRY)
            start = tail.offset + 8 * ENTRY * number
            page = bytes(packed[start : min(start + 8 * ENTRY, table)])
            at = table + FIELDS + PART_SIZE * nparts + 8 * (npages + number)
            packed[at : at + 8] = xxh3_64_digest(page)
        return sealed(bytes(packed), tail)

    @pytest.fixture
    def data(self, tmp_path: Path) -> bytes:
        return compacted(tmp_path / "a.blp", 22)

    def test_the_table(self, data: bytes) -> None:
        tail = last_directory(data)
        table = tail.section_offset(2)
        start = parts(data)[0].offset
        size = tail.sections[2].stored
        # Fields, then columns: parts, clips, removed, dead, first ordinal, start, previous.
        bad = {0: (0, 1, 7, 2**63), 8: (0, 21, 25, 2**62), 32: (1, 2**61), 40: (2**62,)}
        bad |= {48: (1, 2**63), 56: (2**63, tail.offset + 1), 64: (1, 2**63)}
        bad |= {72: (0, 2**63, start), 72 + 40: (0, tail.offset - 1)}
        bad |= {120: (0, 8, 2**63), 120 + 40: (21, 23)}
        bad[216 + 8] = (0,)
        for at, values in bad.items():
            for value in values:
                with pytest.raises(FormatError, match="no index is whole"):
                    bp.frames.open(self.lying(data, table + at, value))
        for short in (0, 71, size - 1):
            with pytest.raises(FormatError, match="no index is whole"):
                bp.frames.open(sealed(data[: table + short] + data[-TAIL_SIZE:], tail))

    def test_parts_that_are_not_there(self, data: bytes) -> None:
        table = last_directory(data).section_offset(2)
        for at in (72 + 8, 120 + 8, 168 + 8):  # an end, a total, a digest
            (value,) = struct.unpack_from("<Q", data, table + at)
            store = bp.frames.open(self.lying(data, table + at, value ^ 1))
            with pytest.raises(FormatError, match="clips 4 to "):
                store.keys()[4]
            assert np.array_equal(store[name(21)].read(), clip(21))

    def test_pages(self, data: bytes) -> None:
        start = last_directory(data).offset
        for place, value, size in ((start + 8 * 8, 6, 4), (start + 8, 0, 8)):
            store = bp.frames.open(self.lying(data, place, value, size))
            with pytest.raises(FormatError, match="page 0 of ids"):
                list(map(store.__contains__, map(name, range(22))))
        (number,) = struct.unpack_from("<I", data, start + 8 * 8)
        lie = self.lying(data, start + 8 * 8, (number + 1) % 6, 4)
        store = bp.frames.open(lie)
        missing = [each for each in store if each not in store]
        assert len(missing) == 1
        damage = bp.verify(lie).damage
        assert [each.clip for each in damage] == missing
        assert "its id has another hash" in damage[0].what

    def test_a_directory_has_no_clips(self, data: bytes) -> None:
        tail = last_directory(data)
        for lie in ({"nclips": 1}, {"first_clip": 21}, {"nchunks": 1}, {"previous": 0}):
            packed = tail._replace(**lie).pack()
            with pytest.raises(FormatError, match="no index is whole"):
                bp.frames.open(data[:-TAIL_SIZE] + packed)

    def test_a_part_is_not_the_end(self, data: bytes) -> None:
        for part in parts(data):
            with pytest.raises(FormatError, match="no index is whole"):
                bp.frames.open(data[: part.end])

    def test_a_large_promise(self, data: bytes) -> None:
        """Nothing is allocated for what a table promises."""
        table = last_directory(data).section_offset(2)
        for at in (0, 8, 32):
            with pytest.raises(FormatError):
                bp.frames.open(self.lying(data, table + at, 2**60))


def sealed(data: bytes, tail: Tail) -> bytes:
    """Return the data with a tail that fits the sections of a directory."""
    pages = tail.sections[0]
    body = data[tail.offset : -TAIL_SIZE]
    parts = body[: pages.stored], b"", body[pages.stored :]
    sections = tuple(
        section._replace(stored=len(each), decoded=len(each), digest=xxh3_64_digest(each))
        for section, each in zip(tail.sections, parts, strict=True)
    )
    nbytes = len(body) + TAIL_SIZE
    return data[:-TAIL_SIZE] + tail._replace(sections=sections, nbytes=nbytes).pack()


def test_equal_hashes_across_pages(tmp_path: Path, monkeypatch: Any) -> None:
    """Ids with the same hash are all found, although they are in several pages and parts."""
    monkeypatch.setattr(directory, "PART_CLIPS", 4)
    monkeypatch.setattr(directory, "PAGE_CLIPS", 3)

    def hash_of(data: bytes) -> int:
        return len(data) * 2**60

    monkeypatch.setattr("bloscpack.frames.store.format.hash_of", hash_of)
    monkeypatch.setattr(index, "hash_of", hash_of)
    path = tmp_path / "a.blp"
    made(path, 25)
    with bp.frames.open(path) as store:
        check(store, *range(25))
        assert sorted(store._ids_with(hash_of(b"clip 0"))) == sorted(map(name, range(10)))
        assert "clip x" not in store


def test_formats_of_parts(tmp_path: Path, monkeypatch: Any) -> None:
    """Each part has the formats of its own clips."""
    monkeypatch.setattr(directory, "PART_CLIPS", 4)
    path = tmp_path / "a.blp"
    shapes = [(2, 3 + number // 3, 40) for number in range(14)]
    with bp.frames.create(path) as store:
        for number, shape in enumerate(shapes):
            store.append(name(number), np.full(shape, number, "u1"))
    data = path.read_bytes()
    assert [part.nformats for part in parts(data)] == [2, 2, 2, 1]
    with bp.frames.open(data) as store:
        assert [store[name(number)].shape for number in range(14)] == shapes
        assert len(store.summary().formats) == 5
        assert isinstance(store.summary().formats[0][0], FrameFormat)
