"""Trees of rows and free space of logs, against lists and sets."""

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_digest, xxh3_128_digest

from bloscpack.container import logreader as reading
from bloscpack.container import logwriter
from bloscpack.container.logreader import LogStatistics, RowTree, extents_of, read_commit
from bloscpack.container.logwriter import ChangingChunks, ChangingStatistics, LogWriter
from bloscpack.exceptions import FormatError
from bloscpack.format import log as layout
from bloscpack.format.log import NO_TREE, Commit, Node, Row, Tree, pack_group, unpack_group
from bloscpack.storage import disk
from bloscpack.storage.file import FileSource
from bloscpack.storage.memory import MemorySource
from bloscpack.storage.update import UpdateFile


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch, no_sync: None) -> None:
    """Make pages of 3 rows, so that few rows make a deep tree, and do not wait for the disk."""
    for module in (layout, reading, logwriter):
        monkeypatch.setattr(module, "PAGE_ROWS", 3)
    for module in (reading, logwriter):
        monkeypatch.setattr(module, "LEAF_RECORDS", 2)


def record_of(data: bytes) -> bytes:
    """Return 32 bytes that differ from those of other content."""
    return xxh3_128_digest(data) * 2


class _Log:
    """Log with one node of arbitrary extents, and what it should hold."""

    def __init__(self, folder: Path) -> None:
        self.file = UpdateFile.create(str(folder / "log"), "log")
        self.log = LogWriter(self.file, None)
        self.rows = ChangingChunks(self.file, Node("", b"", NO_TREE))
        self.rows.statistics = ChangingStatistics(self.file, NO_TREE, 0)
        self.content: list[bytes] = []
        self.group = logwriter.NO_ROW

    def set(self, index: int, data: bytes) -> None:
        self.rows.set(index, self.log.add(data), record_of(data), self.log)
        self.content[index : index + 1] = [data]

    def cut(self, count: int) -> None:
        self.rows.cut(count, self.log)
        del self.content[count:]

    def move(self, sources: list[int | None], fill: bytes) -> None:
        found = {index: source for index, source in enumerate(sources) if source is not None}
        self.rows.move(found, 0, len(sources), self.log)
        before = self.content
        self.content = [fill if source is None else before[source] for source in sources]
        for index, source in enumerate(sources):
            if source is None:
                self.rows.set(index, self.log.add(fill), record_of(fill), self.log)

    def commit(self) -> None:
        self.node = node = self.rows.write_node("", b"front", self.log)
        self.log.drop(self.group)
        self.group = self.log.add(pack_group([node]))
        self.log.write_commit(Tree(self.group, 0, 1))

    def check(self) -> None:
        """Check that a reader finds the content, and that the writer counts the space."""
        commit = read_commit(self.file)
        (node,) = unpack_group(self.file.read_at(commit.groups.root.offset, self.group.nbytes))
        tree = RowTree(self.file, node.chunks, commit.end, "log")
        found = [bytes(reading.read_extent(self.file, row, "", commit.end)) for row in tree.rows()]
        assert found == self.content
        assert [tree.row(index) for index in range(len(found))] == list(tree.rows())
        records = b"".join(map(record_of, self.content))
        assert self.rows.statistics is not None
        assert self.rows.statistics.read({}) == records
        stored = LogStatistics(self.file, node.statistics, commit.end, len(found))
        assert stored.read({}) == records
        extents = sorted(extents_of(self.file, commit))
        for one, two in pairwise(extents):
            assert one.end <= two.offset, "two extents overlap"
        assert sum(row.nbytes for row in [*extents, commit.added]) == commit.live
        assert max(row.end for row in extents) <= commit.end


