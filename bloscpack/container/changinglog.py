"""File whose arrays change, by this process alone.

A file of version 3, or an archive that was never changed, becomes a log at the first change: its
chunks are verified and copied as stored to a new file, which replaces it at the first commit.
"""

import operator
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from threading import RLock
from typing import Any, Self

from ..exceptions import UnsupportedError
from ..format.archiveindex import pack_archive_front
from ..format.codec import decode
from ..format.filekind import ARCHIVE, kind_of, wrong_kind
from ..format.header import (
    FEATURE_ARCHIVE,
    MAX_HEADER_SIZE,
    UNKNOWN,
    Header,
    is_log,
    log_header,
    version_for,
)
from ..format.log import (
    GROUP_NBYTES,
    GROUP_NODES,
    LEAST_COPIES_NBYTES,
    MAX_KEEP,
    MOST_COPIES_NBYTES,
    NO_ROW,
    NO_TREE,
    Commit,
    Node,
    Tree,
    pack_group,
)
from ..format.trailer import STATISTICS_SIZE
from ..storage.memory import MemorySource
from ..storage.overlay import OverlaySource
from ..storage.protocol import ErrorsAt, closed_on_error
from ..storage.update import UpdateFile, forked_error
from ..types import BytesLike
from .front import Front, Verify
from .logreader import arrays_of, check_trees, front_of, read_chunk, read_groups, read_node
from .logwriter import ChangingChunks, ChangingStatistics, ChangingTree, LogWriter, open_commit
from .members import LOG_ARCHIVE, Members, label_of, read_attrs, read_members
from .reader import Container
from .writer import new_section

# Bytes of a file for each byte of room for copies of its pages and groups.
_PER_COPY = 16
# In place of the commit that a new file does not have yet.
_NO_COMMIT = Commit(0, 0, 0, 0, NO_TREE)


