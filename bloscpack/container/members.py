"""Members of an archive: each is a whole file, in a window on the file of the archive.

The index at the end of the archive names them. A window is read by the code that reads a file of
its own. So members of an archive behind a URL share what was fetched, and a fork or another thread
shares nothing that moves.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from ..exceptions import BloscpackError, FormatError, NotFoundError, TruncatedError
from ..format.archiveindex import (
    INDEX_TAIL_SIZE,
    IndexTail,
    Member,
    unpack_archive_header,
    unpack_index,
)
from ..format.header import MAX_HEADER_SIZE
from ..storage.protocol import ByteSource
from ..storage.window import WindowSource

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
            return False
    return True


def read_members(source: ByteSource) -> tuple[dict[str, Member], bytes]:
    """Check the header of an archive, and return what `read_index` does.

    Raises
    ------
    WrongKindError
        The file is of another type.
    FormatError, UnsupportedError
        The file is damaged or of an unknown version.
    """
    unpack_archive_header(source.read_at(0, MAX_HEADER_SIZE))
    try:
        return read_index(source)
    except FormatError as err:
        err.args = (f"{err.args[0]}; {_ADVICE}",)
        raise


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


def open_member(source: ByteSource, name: str) -> WindowSource:
    """Return a source for a member of an open archive, which it closes; see `member_named`."""
    return member_named(name, source, read_members(source)[0], owns=True)


def member_named(
    name: Any, source: ByteSource, members: Mapping[str, Member], *, owns: bool = False
) -> WindowSource:
    """Return a source for a member by its name; with `owns`, closing it closes `source`.

    Raises
    ------
    NotFoundError
        No member has this name.
    """
    member = members.get(name) if isinstance(name, str) else None
    if member is None:
        raise NotFoundError(f"no array {name!r:.80}; there are: {first_names(members)}").at(
            path=source.name
        )
    return window(source, member, owns=owns)


def window(source: ByteSource, member: Member, *, owns: bool = False) -> WindowSource:
    """Return a source for the file of a member; with `owns`, closing it closes `source`."""
    name = f"{source.name or 'memory'}::/{member.name}"
    return WindowSource(source, name, (member.offset, member.nbytes), owns=owns)


def first_names(members: Mapping[str, Member]) -> str:
    """Return the first names for a message."""
    return ", ".join(map(repr, islice(members, _SHOWN))) + ", ..." * (len(members) > _SHOWN)