@pytest.mark.usefixtures("small_pages")
@given(data=st.data())
def test_a_tree_of_rows_is_a_list(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = _Log(tmp_path_factory.mktemp("log"))
    try:
        log.set(0, b"first")
        for step in range(data.draw(st.integers(1, 12))):
            count = len(log.content)
            match data.draw(st.sampled_from(["set", "add", "cut", "move", "commit"])):
                case "set":
                    log.set(data.draw(st.integers(0, count - 1)), b"%d" % step * 9)
                case "add":
                    for number in range(data.draw(st.integers(1, 30))):
                        log.set(count + number, b"%d %d" % (step, number))
                case "cut":
                    log.cut(data.draw(st.integers(1, count)))
                case "move":
                    order = data.draw(st.permutations(range(count)))
                    kept = [place if place % 4 else None for place in order]
                    log.move(kept[: data.draw(st.integers(1, count))], b"new")
                case "commit":
                    log.commit()
                    log.check()
        log.commit()
        log.check()
    finally:
        log.file.close()


def test_space_is_used_again(tmp_path: Path) -> None:
    log = _Log(tmp_path)
    with_size = [os.urandom(40_000) for _ in range(8)]
    for index, data in enumerate(with_size):
        log.set(index, data)
    log.commit()
    for number in range(40):
        log.set(number % 8, os.urandom(30_000 + 250 * number))
        log.commit()
        log.check()
    assert log.file.size() < 2 * 8 * 40_000
    log.file.close()


def test_extents_that_are_written_together_fill_holes(tmp_path: Path) -> None:
    log = _Log(tmp_path)
    for index in range(8):
        log.set(index, os.urandom(40_000))
    log.commit()
    for index in (1, 3, 5):
        log.set(index, os.urandom(100))
    log.commit()
    log.commit()
    before = log.file.size()
    new = [os.urandom(size) for size in (39_000, 40_000, 30_000, 9_000)]
    for index, row in enumerate(log.log.add_all((one[:7], one[7:]) for one in new)):
        log.rows.set(8 + index, row, record_of(new[index]), log.log)
    log.content += new
    log.commit()
    log.check()
    assert log.file.size() < before + 1000
    log.file.close()


def test_long_runs_are_on_their_way_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, begun = _Log(tmp_path), list[tuple[int, int]]()
    start = disk.start_sync

    def started(fd: int, offset: int, nbytes: int) -> None:
        begun.append((offset, nbytes))
        start(fd, offset, nbytes)

    monkeypatch.setattr(disk, "start_sync", started)
    log.set(0, os.urandom(1 << 20))
    log.set(1, os.urandom(1000))
    assert begun == [(log.rows.row(0).offset, 1 << 20)]
    log.commit()
    log.check()
    log.file.close()


def test_space_of_a_reader_is_not_used(tmp_path: Path) -> None:
    log = _Log(tmp_path)
    for index in range(4):
        log.set(index, os.urandom(100_000))
    log.commit()
    log.file.publish(str(tmp_path / "log"), None)
    before = list(log.content)
    reader = FileSource(tmp_path / "log")
    commit = read_commit(reader)
    assert reader.hold(commit.sequence)
    rows = list(log.rows.rows())
    for number in range(20):
        log.set(number % 4, os.urandom(100_000))
        log.commit()
    held = [bytes(reader.read_at(row.offset, row.nbytes)) for row in rows]
    assert held == before
    reader.close()
    size = log.file.size()
    for number in range(20):
        log.set(number % 4, os.urandom(100_000))
        log.commit()
        log.check()
    assert log.file.size() <= size
    log.file.close()


@pytest.mark.parametrize("nbefore", [0, 3])
def test_a_map_of_free_space_leaves_out_what_a_reader_needs(nbefore: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = _Log(tmp_path)
    for index in range(4):
        log.set(index, os.urandom(100_000))
    log.commit()
    log.file.publish(str(path), None)
    reader = FileSource(path)
    commit = read_commit(reader)
    assert reader.hold(commit.sequence)
    before, rows = list(log.content), list(log.rows.rows())
    for number in range(nbefore):
        log.set(number, os.urandom(100_000))
        log.commit()
    log.file.close()
    log.file = UpdateFile.open(path)
    log.log = LogWriter(log.file, read_commit(log.file))
    log.rows = ChangingChunks(log.file, log.node)
    for number in range(20):
        log.set(number % 4, os.urandom(100_000))
        log.commit()
        log.check()
    assert [bytes(reader.read_at(row.offset, row.nbytes)) for row in rows] == before
    assert log.file.size() < (10 + 4 * nbefore) * 100_000  # space is used again
    reader.close()
    for number in range(8):
        log.set(number % 4, os.urandom(100_000))
        log.commit()
        log.check()
    assert log.file.size() < (10 + 4 * nbefore) * 100_000
    log.file.close()


def _slots(*commits: Commit | None) -> MemorySource:
    """Return the beginning of a log with these slots and copies."""
    file = bytearray(layout.DATA_OFFSET)
    for at, commit in zip((*layout.SLOTS, *layout.COPIES), commits, strict=True):
        packed = b"damaged" if commit is None else commit.pack()
        file[at : at + len(packed)] = packed
    return MemorySource(bytes(file))


_TREE = Tree(Row(layout.DATA_OFFSET, 10, bytes(8)), 0, 1)
_OLD, _NEW = (Commit(number, 0, 9000, 10, _TREE) for number in (6, 7))


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ((_OLD, _NEW, _OLD, _NEW), _NEW),
        ((_OLD, None, _OLD, _NEW), _NEW),
        ((None, _NEW, _OLD, _NEW), _NEW),
        ((None, None, _OLD, _NEW), _NEW),
        ((_OLD, None, None, _NEW), _NEW),
    ],
)
def test_a_damaged_slot_loses_no_commit(
    slots: tuple[Commit | None, ...], expected: Commit, recwarn: pytest.WarningsRecorder
) -> None:
    assert read_commit(_slots(*slots)) == expected
    assert not recwarn


