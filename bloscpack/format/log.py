"""Layout of a log: a file whose arrays change, by adding and by replacing parts.

::

    file   = header(64) zeros slot slot copy copy copies extent*
    slot   = commit(128)
    copies = (size(4) bytes)* pages and groups again, for recovery
    extent = chunk digest | page | group | history | list | statistics(32)*
    page   = row(20)*         rows of up to 1024 extents one level below
    group  = node*            up to 256 nodes
    node   = 40 bytes, [tree], name, front: header and metadata section of an array or an archive
    history = commit(128)*    earlier commits that can still be read
    list   = row(20)*         all other extents that a commit added

A commit leads to everything that is in the file: its tree has the groups of nodes as leaves, and
each node has a tree of chunks. That of an array with statistics has another one, whose leaves have
the records of 256 chunks each. A row is the offset, the size and the XXH3 of an extent of any
kind. A change writes new extents where nothing is in use, then the pages and groups above them, and
overwrites the older of two slots; one sync makes all of it durable. The power may fail before, and
leave the slot without some of the extents. So a commit has a row of the list of what it added, by
which readers check it, until it is written once more as confirmed.

A log of several arrays is an archive. Its first node has the attrs of the archive and no chunks.

Pure: bytes in, values out. Layout: docs/formats/log.md.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64_digest

from ..exceptions import FormatError, UnsupportedError
from ..types import BytesLike
from .archiveindex import MAX_NAME_NBYTES
from .bytefield import unpack_fields
from .filekind import COMMIT_COPIES_AT, COMMITS_AT
from .filekind import COMMIT_MAGIC as MAGIC

# The slots are in one sector, their copies in another, and the header in one that is not written
# again. Both have the last durable commit at any instant, so that one of them may be lost.
SLOTS = COMMITS_AT
COPIES = COMMIT_COPIES_AT
DATA_OFFSET = 8192 + 256
# Room for copies of pages and groups: up to the next block, and for those of 1600 chunks.
LEAST_COPIES_NBYTES, MOST_COPIES_NBYTES = 4096 - 256, 1 << 15
_COPY_HEAD = Struct("<I")
# A commit that added more is written after a sync of that, so that a check takes little time.
MAX_LISTED_NBYTES = 1 << 22
PAGE_ROWS = 1024
GROUP_NODES = 256
# Chunks whose statistics are one extent.
LEAF_RECORDS = 256
# A writer begins another group at this size, so that a small change of one writes little.
GROUP_NBYTES = 1 << 17
# A tree of this depth has more rows than there are bytes in any file.
_MAX_DEPTH = 7

_DIGEST_SIZE = 8
_ROW = Struct("<QI8s")  # offset, bytes, XXH3
ROW_SIZE = 8 + 4 + 8
# row of the root, depth, leaves
_TREE = Struct("<QI8sIQ")
_TREE_SIZE = ROW_SIZE + 4 + 8
_SECOND = Struct(f"{_TREE_SIZE}s")
# magic, sequence, time, end, live bytes, tree of groups, row of the history, row of the list,
# commits to keep, flags, start of the extents, XXH3
_COMMIT = Struct(f"<8sQQQQ{_TREE_SIZE}s{ROW_SIZE}s{ROW_SIZE}sHHI8s")
COMMIT_SIZE = 8 + 8 + 8 + 8 + 8 + _TREE_SIZE + 2 * ROW_SIZE + 2 + 2 + 4 + _DIGEST_SIZE
_CONFIRMED = 1  # flag
# Each commit writes the history again: 1 MB for this many commits.
MAX_KEEP = 10_000
_NODE = Struct(f"<HHI{_TREE_SIZE}s")  # bytes of the name, flags, bytes of the front, tree of chunks
_HAS_STATISTICS = 1  # a second tree follows the fields of the node


class Row(NamedTuple):
    """Where an extent is, and its digest."""

    offset: int  # absolute position
    nbytes: int  # size in bytes
    digest: bytes  # XXH3 of all of it

    @property
    def end(self) -> int:
        """Offset of the first byte behind the extent."""
        return self.offset + self.nbytes

    def pack(self) -> bytes:
        """Return the bytes of the row."""
        return _ROW.pack(*self)


_new_row = partial(tuple.__new__, Row)  # as `Row._make`, but a third of the time
# In place of the row of an extent that does not exist.
NO_ROW = Row(0, 0, bytes(_DIGEST_SIZE))


class Tree(NamedTuple):
    """Root of a tree of rows; of one leaf, the root is the row of the leaf.

    Without leaves, it is `NO_TREE`.
    """

    root: Row
    depth: int  # levels of pages above the leaves
    nleaves: int

    def pack(self) -> bytes:
        """Return the bytes of the root."""
        return _TREE.pack(*self.root, self.depth, self.nleaves)

    @classmethod
    def unpack(cls, view: BytesLike) -> "Tree":
        """Unpack a root.

        Raises
        ------
        FormatError
            The depth does not fit the number of leaves.
        """
        offset, nbytes, digest, depth, nleaves = _TREE.unpack(view)
        if depth > _MAX_DEPTH or depth != depth_of(nleaves):
            raise FormatError(f"tree: {nleaves} leaves below {depth} levels of pages")
        return tuple.__new__(cls, (_new_row((offset, nbytes, digest)), depth, nleaves))


NO_TREE = Tree(NO_ROW, 0, 0)


def depth_of(nleaves: int) -> int:
    """Return the number of levels of pages above a number of leaves."""
    depth = 0
    while nleaves > PAGE_ROWS**depth:
        depth += 1
    return depth


class Commit(NamedTuple):
    """State of a log."""

    sequence: int  # number of the commit, from 1 on
    time: int  # ns since 1970
    end: int  # end of the last extent that is in use
    live: int  # bytes of all extents that are in use, by this commit or one in its history
    groups: Tree
    history: Row = NO_ROW  # the commits before this one that can still be read
    keep: int = 0  # how many of them later commits keep
    start: int = DATA_OFFSET  # where the first extent may begin, behind the copies
    added: Row = NO_ROW  # list of all other extents that it added
    is_confirmed: bool = True  # whether these are durable; else the list has to be checked

    def pack(self) -> bytes:
        """Return the bytes of a slot."""
        rows = self.groups.pack(), self.history.pack(), self.added.pack()
        flags = _CONFIRMED if self.is_confirmed else 0
        head = _COMMIT.pack(MAGIC, *self[:4], *rows, self.keep, flags, self.start, b"")
        head = head[:-_DIGEST_SIZE]
        return head + xxh3_64_digest(head)

    @classmethod
    def unpack(cls, view: BytesLike, at: int) -> "Commit | None":
        """Return the commit in the slot at position `at` of `view`; None if it is damaged."""
        stored = bytes(view[at : at + COMMIT_SIZE])
        if len(stored) < COMMIT_SIZE or not stored.startswith(MAGIC):
            return None
        *fields, digest = _COMMIT.unpack(stored)
        if xxh3_64_digest(stored[:-_DIGEST_SIZE]) != digest:
            return None
        _, sequence, time, end, live, groups, history, added, keep, flags, start = fields
        try:
            tree = Tree.unpack(groups)
        except FormatError:
            return None
        found = cls(
            sequence,
            time,
            end,
            live,
            tree,
            unpack_row(history, 0),
            keep,
            start,
            unpack_row(added, 0),
            bool(flags & _CONFIRMED),
        )
        return found if tree.nleaves and DATA_OFFSET <= start <= end else None

    @property
    def dead(self) -> int:
        """Bytes before the end that are not in use."""
        return self.end - self.start - self.live

    @property
    def oldest(self) -> int:
        """Number of the oldest commit that can be read."""
        return self.sequence - self.history.nbytes // COMMIT_SIZE

    @property
    def slot(self) -> int:
        """Which of the two slots this commit is written to."""
        return self.sequence % 2


class Node(NamedTuple):
    """Array of a log; the first node of an archive has its attrs."""

    name: str  # empty for the only array of a file, and for the attrs of an archive
    # Header and metadata section, as at the beginning of a file of version 3 or 4, or of an archive
    # that `savez` writes.
    front: bytes
    chunks: Tree  # its leaves are the chunks, each with its digest, in order
    statistics: Tree = NO_TREE  # its leaves are the records of `LEAF_RECORDS` chunks each

    @property
    def nbytes(self) -> int:
        """Size of the node in a group."""
        second = _TREE_SIZE if self.statistics.nleaves else 0
        return _NODE.size + second + len(self.name.encode()) + len(self.front)

    def pack(self) -> bytes:
        """Return the bytes of the node."""
        name, flags, second = self.name.encode(), 0, b""
        if self.statistics.nleaves:
            flags, second = _HAS_STATISTICS, self.statistics.pack()
        fields = _NODE.pack(len(name), flags, len(self.front), self.chunks.pack())
        return fields + second + name + self.front


def unpack_row(page: BytesLike, at: int) -> Row:
    """Return row number `at` of a page."""
    return _new_row(_ROW.unpack_from(page, ROW_SIZE * at))


def unpack_rows(page: BytesLike) -> Iterator[Row]:
    """Yield the rows of a page; raises FormatError if the last one is cut."""
    if len(page) % ROW_SIZE:
        raise FormatError(f"log: a page of {len(page)} bytes, not of rows of {ROW_SIZE}")
    return map(_new_row, _ROW.iter_unpack(page))


def unpack_history(view: BytesLike, last: Commit) -> list[Commit]:
    """Return the commits in the history of `last`, the oldest first.

    Raises
    ------
    FormatError
        One is damaged, or they are not those before `last`.
    """
    commits = [Commit.unpack(view, at) for at in range(0, len(view), COMMIT_SIZE)]
    found = [each for each in commits if each is not None]
    if [each.sequence for each in found] != [*range(last.sequence - len(commits), last.sequence)]:
        raise FormatError(f"history: it is not that of commit {last.sequence}")
    return found


def pack_copies(extents: Iterable[BytesLike], room: int) -> bytes:
    """Return the bytes of copies of extents, as many of the first as `room` bytes allow."""
    found = b""
    for data in extents:
        copy = _COPY_HEAD.pack(len(data)) + data
        if len(found) + len(copy) > room:
            break
        found += copy
    return found.ljust(min(len(found) + _COPY_HEAD.size, room), b"\0")


def unpack_copies(view: BytesLike) -> dict[bytes, bytes]:
    """Return the copies of extents by their digests; the last ones may be of another commit."""
    found, at = {}, 0
    while at + _COPY_HEAD.size <= len(view):
        (nbytes,) = _COPY_HEAD.unpack_from(view, at)
        if not nbytes:
            break
        at += _COPY_HEAD.size + nbytes
        data = bytes(view[at - nbytes : at])
        found[xxh3_64_digest(data)] = data
    return found


def pack_group(nodes: Iterable[Node]) -> bytes:
    """Return the bytes of a group."""
    return b"".join(node.pack() for node in nodes)


def unpack_group(view: BytesLike) -> list[Node]:
    """Return the nodes of a group.

    Raises
    ------
    FormatError
        It is cut off, or a name is too long or not UTF-8.
    UnsupportedError
        A node has flags that are not known.
    """
    nodes, at = [], 0
    while at < len(view):
        name_nbytes, flags, front_nbytes, chunks = unpack_fields(_NODE, view, at, "node of a log")
        start = at + _NODE.size
        statistics = NO_TREE
        if flags:
            if flags != _HAS_STATISTICS:
                raise UnsupportedError(f"node of a log: flags {flags:#x}, known is 1 (statistics)")
            statistics = Tree.unpack(*unpack_fields(_SECOND, view, start, "node of a log"))
            start += _TREE_SIZE
        middle = start + name_nbytes
        at = middle + front_nbytes
        if at > len(view):
            raise FormatError(f"node of a log: {at} bytes in a group of {len(view)}")
        if name_nbytes > MAX_NAME_NBYTES:
            raise FormatError(f"node of a log: a name of {name_nbytes} bytes")
        try:
            name = bytes(view[start:middle]).decode()
        except UnicodeDecodeError as err:
            raise FormatError(f"node of a log: the name is not UTF-8: {err}") from err
        nodes.append(Node(name, bytes(view[middle:at]), Tree.unpack(chunks), statistics))
    return nodes
