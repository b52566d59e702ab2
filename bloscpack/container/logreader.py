"""Reading a log: the last commit, the trees of rows below it, and the chunks of its arrays.

Every row has the digest of the extent it leads to. Space of an older commit may be used again by
a later one, so a chunk, a page or a group counts only if its digest is that of the row: a reader of
an older commit finds its own content or an error, never other content.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from xxhash import xxh3_64_digest

from ..exceptions import (
    BloscpackError,
    ChecksumMismatch,
    FormatError,
    TruncatedError,
)
from ..format.checksum import CHECKSUMS
from ..format.codec import CHUNK_HEADER_SIZE, ChunkHeader
from ..format.header import FEATURE_GRID, Header
from ..format.log import (
    COMMIT_SIZE,
    COPIES,
    DATA_OFFSET,
    LEAF_RECORDS,
    MAX_LISTED_NBYTES,
    PAGE_ROWS,
    ROW_SIZE,
    SLOTS,
    Commit,
    Node,
    Row,
    Tree,
    unpack_group,
    unpack_history,
    unpack_row,
    unpack_rows,
)
from ..format.metadata import stored_data
from ..format.trailer import STATISTICS_SIZE
from ..notice import notice
from ..storage.memory import MemorySource
from ..storage.protocol import ByteSource
from ..storage.remote.prefetch import prefetched
from ..types import BytesLike
from .front import ATTEMPTS, PROBE_NBYTES, Front, decoded, no_version, read_grid, read_section

# The header and the slots.
_HEAD_NBYTES = SLOTS[-1] + COMMIT_SIZE
# Larger extents are compared with the size of the file before memory is allocated for them.
_SMALL_NBYTES = 1 << 20
# So are those at offsets that no system takes.
_FAR = 1 << 62
# Pages that are cached: those of a million chunks, 20 MB.
_MAX_PAGES = 1024


class FoundCommits(NamedTuple):
    """Commits in the slots and their copies.

    Attributes
    ----------
    commits : list of Commit
        The complete ones, as confirmed, the last one first.
    damaged : set of int
        Positions of slots and copies that are damaged.
    incomplete : Commit or None
        A later commit, if the power failed before everything that it added was on disk.
    """

    commits: list[Commit]
    damaged: set[int]
    incomplete: Commit | None


def commits_of(source: ByteSource) -> FoundCommits:
    """Return the commits of all slots and copies."""
    while True:
        stored = bytes(source.read_at(0, DATA_OFFSET))
        found, damaged = set(), set()
        for at in (*SLOTS, *COPIES):
            commit = Commit.unpack(stored, at)
            if commit is None:
                damaged.add(at)
            else:
                found.add(commit)
        last = max(found, default=None)
        # The next commit is only begun when the last one is durable, so that all others are.
        complete = {
            commit._replace(is_confirmed=True)
            for commit in found
            if last is None or commit.sequence < last.sequence or is_complete(source, commit)
        }
        commits = sorted(complete, reverse=True)
        if not last or (commits and commits[0].sequence == last.sequence):
            return FoundCommits(commits, damaged, None)
        if source.read_at(0, DATA_OFFSET) == stored:  # else a writer has used the space again
            return FoundCommits(commits, damaged, last)


def is_complete(source: ByteSource, commit: Commit) -> bool:
    """Return whether everything that a commit added is in the file, by its list."""
    if commit.is_confirmed or not commit.added.nbytes:
        return True
    try:
        nbytes, what = commit.added.nbytes, "log: a list"
        if nbytes > MAX_LISTED_NBYTES:
            return False
        rows = list(unpack_rows(read_extent(source, commit.added, what, commit.end)))
        if nbytes + sum(row.nbytes for row in rows) > MAX_LISTED_NBYTES:
            return False
        for some in prefetched(source, range(len(rows)), lambda number: rows[number][:2]):
            for number in some:
                read_extent(source, rows[number], what, commit.end)
    except FormatError:
        return False
    return True


def lost_slots(damaged: set[int]) -> list[int]:
    """Return the slots that are damaged, and whose copies are, by the result of `commits_of`."""
    return [slot for slot, copy in zip(SLOTS, COPIES, strict=True) if {slot, copy} <= damaged]


def read_commit(source: ByteSource, head: BytesLike = b"") -> Commit:
    """Return the last complete commit; `head` are the first bytes of the file, if they were read.

    Raises
    ------
    FormatError
        No slot is intact.

    Warns
    -----
    BloscpackWarning
        A slot and its copy are damaged, so that a later commit may be lost; or a later commit is
        incomplete.
    """
    if len(head) < _HEAD_NBYTES:
        head = source.read_at(0, _HEAD_NBYTES)
    one, two = (Commit.unpack(head, at) for at in SLOTS)
    if one is not None and two is not None and max(one, two).is_confirmed:
        return max(one, two)
    commits, damaged, incomplete = commits_of(source)
    name = source.name or "memory"
    if not commits:
        raise FormatError("log: no commit is intact", offset=SLOTS[0], field="slot")
    if lost_slots(damaged):
        notice(
            "%s: a commit is damaged; the file is read as of commit %d, and later changes may be "
            "missing",
            name,
            commits[0].sequence,
        )
    if incomplete is not None:
        notice(
            "%s: commit %d was not completed; the file is read as of commit %d",
            name,
            incomplete.sequence,
            commits[0].sequence,
        )
    return commits[0]


def history_of(source: ByteSource, commit: Commit) -> list[Commit]:
    """Return the earlier commits that can still be read, the oldest first.

    Raises
    ------
    FormatError
        The history is damaged.
    """
    if not commit.history.nbytes:
        return []
    try:
        return unpack_history(read_extent(source, commit.history, "history", commit.end), commit)
    except FormatError as err:
        err.args = (f"{err.args[0]}; bloscpack.compact keeps the newest version alone",)
        raise


def read_versions(source: ByteSource, head: BytesLike = b"") -> list[Commit]:
    """Return all commits that can be read, the oldest first; `head` is as in `read_commit`.

    Raises
    ------
    FormatError
        No slot is intact, or the history is damaged.
    """
    while True:
        commit = read_commit(source, head)
        try:
            return [*history_of(source, commit), commit]
        except FormatError:
            head = b""
            if read_commit(source) == commit:  # else a writer has used the space again
                raise


def last_used_nbytes(source: ByteSource, versions: list[Commit]) -> list[int]:
    """Return the stored bytes that each version uses, and no later one; their sum is in use.

    Raises
    ------
    FormatError
        A page or a group is damaged.
    """
    older = [
        sum(row.nbytes for row in only_in(source, one, two)) for one, two in pairwise(versions)
    ]
    return [*older, versions[-1].live - sum(older)]


def find_version(versions: list[Commit], version: int) -> Commit:
    """Return a version by its sequence number, or counted from the newest, which is -1.

    Raises
    ------
    NotFoundError
        There is no such version.
    """
    first = versions[0].sequence
    index = version - first if version > 0 else version + len(versions)
    if not version or not 0 <= index < len(versions):
        raise no_version(version, first, versions[-1].sequence)
    return versions[index]


def read_extent(
    source: ByteSource, row: Row, what: str, end: int, *, check: bool = True
) -> BytesLike:
    """Return an extent, after a check of its digest if `check`.

    `what` names the extent in errors, and `end` is that of the commit.

    Raises
    ------
    FormatError
        The row leads out of the file (`TruncatedError`), or the digest differs
        (`ChecksumMismatch`).
    """
    offset, nbytes, expected = row
    if offset < DATA_OFFSET or offset + nbytes > end:
        raise FormatError(
            f"bytes {offset} to {row.end} are not between {DATA_OFFSET} and {end}"
        ).at(what)
    # Reading is the check if it needs little memory, which saves a call.
    is_near = nbytes <= _SMALL_NBYTES and offset < _FAR
    is_there = is_near or offset + nbytes <= source.size()
    data = source.read_at(offset, nbytes) if is_there else b""
    if len(data) < nbytes:
        raise TruncatedError(f"the file ends before byte {row.end}", offset=offset).at(what)
    if check and (actual := xxh3_64_digest(data)) != expected:
        raise ChecksumMismatch(
            f"XXH3 of bytes {offset} to {row.end} is {actual.hex()}, {expected.hex()} is recorded",
            name="xxh3_64",
            expected=expected,
            actual=actual,
            offset=offset,
        ).at(what)
    return data


def read_chunk(
    source: ByteSource, row: Row, end: int, digest_nbytes: int, nbytes: int, *, check: bool = True
) -> tuple[memoryview, ChunkHeader]:
    """Return a chunk without the checksum behind it, and its header.

    `digest_nbytes` is the size of the checksum, and `nbytes` that of the content. The digest of the
    row is compared if `check`.

    Raises
    ------
    FormatError
        As `read_extent`, or the header is not that of a chunk of this size and content.
    """
    stored = memoryview(read_extent(source, row, "", end, check=check))
    data = stored[: max(len(stored) - digest_nbytes, 0)]
    header = ChunkHeader.unpack(data)
    if header.cbytes != len(data) or header.nbytes != nbytes:
        raise FormatError(
            f"{header.cbytes} bytes that decode to {header.nbytes}, expected {len(data)} that "
            f"decode to {nbytes}",
            offset=row.offset,
        )
    return data, header


class RowTree:
    """Tree of rows that are read on use, a page at a time.

    Threads may share it: all find the same pages.
    """

    def __init__(self, source: ByteSource, tree: Tree, end: int, what: str) -> None:
        self.source = source
        self.root, self.depth, self.nleaves = tree
        self.end = end
        self._what = what
        self._pages: dict[tuple[int, int], BytesLike] = {}

    def row(self, index: int) -> Row:
        """Return the row of leaf `index`."""
        number, at = divmod(index, PAGE_ROWS)
        page = self._pages.get((1, number))
        if page is not None and ROW_SIZE * (at + 1) <= len(page):  # saves two calls
            return unpack_row(page, at)
        return self._row(0, index)

    def _row(self, level: int, number: int) -> Row:
        """Return the row of a page, or of a leaf at level 0."""
        if level == self.depth:
            return self.root
        page = self.page(level + 1, number // PAGE_ROWS)
        if ROW_SIZE * (number % PAGE_ROWS + 1) > len(page):
            raise FormatError(f"{self._what}: a page is too short")
        return unpack_row(page, number % PAGE_ROWS)

    def page(self, level: int, number: int) -> BytesLike:
        """Return a page; those of level 1 have the rows of leaves."""
        page = self._pages.get((level, number))
        if page is None:
            page = read_extent(
                self.source, self._row(level, number), f"{self._what}: a page", self.end
            )
            if len(self._pages) >= _MAX_PAGES:
                self._pages = {}
            self._pages[level, number] = page
        return page

    def count_at(self, level: int) -> int:
        """Return the number of pages of a level, or of leaves at level 0."""
        count: int = -(-self.nleaves // PAGE_ROWS**level)
        return count

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all leaves in order."""
        for page in self.packed():
            yield from unpack_rows(page)

    def packed(self) -> Iterator[BytesLike]:
        """Yield the rows of all leaves in order as stored, those of a page at a time."""
        if not self.depth:
            if self.nleaves:
                yield self.root.pack()
            return
        for number in range(self.count_at(1)):
            page = self.page(1, number)
            expected = min(PAGE_ROWS, self.nleaves - PAGE_ROWS * number)
            if len(page) != ROW_SIZE * expected:
                raise FormatError(f"{self._what}: a page has {len(page)} bytes for {expected} rows")
            yield page

    def pages(self) -> Iterator[Row]:
        """Yield the rows of all pages, each before it is read."""
        for level in range(self.depth, 0, -1):
            for number in range(self.count_at(level)):
                yield self._row(level, number)

    def extents(self) -> Iterator[Row]:
        """Yield the rows of all extents: pages and leaves."""
        yield from self.pages()
        yield from self.rows()