@dataclass(eq=False)
class _Group:
    """Group of nodes.

    Attributes
    ----------
    number : int or None
        Its number in the last commit; None if it has changed since.
    nodes : dict
        Nodes by name; by None, that of the attrs of an archive.
    """

    number: int | None
    nodes: dict[str | None, Node] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether the next node begins another group."""
        nbytes = sum(node.nbytes for node in self.nodes.values())
        return len(self.nodes) >= GROUP_NODES or nbytes > GROUP_NBYTES


class ChangingLog:
    """File whose arrays change, and are committed together; takes ownership of `file`.

    Attributes
    ----------
    lock : RLock
        To be held by a thread that changes the file.
    is_archive : bool
        Whether it has named arrays, and attrs of its own. If not, the name of its array is empty.
    keep : int or None
        How many commits before the last one stay readable from the next commit on; None for as many
        as the file says.
    """

    def __init__(self, file: UpdateFile, *, locking: bool, keep: int | None) -> None:
        if keep is not None and not 0 <= operator.index(keep) <= MAX_KEEP:
            raise ValueError(f"keep must be 0 to {MAX_KEEP} versions, not {keep}")
        self.lock = RLock()
        self._file = file
        self._locking = locking
        self.keep = keep
        self._pid = os.getpid()
        self._name = file.name or file.path
        # It writes to a new file until the first commit of one that was not a log.
        self._log: LogWriter | None = None
        self._tree = ChangingTree(file, None, "log")
        self._groups: list[_Group] = []
        self._group_of: dict[str | None, _Group] = {}  # in the order of the nodes
        self._arrays: dict[str, ChangingFile] = {}
        self._is_changed = False
        head = file.read_at(0, MAX_HEADER_SIZE)
        self.is_archive = kind_of(head) is ARCHIVE
        self._before: Members | None = None  # of an archive that was never changed
        if is_log(head):
            Header.unpack(head, known_features=LOG_ARCHIVE)
            self._load(open_commit(file))
        elif self.is_archive:
            self._before = read_members(file)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        is_archive: bool,
        locking: bool = True,
        keep: int | None = None,
    ) -> Self:
        """Open and lock a file; `keep` is the attribute.

        Raises
        ------
        LockedError
            Another writer has it open.
        WrongKindError
            It is an archive, or it is not, other than expected.
        FormatError
            It is damaged.
        OSError
            It does not exist or cannot be written.
        """
        file = UpdateFile.open(path, locking=locking)
        with closed_on_error(file, file.name):
            found = cls(file, locking=locking, keep=keep)
            if found.is_archive != is_archive:
                head = file.read_at(0, MAX_HEADER_SIZE)
                raise wrong_kind(head, "an archive" if is_archive else "an array", file.name)
        return found

    def _load(self, commit: Commit) -> None:
        """Read the groups of a log."""
        self._log = LogWriter(self._file, commit)
        self._tree = ChangingTree(self._file, commit.groups, "log")
        if self.is_archive:
            groups = list(read_groups(self._file, commit))
            names = iter([None, *arrays_of(chain.from_iterable(groups))[1]])
        else:
            groups, names = [[read_node(self._file, commit)]], iter([""])
        for number, nodes in enumerate(groups):
            group = _Group(number, {next(names): node for node in nodes})
            self._groups.append(group)
            self._group_of |= dict.fromkeys(group.nodes, group)

    @property
    def is_keep_new(self) -> bool:
        """Whether the file does not say yet how many commits to keep."""
        commit = self._log.commit if self._log else None
        return self.keep not in (None, commit.keep if commit else 0)

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the file."""
        return self._pid == os.getpid()

    def check_mine(self) -> None:
        """Check that this process opened the file; raises LockedError."""
        if not self.is_mine:
            raise forked_error(self._pid, self._name)

    @property
    def is_published(self) -> bool:
        """Whether the file exists under its final name: always, as it was opened there."""
        return True

    def size(self) -> int:
        """Return the size of the file in bytes, as of the last commit or later."""
        return self._file.size()

    @property
    def dead_nbytes(self) -> int | None:
        """Bytes of the file that no array uses; None if it was never changed."""
        commit = self._log.commit if self._log else None
        return commit.dead if commit else None

    # Nodes.

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the arrays, in order."""
        if self._log is None:
            return iter(("",) if self._before is None else self._before.named)
        return (name for name in self._group_of if name is not None)

    def __contains__(self, name: object) -> bool:
        """Return whether an array has this name."""
        if self._log is None and self._before is not None:
            return name in self._before.named
        return isinstance(name, str) and name in self._group_of

    def node(self, name: str | None) -> Node:
        """Return the node of an array as changed, or of the attrs, after `begin`."""
        return self._group_of[name].nodes[name]

    def set_node(self, name: str | None, node: Node) -> None:
        """Replace the node of an array, or add one after the others."""
        group = self._group_of.get(name)
        if group is None:
            if not self._groups or self._groups[-1].is_full:
                self._groups.append(_Group(None))
            group = self._group_of[name] = self._groups[-1]
        group.nodes[name] = node
        self._touch(group)

    def _touch(self, group: _Group) -> None:
        group.number = None
        self._is_changed = True

    def begin(self) -> LogWriter:
        """Return the log, which another file becomes."""
        if self._log is None:
            file = UpdateFile.create(self._file.path, self._name, locking=self._locking)
            with closed_on_error(file):
                file.write_at(0, log_header(FEATURE_ARCHIVE if self.is_archive else 0))
                room = max(self._file.size() // _PER_COPY, LEAST_COPIES_NBYTES)
                log = LogWriter(file, None, min(room, MOST_COPIES_NBYTES))
                nodes: dict[str | None, Node] = {}
                if self._before is not None:
                    front = self._before.front
                    front_nbytes = read_attrs(front)[1]
                    nodes[None] = Node("", bytes(front.read_at(0, front_nbytes)), NO_TREE)
                for name in self:
                    nodes[name] = _copied(log, name, self.read(name))
            self._log, self._tree = log, ChangingTree(file, None, "log")
            for key, node in nodes.items():
                self.set_node(key, node)
        return self._log

    # Arrays.

    def array(self, name: str) -> "ChangingFile":
        """Return an array for changes."""
        found = self._arrays.get(name)
        if found is None:
            found = self._arrays[name] = ChangingFile(self, name)
        return found

    def read(self, name: str) -> Container:
        """Return a container that reads an array, without changes since its node was set."""
        if self._log is None:
            return Container.open(self._file if self._before is None else self._before.open(name))
        node, file = self.node(name), self._log.file
        check_trees(file, node)
        return self.reading(name, node, ChangingChunks(file, node))

    def reading(
        self,
        name: str,
        node: Node,
        rows: ChangingChunks,
        held: Mapping[int, BytesLike] | None = None,
        verify: Verify = True,
    ) -> Container:
        """Return a container that reads an array by rows; chunks that are `held` are in memory."""
        log = self.begin()
        commit = log.commit or _NO_COMMIT
        source = OverlaySource(log.file, (), log.file.size())
        if self.is_archive:
            source.name = label_of(self._file, name)
            source.node = commit, node, False
        front = front_of(source, commit, node, rows, held=held, statistics=rows.statistics)
        return Container(front, source, verify=verify)

    def put(self, name: str, container: Container) -> None:
        """Add an array with its chunks as stored, or replace one."""
        log = self.begin()
        node = _copied(log, name, container)
        if name in self:
            self._drop(name, log)
        self.set_node(name, node)

    def remove(self, name: str) -> None:
        """Remove an array."""
        self._drop(name, self.begin())
        group = self._group_of.pop(name)
        del group.nodes[name]
        self._touch(group)
        if not group.nodes:
            self._groups.remove(group)

    def _drop(self, name: str, log: LogWriter) -> None:
        """Drop all extents of an array."""
        self.array(name).begin()[1].clear(log)
        del self._arrays[name]

    def rename(self, old: str, new: str) -> None:
        """Give an array another name, which no other has; it keeps its place."""
        self.begin()
        group = self._group_of[old]
        group.nodes[old] = group.nodes[old]._replace(name=new)
        group.nodes = _renamed(group.nodes, old, new)
        self._group_of = _renamed(self._group_of, old, new)
        self._arrays = _renamed(self._arrays, old, new)
        if new in self._arrays:
            self._arrays[new].name = new
        self._touch(group)

    def read_attrs(self) -> dict[str, Any]:
        """Return the attrs of an archive."""
        if self._log is None and self._before is not None:
            return read_attrs(self._before.front)[0]
        return read_attrs(MemorySource(self.node(None).front))[0]

    def set_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Replace the attrs of an archive; raises TypeError or ValueError if not JSON values."""
        front = pack_archive_front(attrs)
        self.begin()
        self.set_node(None, Node("", front, NO_TREE))

    # State.

    def commit(self) -> None:
        """Make all nodes that were set durable; does nothing without changes."""
        if not self._is_changed and not self.is_keep_new:
            return
        log, tree, groups = self.begin(), self._tree, self._groups
        same = {index: group.number for index, group in enumerate(groups)}
        kept = {index: number for index, number in same.items() if number is not None}
        if self.keep is not None:
            log.keep = self.keep
        tree.move(kept, 0, len(groups), log)
        for index, group in enumerate(groups):
            if group.number is None:
                tree.replace(index, log.add(pack_group(group.nodes.values())), log)
        log.write_commit(tree.write(log))
        for index, group in enumerate(groups):
            group.number = index
        self._is_changed = False
        file = log.file
        if file is not self._file:
            file.publish(self._file.path, self._file)
            self._file.close()
            self._file, self._before = file, None
        for array in self._arrays.values():
            array.reopen()

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        try:
            if self.is_mine and self._log is not None and not self._file.is_closed:
                if self._log.file is self._file:
                    self._log.give_back_free()
                else:
                    self._log.file.close()
        finally:
            self._file.close()


