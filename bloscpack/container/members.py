"""Members of an archive, each read by the code that reads a file of its own.

In an archive that was never changed, a member is a window on the file, and the index at the end
names it. In a changed one, which is a log, it is a node. Members of an archive behind a URL share
what was fetched, and a fork or another thread shares nothing that moves.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ..exceptions import (
    BloscpackError,
    FileChangedError,
    FormatError,
    NotFoundError,
    TruncatedError,
)
from ..format.archiveindex import (
    INDEX_TAIL_SIZE,
    IndexTail,
    Member,
    unpack_archive_header,
    unpack_index,
)
from ..format.checksum import CHECKSUMS
from ..format.header import (
    FEATURE_ARCHIVE,
    FEATURE_LOG,
    MAX_HEADER_SIZE,
    Header,
    is_log,
    unpack_header_of,
)
from ..format.metadata import MetadataHeader, decode_data, stored_data
from ..parallel.imports import importing
from ..storage.memory import MemorySource
from ..storage.protocol import ByteSource, Extent, closed_on_error
from ..storage.window import PartPlace, WindowSource
from .front import HEAD_NBYTES, no_version

if TYPE_CHECKING:
    from ..format.log import Commit, Node

# Features of an archive that was changed.
LOG_ARCHIVE = FEATURE_ARCHIVE | FEATURE_LOG
# Read at the end: the index of some hundred members.
_TAIL_NBYTES = 8192
# The same of a remote file, where a request takes no longer for it.
_REMOTE_TAIL_NBYTES = 1 << 16
# Names in messages.
_SHOWN = 6
_ADVICE = "bloscpack.recover writes a new archive of the members that it finds"


def is_archive(source: ByteSource, head: Any) -> bool:
    """Return whether a file is an archive by its first bytes or, if damaged, its last ones."""
    try:
        unpack_archive_header(head)
    except BloscpackError:
        try:
            _read_tail(source)
        except BloscpackError:
            return is_archive_log(source, head)
    return True


def is_archive_log(source: ByteSource, head: Any) -> bool:
    """Return whether a file is a changed archive by its header or, if damaged, its commits."""
    try:
        header = Header.unpack(head, known_features=LOG_ARCHIVE)
    except BloscpackError:
        with importing:  # on use: few files change
            from .log import find_arrays
            from .salvagelog import with_copies

        return find_arrays(with_copies(source)[0]).front is not None
    return header.features == LOG_ARCHIVE


class MemberSource(WindowSource):
    """Source for a member, which is found again by its name if the archive has changed."""

    def __init__(
        self, whole: ByteSource, member: str, extent: Extent, *, owns: bool = False
    ) -> None:
        super().__init__(whole, label_of(whole, member), extent, owns=owns)
        self._member = member

    def replacement(self) -> "MemberSource | None":
        """Return a source for the member in another file that now has the name."""
        return self._found_in(self.whole.replacement())

    def _found_in(self, whole: ByteSource | None) -> "MemberSource | None":
        if whole is None:
            return None
        with closed_on_error(whole, whole.name):
            try:
                return open_member(whole, self._member)
            except NotFoundError as err:
                raise FileChangedError(f"array {self._member!r} was deleted or renamed") from err


class NodeSource(MemberSource):
    """Source for an array of a log of several: the whole file, of which readers read `node`."""

    def __init__(
        self, whole: ByteSource, commit: "Commit", node: "Node", *, is_held: bool, owns: bool
    ) -> None:
        super().__init__(whole, node.name, (0, whole.size()), owns=owns)
        self.node = commit, node, is_held

    def hold(self, sequence: int) -> bool:
        """Keep the space of a version of the archive."""
        return self.whole.hold(sequence)

    def reopened(self) -> MemberSource | None:
        """Return a source for the member in the last state of the archive."""
        return self._found_in(self.whole.reopened())

    def place(self, head_nbytes: int = 0) -> Any:
        """Return what opens the array in another process."""
        place = self.whole.place(head_nbytes)
        number = self.node[0].sequence
        return None if place is None else NodePlace(place, self._member, number)

    def identity(self) -> str:
        """Return the version of the whole source and the name."""
        version = self.whole.identity()
        return f"{version} {self._member}" if version else ""


@dataclass(frozen=True)
class NodePlace(PartPlace):
    """Description that opens an array of a log of several, of the version with this number."""

    number: int

    def open(self, whole: ByteSource) -> MemberSource:
        """Return a source for the array."""
        return open_member(whole, self.name, self.number)


class Members(NamedTuple):
    """Members of an open archive, in one state.

    Attributes
    ----------
    source : ByteSource
        The archive.
    named : mapping of str to Member or Node
        The members by name, in order.
    state : bytes
        Bytes that differ between states of the file: its index, or its commit.
    front : ByteSource
        Header and metadata section of the archive, which have its attrs.
    commit : Commit or None
        The state of a log; None for an archive that was never changed.
    is_held : bool
        Whether no writer can use the space of this state again while the file is open.
    """

    source: ByteSource
    named: Mapping[str, Any]
    state: bytes
    front: ByteSource
    commit: "Commit | None" = None
    is_held: bool = True

    def open(self, name: Any, *, owns: bool = False) -> MemberSource:
        """Return a source for a member; with `owns`, closing it closes the archive.

        Raises
        ------
        NotFoundError
            No member has this name.
        """
        source, member = self.source, self.named.get(name) if isinstance(name, str) else None
        if member is None:
            raise no_member(name, self.named, source.name)
        if self.commit is None:
            return window(source, member, owns=owns)
        return NodeSource(source, self.commit, member, is_held=self.is_held, owns=owns)


def read_members(source: ByteSource, version: int = -1) -> Members:
    """Check the header of an archive, and return its members in the last state or a kept version.

    Raises
    ------
    NotFoundError
        There is no such version.
    WrongKindError
        The file is of another type.
    FormatError, UnsupportedError
        The file is damaged or of an unknown version.
    """
    head = source.read_at(0, MAX_HEADER_SIZE)
    try:
        if is_log(head):
            return _read_log_members(source, head, version)
        unpack_archive_header(head)
        if version not in (-1, 0):
            raise no_version(version)
        members, index = read_index(source)
    except FormatError as err:
        err.args = (f"{err.args[0]}; {_ADVICE}",)
        raise
    return Members(source, members, index, source)


def _read_log_members(source: ByteSource, head: Any, version: int) -> Members:
    with importing:  # on use: few files change
        from .log import hold_commit

    unpack_header_of(head, LOG_ARCHIVE, "an archive")
    commit, is_held = hold_commit(source, version=version)
    return _members_of(source, commit, is_held=is_held)


def _members_of(source: ByteSource, commit: "Commit", *, is_held: bool) -> Members:
    with importing:
        from .log import arrays_of, read_groups

    front, nodes = arrays_of(node for group in read_groups(source, commit) for node in group)
    return Members(source, nodes, commit.pack(), MemorySource(front), commit, is_held)


def read_attrs(source: ByteSource) -> tuple[dict[str, Any], int]:
    """Return the attrs of an archive, and the size of its header and metadata section.

    Raises
    ------
    FormatError, UnsupportedError
        The metadata section is damaged.
    """
    head = source.read_at(0, HEAD_NBYTES)
    meta = MetadataHeader.unpack(head, MAX_HEADER_SIZE, last_checksum=CHECKSUMS[-1].id)
    end = MAX_HEADER_SIZE + meta.section_size
    if end > len(head):
        head = source.read_at(0, min(end, source.size()))
    data = stored_data(meta, head[MAX_HEADER_SIZE:end])
    metadata = decode_data(data, meta.meta_codec, meta.meta_size)
    attrs = metadata.get("attrs") if isinstance(metadata, dict) else None
    if not isinstance(attrs, dict):
        raise FormatError("metadata: not those of an archive")
    return attrs, end


def read_index(source: ByteSource) -> tuple[dict[str, Member], bytes]:
    """Return the members by name, in the order of the file, and the bytes of the index.

    Raises
    ------
    FormatError
        The index is damaged or missing.
    UnsupportedError
        The version of the index is unknown.
    """
    tail, end = _read_tail(source)
    stored = bytes(end[-tail.nbytes :])
    if len(stored) < tail.nbytes:
        stored = bytes(source.read_at(tail.offset, tail.nbytes))
    if len(stored) < tail.nbytes:
        raise TruncatedError(f"index: found {len(stored)} of {tail.nbytes} bytes")
    return unpack_index(stored, tail), stored


def _read_tail(source: ByteSource) -> tuple[IndexTail, Any]:
    """Return the tail of the index, and the last bytes of the file."""
    size = source.size()
    nbytes = min(_REMOTE_TAIL_NBYTES if source.has_latency else _TAIL_NBYTES, size)
    end = source.read_at(size - nbytes, nbytes)
    return IndexTail.unpack(end[-INDEX_TAIL_SIZE:], size), end


def open_member(source: ByteSource, name: str, version: int = -1) -> MemberSource:
    """Return a source for a member of an open archive, which it closes; see `Members.open`."""
    return read_members(source, version).open(name, owns=True)


def window(source: ByteSource, member: Member, *, owns: bool = False) -> MemberSource:
    """Return a source for the file of a member of an archive that was never changed."""
    return MemberSource(source, member.name, (member.offset, member.nbytes), owns=owns)


def other_member(source: ByteSource, name: str) -> MemberSource:
    """Return a source for another member of the archive of a member, in the same state.

    Raises
    ------
    NotFoundError
        No member has this name, or `source` is not a member of an open archive.
    """
    whole = source.whole
    if whole is None:
        raise NotFoundError(f"no array {name!r:.80}: the file is not an archive open for reading")
    if source.node is None:
        return read_members(whole).open(name)
    commit, _, is_held = source.node
    return _members_of(whole, commit, is_held=is_held).open(name)


def label_of(source: ByteSource, name: str) -> str:
    """Return the name of a member for messages."""
    return f"{source.name or 'memory'}::/{name}"


def no_member(name: Any, names: Collection[str], path: str | None) -> NotFoundError:
    """Return the error for a name that no member has."""
    return NotFoundError(f"no array {name!r:.80}; there are: {first_names(names)}").at(path=path)


def first_names(names: Collection[str]) -> str:
    """Return the first names for a message."""
    return ", ".join(map(repr, islice(names, _SHOWN))) + ", ..." * (len(names) > _SHOWN)