class LogStatistics:
    """Statistics of the chunks of an array of a log; each leaf has those of `LEAF_RECORDS` chunks.

    `count` is the number of chunks.
    """

    def __init__(self, source: ByteSource, tree: Tree, end: int, count: int) -> None:
        self.rows = RowTree(source, tree, end, "log: statistics")
        self.count = count

    def leaf(self, number: int) -> BytesLike:
        """Return the records of a leaf.

        Raises
        ------
        FormatError
            It is damaged, or has another number of records.
        """
        rows, row = self.rows, self.rows.row(number)
        nbytes = STATISTICS_SIZE * min(LEAF_RECORDS, self.count - LEAF_RECORDS * number)
        if row.nbytes != nbytes:
            raise FormatError(
                f"log: statistics of {row.nbytes} bytes, those of these chunks have {nbytes}"
            )
        return read_extent(rows.source, row, "log: statistics", rows.end)

    def offset(self, index: int) -> int:
        """Return the offset of the record of a chunk."""
        number, at = divmod(index, LEAF_RECORDS)
        return self.rows.row(number).offset + STATISTICS_SIZE * at

    def read(self, held: Mapping[int, bytes]) -> bytes:
        """Return the records of all chunks; `held` has those of chunks in memory.

        Raises as `leaf` does.
        """
        leaves = range(-(-self.count // LEAF_RECORDS))
        groups = prefetched(self.rows.source, leaves, lambda number: self.rows.row(number)[:2])
        return b"".join(self.leaf(number) for group in groups for number in group)


class LogTable:
    """Chunk table of an array of a log.

    Attributes
    ----------
    commit : Commit
        The state that is read.
    node : Node
        The array.
    rows : RowTree
        Rows of its chunks.
    is_held : bool
        Whether no writer can use the space of this state again while it is open.
    held : mapping of int to bytes-like
        Decoded chunks that a writer has in memory, by index, in place of those in the file.
    statistics : LogStatistics or None
        Statistics of its chunks, if it has them.
    """

    def __init__(
        self,
        commit: Commit,
        node: Node,
        rows: RowTree,
        *,
        is_held: bool,
        held: Mapping[int, BytesLike] | None = None,
        statistics: LogStatistics | None = None,
    ) -> None:
        self.held = {} if held is None else held
        self.statistics = statistics
        self.commit = commit
        self.node = node
        self.rows = rows
        self.is_held = is_held

    def entry(self, index: int) -> tuple[int, int]:
        """Return the offset of a chunk, and of the first byte behind it and its digest.

        Raises
        ------
        FormatError
            A page is damaged, or the chunk is outside the file.
        """
        offset, nbytes, _ = self.rows.row(index)
        end = offset + nbytes
        if not DATA_OFFSET <= offset < end <= self.rows.end:
            raise FormatError(
                f"log: chunk {index} is at {offset} to {end}, not between {DATA_OFFSET} and "
                f"{self.rows.end}"
            )
        return offset, end

    def nbytes(self, nchunks: int) -> int:
        """Return the size of the stored chunks of an array that has `nchunks`, in bytes."""
        stored = (index for index in range(nchunks) if index not in self.held)
        return sum(end - start for start, end in map(self.entry, stored))


def hold_commit(
    source: ByteSource, head: BytesLike = b"", version: int = -1
) -> tuple[Commit, bool]:
    """Return the last commit or that of a kept version, and whether no writer can use its space.

    `head` are the first bytes of the file, if they were read. The space is held while the file is
    open. Raises as `read_commit` and `find_version` do.
    """
    is_held = False
    if len(head) < _HEAD_NBYTES:
        head = source.read_at(0, _HEAD_NBYTES)
    for _ in range(ATTEMPTS):
        commit = read_commit(source, head)
        if version not in (-1, commit.sequence):
            commit = find_version(read_versions(source, head), version)
        is_held = source.hold(commit.sequence)
        before, head = head[:_HEAD_NBYTES], source.read_at(0, _HEAD_NBYTES)
        # Comparing bytes takes less time than unpacking them.
        if not is_held or head == before or read_commit(source, head).oldest <= commit.sequence:
            break
        is_held = False
    return commit, is_held


def read_log(source: ByteSource, head: BytesLike, version: int = -1) -> Front:
    """Return the front of the only array of a log, or of that which `ByteSource.node` names.

    It is that of the last state, or of a kept version.

    Raises
    ------
    FormatError
        The commit, or what it leads to, is damaged.
    NotFoundError
        There is no such version.
    """
    if source.node is not None and version in (-1, source.node[0].sequence):
        commit, node, is_held = source.node
        check_trees(source, node)
    else:
        commit, is_held = hold_commit(source, head, version)
        node = read_node(source, commit)
    return front_of(source, commit, node, is_held=is_held)


def read_node(source: ByteSource, commit: Commit) -> Node:
    """Return the only array of a log, or that which the source is of; raises as `read_log` does."""
    nodes = [node for group in read_groups(source, commit) for node in group]
    if source.node is not None:
        name = source.node[1].name
        nodes = [node for node in nodes if node.name == name and node.chunks.nleaves]
    if len(nodes) != 1:
        raise FormatError(f"log: {len(nodes)} arrays in the file of one, or of this name")
    check_trees(source, nodes[0])
    return nodes[0]


def read_groups(source: ByteSource, commit: Commit) -> Iterator[list[Node]]:
    """Yield all groups of nodes in order; raises as `read_log` does."""
    check_leaves(source, commit.groups)
    if not commit.groups.depth:  # saves time, as files of one array have one group
        yield read_group(source, commit.groups.root, commit)
        return
    rows = list(RowTree(source, commit.groups, commit.end, "log").rows())
    for some in prefetched(source, range(len(rows)), lambda number: rows[number][:2]):
        for number in some:
            yield read_group(source, rows[number], commit)


def check_leaves(source: ByteSource, tree: Tree) -> None:
    """Check a number of leaves by the bytes present, before anything is done for each of them."""
    # The only page is as long as the rows of these leaves, and reading it is the check.
    if 0 < tree.nleaves <= PAGE_ROWS:
        return
    if not 0 < tree.nleaves * CHUNK_HEADER_SIZE <= source.size():
        raise TruncatedError(
            f"log: {tree.nleaves} chunks or groups in a file of {source.size()} bytes"
        )


def check_trees(source: ByteSource, node: Node) -> None:
    """Check the numbers of leaves of an array; raises as `check_leaves` does."""
    check_leaves(source, node.chunks)
    count, nleaves = node.chunks.nleaves, node.statistics.nleaves
    if nleaves not in (0, -(-count // LEAF_RECORDS)):
        raise FormatError(f"log: statistics of {count} chunks in {nleaves} extents")


def read_group(source: ByteSource, row: Row, commit: Commit) -> list[Node]:
    """Return the nodes of a group; raises as `read_log` does."""
    return unpack_group(read_extent(source, row, "log: a group", commit.end))


def arrays_of(nodes: Iterable[Node]) -> tuple[bytes, dict[str, Node]]:
    """Return the front of an archive, with its attrs, and its arrays by name, in order.

    Raises
    ------
    FormatError
        The first of the nodes is an array, or two arrays have the same name.
    """
    found = list(nodes)
    if not found or found[0].name or found[0].chunks.nleaves:
        raise FormatError("log: the first node is not that of the attrs of an archive")
    named = {node.name: node for node in found[1:]}
    if len(named) < len(found) - 1:
        raise FormatError("log: two arrays have the same name")
    return found[0].front, named


def known_commits(source: ByteSource) -> list[Commit]:
    """Return the intact commits of slots and histories, the last one first."""
    found = set(commits_of(source).commits)
    for commit in tuple(found):
        with suppress(BloscpackError):
            found.update(history_of(source, commit))
    return sorted(found, reverse=True)


class FoundArrays(NamedTuple):
    """Arrays of a possibly damaged archive.

    Attributes
    ----------
    front : bytes or None
        Front of the archive, with its attrs; None if it is lost.
    named : dict of str to (Commit, Node)
        The arrays by name, each with the commit that it is of.
    losses : list of (str, int, int)
        Description, start and stop of each damaged range.
    """

    front: bytes | None
    named: dict[str, tuple[Commit, Node]]
    losses: list[tuple[str, int, int]]


def find_arrays(source: ByteSource) -> FoundArrays:
    """Return the arrays of the last commit, and of an earlier one those that are lost in it."""
    front: bytes | None = None
    named: dict[str, tuple[Commit, Node]] = {}
    losses: list[tuple[str, int, int]] = []
    commits = known_commits(source)
    if not commits:
        losses.append(("log: no commit is intact", SLOTS[0], DATA_OFFSET))
    for commit in commits:
        nodes, found = _intact_nodes(source, commit)
        if front is None and nodes and not nodes[0].chunks.nleaves:
            front = nodes[0].front
        new = {node.name: (commit, node) for node in nodes if node.chunks.nleaves}
        new = {name: new[name] for name in new if name not in named}
        if losses and new:
            what = f"log: {', '.join(map(repr, new))} of commit {commit.sequence} may be older"
            losses.append((f"{what} than the file", 0, 0))
        named |= new
        losses += found
        if not found:
            break
    return FoundArrays(front, named, losses)


def _intact_nodes(
    source: ByteSource, commit: Commit
) -> tuple[list[Node], list[tuple[str, int, int]]]:
    """Return the nodes of a commit that can be read, and what is lost."""
    nodes: list[Node] = []
    losses: list[tuple[str, int, int]] = []

    def note(err: BloscpackError) -> None:
        losses.append((f"commit {commit.sequence}: {err.args[0]}", where.offset, where.end))

    groups = RowTree(source, commit.groups, commit.end, "log")
    where = commit.groups.root
    try:
        check_leaves(source, commit.groups)
        for number in range(commit.groups.nleaves):
            where = groups.row(number)
            try:
                nodes += read_group(source, where, commit)
            except BloscpackError as err:
                note(err)
    except BloscpackError as err:
        note(err)
    return nodes, losses


def extents_of(source: ByteSource, commit: Commit, *, chunks: bool = True) -> Iterator[Row]:
    """Yield the rows of all extents that a commit uses, those of pages and groups unread.

    Without `chunks`, only those of groups and of the pages above groups and chunks.

    Raises
    ------
    FormatError
        A page or a group is damaged.
    """
    groups = RowTree(source, commit.groups, commit.end, "log")
    yield from groups.extents()
    for row in groups.rows():
        for node in read_group(source, row, commit):
            if node.chunks.nleaves or node.statistics.nleaves:
                check_trees(source, node)
            tree = RowTree(source, node.chunks, commit.end, "log")
            yield from tree.pages()
            if chunks:
                yield from tree.rows()
                yield from RowTree(source, node.statistics, commit.end, "log: statistics").extents()


def only_in(source: ByteSource, before: Commit, after: Commit) -> set[Row]:
    """Return the rows of all extents that a commit uses and the next one does not.

    Nothing below a page or in a group that both use is read, so that this takes as long as the
    change between them was large.

    Raises
    ------
    FormatError
        A page or a group is damaged.
    """
    end = max(before.end, after.end)
    found, *groups = _differences(source, ([before.groups], [after.groups]), end)
    old, new = (
        [
            tree
            for row in rows
            for node in read_group(source, row, commit)
            for tree in (node.chunks, node.statistics)
            if tree.nleaves
        ]
        for rows, commit in zip(groups, (before, after), strict=True)
    )
    pages, chunks, _ = _differences(source, (old, new), end)
    return found | groups[0] | pages | chunks


def _differences(
    source: ByteSource, trees: tuple[list[Tree], list[Tree]], end: int
) -> tuple[set[Row], set[Row], set[Row]]:
    """Return the pages that only the first trees have, and the leaves that only either have."""
    pages: set[Row] = set()
    old, new = set[Row](), set[Row]()
    for level in range(max((tree.depth for some in trees for tree in some), default=0), -1, -1):
        old |= {tree.root for tree in trees[0] if tree.depth == level}
        new |= {tree.root for tree in trees[1] if tree.depth == level}
        old, new = old - new, new - old
        if level:
            pages |= old
            old, new = (
                set[Row]().union(
                    *(unpack_rows(read_extent(source, row, "log: a page", end)) for row in some)
                )
                for some in (old, new)
            )
        if CHUNK_HEADER_SIZE * (len(old) + len(new)) > 2 * source.size():
            raise FormatError("log: pages have more rows than the file has chunks")
    return pages, old, new


def front_of(
    source: ByteSource,
    commit: Commit,
    node: Node,
    rows: RowTree | None = None,
    *,
    is_held: bool = False,
    held: Mapping[int, BytesLike] | None = None,
    statistics: LogStatistics | None = None,
) -> Front:
    """Return the front of an array of a log.

    `rows` and `statistics` are those of its chunks, if they are open. `is_held` and `held` are as
    in `LogTable`.

    Raises
    ------
    FormatError
        The front is damaged, or has another number of chunks than the tree.
    """
    head = memoryview(node.front)
    header = Header.unpack(head)
    meta, data, position = None, b"", header.size
    if header.metadata:
        near = MemorySource(node.front)
        meta, section = read_section(near, head, header, position, CHECKSUMS[-1].id)
        data = stored_data(meta, section)
        position += len(section)
    if header.nchunks != node.chunks.nleaves:
        raise FormatError(
            f"header: nchunks is {header.nchunks}, but the log has {node.chunks.nleaves} chunks",
            offset=16,
            field="nchunks",
        )
    grid, chunk_size = None, header.chunk_size
    if header.features & FEATURE_GRID:
        grid = read_grid(header, decoded(meta, data))
        chunk_size = grid.chunk_nbytes
    nbytes = (header.nchunks - 1) * chunk_size + header.last_chunk if grid is None else grid.nbytes
    if min(chunk_size, header.last_chunk) < 0 or nbytes >= 2**63:
        raise FormatError(f"header: chunks of {chunk_size} and {header.last_chunk} bytes")
    rows = rows or RowTree(source, node.chunks, commit.end, "log")
    if statistics is None and node.statistics.nleaves:
        statistics = LogStatistics(source, node.statistics, commit.end, header.nchunks)
    table: Any = LogTable(commit, node, rows, is_held=is_held, held=held, statistics=statistics)
    return Front(
        head=node.front[: header.size],
        header=header,
        metadata_header=meta,
        stored_metadata=data,
        table=table,
        table_offset=position,
        data_offset=DATA_OFFSET,
        nchunks=header.nchunks,
        chunk_size=chunk_size,
        last_chunk=header.last_chunk,
        nbytes=nbytes,
        grid=grid,
        trailer=None,
        trailer_state="absent",
        file_size=source.size(),
        used_nbytes=0,
        probe_nbytes=PROBE_NBYTES,
    )