class ChangingFile:
    """Array that chunks are set in, the only one of a file or one of an archive.

    Attributes
    ----------
    name : str
        Name of the array in an archive.
    log : ChangingLog
        The file.
    """

    def __init__(self, log: ChangingLog, name: str) -> None:
        self.name = name
        self.log = log
        self.reopen()
        _check_division(self.container.front)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, locking: bool = True, keep: int | None = None
    ) -> "ChangingFile":
        """Open and lock a file of one array; raises as `ChangingLog.open` does."""
        log = ChangingLog.open(path, is_archive=False, locking=locking, keep=keep)
        with closed_on_error(log, os.fspath(path)):
            return log.array("")

    def reopen(self) -> None:
        """Return to the state of the file."""
        self._container: Container | None = None
        self._rows: ChangingChunks | None = None

    @property
    def container(self) -> Container:
        """The array as of the last commit."""
        if self._container is None:
            self._container = self.log.read(self.name)
        return self._container

    @property
    def is_keep_new(self) -> bool:
        """Whether a commit is needed, as the file does not say yet how many of them to keep."""
        return not self.log.is_archive and self.log.is_keep_new

    def begin(self) -> tuple[LogWriter, ChangingChunks]:
        """Return the log, which another file becomes, and the rows of the chunks."""
        log = self.log.begin()
        if self._rows is None:
            self._rows = ChangingChunks(log.file, self.log.node(self.name))
        return log, self._rows

    def read_chunk(self, index: int, nbytes: int) -> bytes:
        """Return the decoded bytes of a chunk that was written, `nbytes` long.

        Raises
        ------
        FormatError, CodecError
            It is damaged.
        """
        log, rows = self.begin()
        row, digest_nbytes = rows.row(index), self.container.header.checksum.nbytes
        name = self.container.name
        with ErrorsAt(lambda: (f"chunk {index} at offset {row.offset}", name, None)):
            data, _ = read_chunk(log.file, row, rows.end, digest_nbytes, nbytes)
            return decode(data, nbytes)

    def commit(self, front: bytes | None) -> None:
        """Set the front, a header and a metadata section; make a file of one array durable.

        Without `front`, it stays what it is. An archive is committed as a whole, by
        `ChangingLog.commit`.
        """
        log, rows = self.begin()
        if front is None:
            front = self.log.node(self.name).front
        self.log.set_node(self.name, rows.write_node(self.name, front, log))
        if not self.log.is_archive:
            self.log.commit()

    def committed(self, verify: Verify) -> Container:
        """Return a container that reads the array as of the last commit."""
        container = self.container
        source = OverlaySource(container.source, (), container.source.size())
        return Container(container.front, source, verify=verify)

    def view(self, front: bytes, held: Mapping[int, BytesLike], verify: Verify) -> Container:
        """Return a container that reads the array with all changes; `held` is in memory."""
        _, rows = self.begin()
        node = Node(self.name, front, Tree(NO_ROW, 0, Header.unpack(front).nchunks))
        return self.log.reading(self.name, node, rows, held, verify)

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        self.log.close()


