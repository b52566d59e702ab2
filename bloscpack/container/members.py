"""Members of an archive, each read by the code that reads a file of its own.

In an archive that was never changed, a member is a window on the file, or one of the files in a
bundle, which is decoded in memory; the index at the end names it. In a changed one, which is a log,
it is a node. Members of an archive behind a URL share what was fetched, and a fork or another
thread shares nothing that moves.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
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
    Bundle,
    Bundled,
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
from ..storage.window import HEAD_NBYTES as NEIGHBOURS_NBYTES
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
# Decoded bundles of an open archive that are kept in memory, of at most 32 KiB each.
_HELD_BUNDLES = 32
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
            from .logreader import find_arrays
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

    def replacement(self) -> ByteSource | None:
        """Return a source for the member in another file that now has the name."""
        return _found_again(self.whole.replacement(), self._member)


def _found_again(whole: ByteSource | None, name: str) -> ByteSource | None:
    """Return a source for a member in another state of its archive."""
    if whole is None:
        return None
    with closed_on_error(whole, whole.name):
        try:
            return open_member(whole, name)
        except NotFoundError as err:
            raise FileChangedError(f"array {name!r} was deleted or renamed") from err


class BundledSource(MemorySource):
    """Source for a member in a bundle: `file`, its bytes in memory."""

    def __init__(
        self, whole: ByteSource, member: Bundled, file: bytes, *, owns: bool = False
    ) -> None:
        super().__init__(file)
        self.whole: ByteSource = whole
        self.name = label_of(whole, member.name)
        self.origin = None
        if any(whole.stamp):
            self.stamp = member.nbytes, whole.stamp[1]
        self._member = member
        self._file = file
        self._owns = owns

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        """Return a view of the file; raises as the archive does if that is closed."""
        self.whole.size()
        return super().read_at(offset, nbytes)

    def replacement(self) -> ByteSource | None:
        """Return a source for the member in another file that now has the name."""
        return _found_again(self.whole.replacement(), self._member.name)

    def place(self, head_nbytes: int = 0) -> Any:
        """Return what opens the member in another process: of an archive in memory, its bytes."""
        place = self.whole.place()
        if place is None or isinstance(place, bytes):
            return None if place is None else self._file
        is_known = head_nbytes and self.whole.has_latency
        return BundledPlace(
            place, self._member.name, self._member, self._file if is_known else None
        )

    def identity(self) -> str:
        """Return the version of the whole source and the place of the member."""
        version = self.whole.identity()
        return f"{version} {self._member.part.at} {self._member.start}" if version else ""

    def close(self) -> None:
        """Close the archive if it belongs to this source; idempotent."""
        if self._owns:
            self.whole.close()


@dataclass(frozen=True)
class BundledPlace(PartPlace):
    """Description that opens a member in a bundle, with its file if that was fetched already."""

    member: Bundled
    file: bytes | None

    def open(self, whole: ByteSource) -> ByteSource:
        """Return a source for the member."""
        file = self.file
        if file is None:
            file = self.member.file(read_bundle(whole, self.member.part))
        return BundledSource(whole, self.member, file, owns=True)


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

    def reopened(self) -> ByteSource | None:
        """Return a source for the member in the last state of the archive."""
        return _found_again(self.whole.reopened(), self._member)

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

    def open(self, whole: ByteSource) -> ByteSource:
        """Return a source for the array."""
        return open_member(whole, self.name, self.number)


class Members(NamedTuple):
    """Members of an open archive, in one state.

    Attributes
    ----------
    source : ByteSource
        The archive.
    named : mapping of str to Member, Bundled or Node
        The members by name, in order.
    state : bytes
        Bytes that differ between states of the file: its index, or its commit.
    front : ByteSource
        Header and metadata section of the archive, which have its attrs.
    files : callable
        Returns the files in a bundle.
    commit : Commit or None
        The state of a log; None for an archive that was never changed.
    is_held : bool
        Whether no writer can use the space of this state again while the file is open.
    """

    source: ByteSource
    named: Mapping[str, Any]
    state: bytes
    front: ByteSource
    files: Callable[[Bundle], bytes]
    commit: "Commit | None" = None
    is_held: bool = True

    def open(self, name: Any, *, owns: bool = False) -> ByteSource:
        """Return a source for a member; with `owns`, closing it closes the archive.

        Raises
        ------
        NotFoundError
            No member has this name.
        FormatError
            The bundle that has it is damaged.
        """
        source, member = self.source, self.named.get(name) if isinstance(name, str) else None
        if member is None:
            raise no_member(name, self.named, source.name)
        if self.commit is None:
            return source_of(source, member, self.files, owns=owns)
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
    return Members(source, members, index, source, bundles_of(source))


def _read_log_members(source: ByteSource, head: Any, version: int) -> Members:
    with importing:  # on use: few files change
        from .logreader import hold_commit

    unpack_header_of(head, LOG_ARCHIVE, "an archive")
    commit, is_held = hold_commit(source, version=version)
    return _members_of(source, commit, is_held=is_held)


def _members_of(source: ByteSource, commit: "Commit", *, is_held: bool) -> Members:
    with importing:
        from .logreader import arrays_of, read_groups

    front, nodes = arrays_of(node for group in read_groups(source, commit) for node in group)
    files = bundles_of(source)  # none in a log
    return Members(source, nodes, commit.pack(), MemorySource(front), files, commit, is_held)


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


def read_index(source: ByteSource) -> tuple[dict[str, Member | Bundled], bytes]:
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


def open_member(source: ByteSource, name: str, version: int = -1) -> ByteSource:
    """Return a source for a member of an open archive, which it closes; see `Members.open`."""
    return read_members(source, version).open(name, owns=True)


def source_of(
    source: ByteSource,
    member: Member | Bundled,
    files: Callable[[Bundle], bytes],
    *,
    owns: bool = False,
) -> ByteSource:
    """Return a source for a member of an archive that was never changed; see `Members`."""
    if isinstance(member, Bundled):
        return BundledSource(source, member, member.file(files(member.part)), owns=owns)
    return MemberSource(source, member.name, (member.offset, member.nbytes), owns=owns)


def bundles_of(source: ByteSource) -> Callable[[Bundle], bytes]:
    """Return a function that reads bundles of an archive, and holds the last ones in memory."""
    return lru_cache(_HELD_BUNDLES)(partial(read_bundle, source))


def read_bundle(source: ByteSource, bundle: Bundle) -> bytes:
    """Return the files in a bundle.

    Raises
    ------
    FormatError
        It is damaged.
    """
    nbytes = bundle.nbytes
    if not source.holds(bundle.offset, nbytes):
        nbytes = max(nbytes, NEIGHBOURS_NBYTES)
    return bundle.files(source.read_at(bundle.offset, nbytes)[: bundle.nbytes])


def other_member(source: ByteSource, name: str) -> ByteSource:
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
