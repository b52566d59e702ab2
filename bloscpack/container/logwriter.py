"""Changing a log: extents are written where nothing is in use, and a commit makes them the state.

Space that a commit no longer uses is free for the next ones, as soon as no kept version uses it and
no reader has an older commit open. The map of free space is made when there is much of it, from
everything that is in use. Until then, extents are added at the end.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from time import time_ns

from xxhash import xxh3_64

from ..exceptions import FormatError
from ..format.log import (
    COPIES,
    DATA_OFFSET,
    LEAF_RECORDS,
    MAX_LISTED_NBYTES,
    NO_ROW,
    NO_TREE,
    PAGE_ROWS,
    ROW_SIZE,
    SLOTS,
    Commit,
    Node,
    Row,
    Tree,
    depth_of,
    pack_copies,
)
from ..format.trailer import STATISTICS_SIZE
from ..storage.protocol import ByteSource
from ..storage.update import UpdateFile
from ..types import BytesLike
from .freespace import FreeSpace
from .logreader import (
    LogStatistics,
    RowTree,
    commits_of,
    extents_of,
    history_of,
    only_in,
    read_commit,
)

# Extents are written together up to this size.
_RUN_NBYTES = 1 << 20
# Free space below this size is not looked for.
_LEAST_FREE_NBYTES = 1 << 16
# Space of a commit that is given back at once, and that of all commits by the space in use.
_LARGE_NBYTES, _MOST_DEAD = 1 << 20, 2
# End of the extents that have been written but not committed.
_NO_END = 2**63 - 1


def open_commit(file: UpdateFile) -> Commit:
    """Return the last commit of a log that is to be changed, durable and confirmed.

    Raises as `read_commit` does.
    """
    head = file.read_at(0, DATA_OFFSET)
    commit = read_commit(file, head)
    _, damaged, incomplete = commits_of(file)
    found = [Commit.unpack(head, places[commit.slot]) for places in (SLOTS, COPIES)]
    if incomplete is None and not damaged and found == [commit, commit]:
        return commit
    # Each sector has the commit before the other is written. It is not confirmed before the sync,
    # as a killed writer may not have made it durable; the space of the one before is used next.
    for each, places in zip(found, (SLOTS, COPIES), strict=True):
        if each is None or each.sequence != commit.sequence:
            for at in places:
                file.write_at(at, commit._replace(is_confirmed=False).pack())
    file.sync()
    write_slots(file, commit.slot, commit)
    # A later one has the number of the next commit, which may write its extents.
    if incomplete is not None or damaged:
        write_slots(file, 1 - commit.slot, commit)
    file.sync()
    return commit


def write_slots(file: UpdateFile, slot: int, commit: Commit) -> None:
    """Write a commit to a slot and its copy."""
    for places in (SLOTS, COPIES):
        file.write_at(places[slot], commit.pack())


class LogWriter:
    """Log that extents are added to and dropped from.

    Parameters
    ----------
    file : UpdateFile
        The locked file; a new one has at most a header.
    commit : Commit or None
        Its state; None for a new file.
    copies_nbytes : int
        Room for copies of pages and groups in a new file.

    Attributes
    ----------
    keep : int
        How many commits before the last one stay readable.
    """

    def __init__(self, file: UpdateFile, commit: Commit | None, copies_nbytes: int = 0) -> None:
        self.file = file
        self.commit = commit
        self._start = commit.start if commit else DATA_OFFSET + copies_nbytes
        self.keep = commit.keep if commit else 0
        self._history = history_of(file, commit) if commit else []
        # The extents that a version uses and no later one, by its number, if they are known.
        self._last_used: dict[int, list[Row]] = {}
        # The first commit whose dropped extents this writer knows or finds.
        self._known_from = commit.oldest if commit else 0
        # Extents that older commits use: those from the first number on, before the second.
        self._dead: list[tuple[range, Row]] = []
        # The first commit that uses an extent, by its offset, if this writer has written it.
        self._first_used: dict[int, int] = {}
        self.rollback()

    def rollback(self) -> None:
        """Return to the last commit: forget all extents that were added or dropped since."""
        commit = self.commit
        self._end, self._live = (commit.end, commit.live) if commit else (self._start, 0)
        self._added: dict[int, Row] = {}  # by offset
        self._dropped: list[Row] = []
        self._last_used[commit.sequence if commit else 0] = self._dropped
        # None if it is not known; a new file has none. If a reader is older than this writer, only
        # what this writer has made free.
        self._is_partial = False
        self._free = None if commit else FreeSpace()

    @property
    def dead_nbytes(self) -> int:
        """Bytes before the end that no extent in use has."""
        return self._end - self._start - self._live

    def add(self, *parts: BytesLike) -> Row:
        """Write an extent, made of some parts, and return its row."""
        return self._add_run([parts])[0]

    def add_all(self, extents: Iterable[Sequence[BytesLike]]) -> Iterator[Row]:
        """Write extents, each made of some parts, small ones together, and yield their rows."""
        run, nbytes = list[Sequence[BytesLike]](), 0
        for parts in extents:
            run.append(parts)
            nbytes += sum(map(len, parts))
            if nbytes >= _RUN_NBYTES:
                yield from self._add_run(run)
                run, nbytes = [], 0
        if run:
            yield from self._add_run(run)

    def _add_run(self, extents: list[Sequence[BytesLike]]) -> list[Row]:
        """Write extents one after the other, or where they fit if there is no hole for all."""
        sizes = [sum(map(len, parts)) for parts in extents]
        nbytes = sum(sizes)
        offset = self._take_hole(nbytes)
        if offset is None and len(extents) > 1 and self._has_hole(min(sizes)):
            return [row for one in extents for row in self._add_run([one])]
        if offset is None:
            offset, self._end = self._end, self._end + nbytes
        self.file.write_at(offset, *chain.from_iterable(extents))
        if nbytes >= _RUN_NBYTES:
            self.file.start_sync(offset, nbytes)
        self._live += nbytes
        rows = []
        for parts, size in zip(extents, sizes, strict=True):
            digest = xxh3_64()
            for part in parts:
                digest.update(part)
            row = Row(offset, size, digest.digest())
            self._added[offset] = row
            rows.append(row)
            offset += size
        return rows

    def drop(self, row: Row) -> None:
        """Note that an extent is not in use any more."""
        if not row.nbytes:
            return
        if row.offset in self._added:
            self._live -= row.nbytes
            del self._added[row.offset]
            self._release(row)
        else:
            self._dropped.append(row)

    def write_commit(self, groups: Tree) -> Commit:
        """Make everything that was added durable, and then the state; return the commit."""
        before = self.commit
        versions = [*self._history, before] if before else []
        nexpired = max(len(versions) - self.keep, 0)
        expired, kept = versions[:nexpired], versions[nexpired:]
        dead = [(each.sequence, row) for each in expired for row in self._rows_last_used(each)]
        if before is not None:
            rows = before.history, before.added
            dead += [(before.sequence, row) for row in rows if row.nbytes]
        self._live -= sum(row.nbytes for _, row in dead)
        history = self.add(*(each.pack() for each in kept)) if kept else NO_ROW
        added = self._write_list()
        if self._free is not None:
            self._end = self._free.cut(self._end)
        commit = Commit(
            before.sequence + 1 if before else 1,
            time_ns(),
            self._end,
            self._live,
            groups,
            history,
            self.keep,
            self._start,
            added,
            before is None,
        )
        self._write_copies(commit)
        self.commit = commit = self._write_slots(commit)
        for each in expired:
            del self._last_used[each.sequence]
        for last, row in dead:
            self._dead.append((range(self._first_used.pop(row.offset, 0), last + 1), row))
        self._history = kept
        self._first_used |= dict.fromkeys(self._added, commit.sequence)
        nadded = sum(row.nbytes for row in self._added.values())
        self._added, self._dropped = {}, []
        self._last_used[commit.sequence] = self._dropped
        self._give_back(commit.sequence, nadded)
        return commit

    def _write_list(self) -> Row:
        """Write the list of what was added, or make that durable without a list."""
        if self.commit is None:  # nothing reads a new file before it is synced and has its name
            return NO_ROW
        if sum(row.nbytes + ROW_SIZE for row in self._added.values()) > MAX_LISTED_NBYTES:
            self.file.sync()
            return NO_ROW
        return self.add(*(row.pack() for row in self._added.values())) if self._added else NO_ROW

    def _write_slots(self, commit: Commit) -> Commit:
        """Write a commit to its slot, make everything durable, and return it as confirmed."""
        before, file = self.commit, self.file
        try:
            write_slots(file, commit.slot, commit)
            if before is None:  # so that no slot is ever empty
                write_slots(file, 1 - commit.slot, commit)
            file.sync()
        except OSError:
            if before is not None:  # else it may count, although the caller hears that it failed
                with suppress(OSError):
                    write_slots(file, commit.slot, before)
            raise
        if not commit.is_confirmed:
            commit = commit._replace(is_confirmed=True)
            with suppress(OSError):  # it is durable, and readers find it complete by its list
                write_slots(file, commit.slot, commit)
        return commit

    def _write_copies(self, commit: Commit) -> None:
        """Write copies of pages and groups, for recovery alone, which compares their digests."""
        rows = extents_of(self.file, commit, chunks=False)
        extents = (self.file.read_at(row.offset, row.nbytes) for row in rows)
        with suppress(FormatError):  # damage that the commit does not touch
            self.file.write_at(DATA_OFFSET, pack_copies(extents, self._start - DATA_OFFSET))

    def _rows_last_used(self, version: Commit) -> list[Row]:
        """Return the extents that a version uses, but no later one."""
        rows = self._last_used.get(version.sequence)
        if rows is None:
            later = (each for each in (*self._history, self.commit) if each and each > version)
            rows = [*only_in(self.file, version, next(later))]
            self._last_used[version.sequence] = rows
        return rows

    def _give_back(self, sequence: int, nadded: int) -> None:
        """Free the space that only commits use which no reader has open.

        The last commit has added extents of `nadded` bytes.
        """
        held = self.file.held_versions(sequence)
        dead, self._dead = self._dead, []
        # Holes and what fills them again cost time, so that little space is kept for next commits.
        is_large = (
            self.dead_nbytes > _MOST_DEAD * self._live
            or sum(row.nbytes for _, row in dead) > nadded + _LARGE_NBYTES
        )
        for users, row in dead:
            if any(users.start < each.stop and each.start < users.stop for each in held):
                self._dead.append((users, row))
                continue
            if is_large:
                self.file.punch(row.offset, row.nbytes)
            self._release(row)
        if self._is_partial and not self._has_older(held):
            self._free, self._is_partial = None, False  # all of them can be found now
        # Less than that is written again, and the size of a file takes time to change.
        if not held and self.file.size() > self._end + _LARGE_NBYTES:
            self.file.truncate(self._end)

    def give_back_free(self) -> None:
        """Give back the space that is known to be free, if it is much, as the writer ends."""
        commit, file = self.commit, self.file
        # If a commit has failed, it may still be that of the file, and what it added is needed.
        end = file.size() if commit is None or self._added else commit.end
        if commit and file.size() > end and not file.held_versions(commit.sequence):
            file.truncate(end)
        # Otherwise the next writer uses it, and holes cost more time than a commit.
        if self._free is not None and self.dead_nbytes > self._live:
            for start, stop in self._free.stops.items():
                self.file.punch(start, stop - start)

    def _take_hole(self, nbytes: int) -> int | None:
        """Return the start of the smallest hole that `nbytes` fit, in use from now on, if any."""
        least = max(_LEAST_FREE_NBYTES, self._live // 4)
        if self._free is None and self.dead_nbytes > least:
            self._free = self._find_free()
        return None if self._free is None else self._free.take(nbytes)

    def _has_hole(self, nbytes: int) -> bool:
        """Return whether `nbytes` fit a hole that is known."""
        return self._free is not None and self._free.has_hole(nbytes)

    def _has_older(self, held: list[range]) -> bool:
        """Return whether a reader has a commit that uses extents unknown to this writer."""
        return any(each.start < self._known_from for each in held)

    def _find_free(self) -> FreeSpace:
        """Return the holes between all extents in use; none if a reader may use others."""
        if self.commit is None:
            return FreeSpace()
        if self._has_older(self.file.held_versions(self.commit.sequence)):
            self._is_partial = True
            return FreeSpace()
        dead = (row for _, row in self._dead)
        commit = self.commit
        kept = [*extents_of(self.file, commit), commit.history, commit.added]
        for each in self._history:
            kept += self._rows_last_used(each)
        kept += [*self._added.values(), *dead]
        holes, position = [], self._start
        for row in sorted(kept):
            if row.offset > position:
                holes.append((position, row.offset))
            position = max(position, row.end)
        if position < self._end:
            holes.append((position, self._end))
        return FreeSpace(holes)

    def _release(self, row: Row) -> None:
        """Add an extent to the free space, if that is known."""
        if self._free is not None:
            self._free.add(row.offset, row.end)


class ChangingTree(RowTree):
    """Tree of rows that change: the changes are in memory until `write`."""

    def __init__(self, source: ByteSource, tree: Tree | None, what: str) -> None:
        super().__init__(source, tree or NO_TREE, _NO_END, what)
        self._changed: dict[int, Row] = {}
        self.count = self.nleaves  # with the changes

    def row(self, index: int) -> Row:
        """Return the row of leaf `index` as changed."""
        return self._changed.get(index) or super().row(index)

    def packed(self) -> Iterator[bytes]:
        """Yield the rows of all leaves in order, as changed."""
        return (self.row(index).pack() for index in range(self.count))

    def replace(self, index: int, row: Row, log: LogWriter) -> None:
        """Set the row of a leaf, or add one after the others; drop the extent it had."""
        if index < self.count:
            log.drop(self.row(index))
        self.count = max(self.count, index + 1)
        self._changed[index] = row

    def cut(self, nleaves: int, log: LogWriter) -> None:
        """Remove all leaves from `nleaves` on."""
        for index in range(nleaves, self.count):
            log.drop(self.row(index))
            self._changed.pop(index, None)
        self.count = nleaves

    def clear(self, log: LogWriter) -> None:
        """Drop all extents, so that the tree is not in use any more."""
        self.cut(0, log)
        for level in range(1, self.depth + 1):
            self._drop_pages(level, set(), 0, log)

    def move(self, sources: dict[int, int], first: int, nleaves: int, log: LogWriter) -> None:
        """Give leaves from `first` on other numbers, by their old ones; drop those without one.

        Leaves that have no source must be set with `replace`.
        """
        rows = [self.row(index) for index in range(first, self.count)]
        for index in set(range(first, self.count)) - set(sources.values()):
            log.drop(rows[index - first])
        for index in range(first, max(self.count, nleaves)):
            source = sources.get(index)
            self._changed[index] = NO_ROW if source is None else rows[source - first]
            if index >= nleaves:
                del self._changed[index]
        self.count = nleaves

    def write(self, log: LogWriter) -> Tree:
        """Write all pages that change, from the leaves up; return the new root."""
        after = depth_of(self.count)
        changed, count = self._changed, self.count
        for level in range(after):
            touched = {index // PAGE_ROWS for index in changed}
            old_count = self.count_at(level)
            if count != old_count:  # the last page of both
                touched |= {(min(count, max(old_count, 1)) - 1) // PAGE_ROWS}
            written = {}
            for number in sorted(touched):
                low, high = number * PAGE_ROWS, min((number + 1) * PAGE_ROWS, count)
                rows = (changed.get(index) or self._row(level, index) for index in range(low, high))
                written[number] = log.add(b"".join(row.pack() for row in rows))
            count = -(-count // PAGE_ROWS)
            self._drop_pages(level + 1, touched, count, log)
            changed = written
        for level in range(after, self.depth):
            self._drop_pages(level + 1, set(), 0, log)
        root = changed.get(0) or self._row(after, 0)
        self.root, self.depth, self.nleaves = tree = Tree(root, after, self.count)
        self._changed, self._pages = {}, {}
        return tree

    def _drop_pages(self, level: int, touched: set[int], count: int, log: LogWriter) -> None:
        """Drop the old pages of a level that were written again or are behind the last one."""
        if level <= self.depth:
            old_count = self.count_at(level)
            gone = {number for number in touched if number < old_count}
            for number in gone | set(range(count, old_count)):
                log.drop(self._row(level, number))


class ChangingStatistics(LogStatistics):
    """Statistics of chunks that change: the changes are in memory until `write`.

    Those of chunks that are added, or that `move` has no source for, must be set with `replace`.
    """

    rows: ChangingTree

    def __init__(self, source: ByteSource, tree: Tree, count: int) -> None:
        super().__init__(source, tree, _NO_END, count)
        self.rows = ChangingTree(source, tree, "log: statistics")
        self._set_written(count)

    def _set_written(self, count: int) -> None:
        """Note that `count` records are in the file, and no others."""
        self.count = self._new_count = count
        self._nkept = count  # those from here on have changed
        self._changed: dict[int, bytes] = {}
        self._leaf: tuple[int, BytesLike] = -1, b""

    def record(self, index: int) -> bytes:
        """Return the record of a chunk as changed; raises as `leaf` does."""
        if index in self._changed or index >= self._nkept:
            return self._changed[index]
        number, at = divmod(index, LEAF_RECORDS)
        if self._leaf[0] != number:
            self._leaf = number, self.leaf(number)
        return bytes(self._leaf[1][STATISTICS_SIZE * at : STATISTICS_SIZE * (at + 1)])

    def read(self, held: Mapping[int, bytes]) -> bytes:
        """Return the records of all chunks, also of those `held` in memory."""
        count = max(self._new_count, max(held, default=-1) + 1)
        return b"".join(held.get(index) or self.record(index) for index in range(count))

    def replace(self, index: int, record: bytes) -> None:
        """Set the record of a chunk, or add one after the others."""
        self._changed[index] = record
        self._new_count = max(self._new_count, index + 1)

    def cut(self, count: int) -> None:
        """Remove all records from `count` on."""
        self._changed = {index: self._changed[index] for index in self._changed if index < count}
        self._nkept = min(self._nkept, count)
        self._new_count = count

    def move(self, sources: dict[int, int], first: int, count: int) -> None:
        """Give records from `first` on other numbers, as `ChangingTree.move` does with rows."""
        # Chunks that were never written have no record yet.
        known = {i: at for i, at in sources.items() if at in self._changed or at < self._nkept}
        moved = {index: self.record(source) for index, source in known.items()}
        self.cut(first)
        self._changed |= moved
        self._new_count = count

    def write(self, log: LogWriter) -> Tree:
        """Write all leaves that change and the pages above them; return the new root."""
        count = self._new_count
        touched = {index // LEAF_RECORDS for index in self._changed}
        if count != self.count:  # the last leaf of both
            touched.add((min(count, max(self.count, 1)) - 1) // LEAF_RECORDS)
        self.rows.cut(min(self.rows.count, -(-count // LEAF_RECORDS)), log)
        numbers = sorted(touched)
        for number, row in zip(numbers, log.add_all(zip(map(self._packed, numbers))), strict=True):
            self.rows.replace(number, row, log)
        self._set_written(count)
        return self.rows.write(log)

    def _packed(self, number: int) -> bytes:
        """Return the bytes of a leaf as changed."""
        start = number * LEAF_RECORDS
        stop = min(start + LEAF_RECORDS, self._new_count)
        return b"".join(map(self.record, range(start, stop)))


class ChangingChunks(ChangingTree):
    """Rows of the chunks of an array that change, and their statistics if it has them."""

    def __init__(self, source: ByteSource, node: Node) -> None:
        super().__init__(source, node.chunks, "log")
        self.statistics: ChangingStatistics | None = None
        if node.statistics.nleaves:
            self.statistics = ChangingStatistics(source, node.statistics, self.count)

    def set(self, index: int, row: Row, record: bytes, log: LogWriter) -> None:
        """Replace a chunk, or add one after the others; `record` has its statistics."""
        self.replace(index, row, log)
        if self.statistics is not None:
            self.statistics.replace(index, record)

    def cut(self, nleaves: int, log: LogWriter) -> None:
        """Remove all chunks from `nleaves` on."""
        super().cut(nleaves, log)
        if self.statistics is not None:
            self.statistics.cut(nleaves)

    def clear(self, log: LogWriter) -> None:
        """Drop all extents, so that nothing of the array is in use any more."""
        super().clear(log)
        if self.statistics is not None:
            self.statistics.rows.clear(log)

    def move(self, sources: dict[int, int], first: int, nleaves: int, log: LogWriter) -> None:
        """Give chunks other numbers; see `ChangingTree.move`."""
        super().move(sources, first, nleaves, log)
        if self.statistics is not None:
            self.statistics.move(sources, first, nleaves)

    def write_node(self, name: str, front: bytes, log: LogWriter) -> Node:
        """Write everything that changes, and return the node of the array."""
        statistics = NO_TREE if self.statistics is None else self.statistics.write(log)
        return Node(name, front, self.write(log), statistics)