def test_a_lost_commit_is_announced() -> None:
    with pytest.warns(UserWarning, match="read as of commit 6, and later changes may be missing"):
        assert read_commit(_slots(_OLD, None, _OLD, None)) == _OLD


def _with_list(*content: bytes, is_whole: bool = True) -> tuple[Commit, bytes]:
    """Return an unconfirmed commit, and the extents behind the slots that it added."""
    rows, at = [], layout.DATA_OFFSET
    for data in content:
        rows.append(Row(at, len(data), xxh3_64_digest(data)))
        at += len(data)
    page = b"".join(row.pack() for row in rows)[: None if is_whole else -1]
    added = Row(at, len(page), xxh3_64_digest(page))
    extents = b"".join(content) + page
    return _NEW._replace(end=1 << 40, added=added, is_confirmed=False), extents


def _read(commit: Commit, extents: bytes) -> Commit:
    """Return what a reader takes, the commit before or this one."""
    head = _slots(_OLD, commit, _OLD, commit)
    return read_commit(MemorySource(bytes(head.read_at(0, layout.DATA_OFFSET)) + extents))


def test_a_commit_that_is_not_confirmed_is_compared_with_its_list() -> None:
    commit, extents = _with_list(b"one", b"two" * 9)
    confirmed = commit._replace(is_confirmed=True)
    assert _read(commit, extents) == confirmed
    for at in range(len(extents)):
        for damaged in (extents[:at], extents[:at] + bytes([extents[at] ^ 1]) + extents[at + 1 :]):
            with pytest.warns(UserWarning, match="commit 7 was not completed; the file is read as"):
                assert _read(commit, damaged) == _OLD
            assert _read(confirmed, damaged) == confirmed  # damage is found by those who need it
    # The copy is not written again, as the process was killed.
    head = bytes(_slots(_OLD, confirmed, _OLD, commit).read_at(0, layout.DATA_OFFSET))
    assert read_commit(MemorySource(head)) == confirmed
    head = bytes(_slots(_OLD, None, _OLD, commit).read_at(0, layout.DATA_OFFSET))
    assert read_commit(MemorySource(head + extents)) == confirmed


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_hostile_list_takes_no_time(is_whole: bool) -> None:
    data = bytes(1000)
    commit, extents = _with_list(data, is_whole=is_whole)
    if is_whole:  # each of many rows is intact
        page = extents[-layout.ROW_SIZE :] * 5000
        added = commit.added._replace(nbytes=len(page), digest=xxh3_64_digest(page))
        commit, extents = commit._replace(added=added), data + page
    with pytest.warns(UserWarning, match="commit 7 was not completed"):
        assert _read(commit, extents) == _OLD
    for added in (Row(2**63, 20, bytes(8)), Row(layout.DATA_OFFSET, 2**32 - 1, bytes(8))):
        with pytest.warns(UserWarning, match="commit 7 was not completed"):
            assert _read(commit._replace(added=added), extents) == _OLD


def test_the_only_commit_is_not_completed() -> None:
    commit, extents = _with_list(b"one")
    head = bytes(_slots(commit, None, commit, None).read_at(0, layout.DATA_OFFSET))
    assert read_commit(MemorySource(head + extents)).sequence == 7
    with pytest.raises(FormatError, match="no commit is intact"):
        read_commit(MemorySource(head + b"?" + extents[1:]))


def test_without_a_commit_there_is_no_file() -> None:
    with pytest.raises(FormatError, match="no commit is intact"):
        read_commit(_slots(None, None, None, None))