def pack_front(header: Header, metadata: Any, *, nchunks: int, last_chunk: int) -> bytes:
    """Return the header and the metadata section of an array of a log.

    `header` is that of the array in another state, with its size of chunks.
    """
    header = header._replace(
        format_version=version_for(header.checksum, features=header.features),
        offsets=True,
        last_chunk=last_chunk,
        nchunks=nchunks,
        max_app_chunks=0,
    )
    return header.pack() + (new_section(metadata) if header.metadata else b"")


def _copied(log: LogWriter, name: str, container: Container) -> Node:
    """Write the chunks of an array to a log as stored, each verified; return its node."""
    front = container.front
    _check_division(front)
    rows = ChangingTree(log.file, None, "log")
    for index, row in enumerate(log.add_all(container.iter_stored())):
        rows.replace(index, row, log)
    statistics = ChangingStatistics(log.file, NO_TREE, 0)
    if container.stored.has_statistics:
        stored = container.stored.read_statistics({})
        for index in range(front.nchunks):
            start = STATISTICS_SIZE * index
            statistics.replace(index, stored[start : start + STATISTICS_SIZE])
    size = UNKNOWN if front.grid is not None else front.chunk_size
    packed = pack_front(
        front.header._replace(chunk_size=size),
        container.metadata,
        nchunks=front.nchunks,
        last_chunk=front.chunk_nbytes(front.nchunks - 1),
    )
    return Node(name, packed, rows.write(log), statistics.write(log))


def _check_division(front: Front) -> None:
    if front.last_chunk > front.chunk_size:
        raise UnsupportedError("the last chunk is larger than the others: save the array again")


def _renamed(named: dict[Any, Any], old: str, new: str) -> dict[Any, Any]:
    """Return a dict with another key in the place of an old one."""
    return {new if key == old else key: value for key, value in named.items()}
