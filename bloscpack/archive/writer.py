"""Writer of an archive: members front to back, then the index.

Each member is written straight to its place. If it is written in pieces, its size is known only at
its end, so that its record is written twice.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..format.archiveindex import Member, check_name, pack_archive_front, pack_index
from ..storage.protocol import ByteSink
from ..types import BytesLike


class ArchiveWriter:
    """Writer of an archive to a sink, which the caller commits after `finish`.

    Parameters
    ----------
    sink : ByteSink
        Empty sink.
    attrs : mapping
        JSON values to store with the archive.

    Raises
    ------
    TypeError, ValueError
        `attrs` are not JSON values.
    """

    def __init__(self, sink: ByteSink, attrs: Mapping[str, Any]) -> None:
        self._sink = sink
        front = pack_archive_front(attrs)
        sink.write(front)
        self._end = len(front)
        self._members: dict[str, Member] = {}

    def __contains__(self, name: object) -> bool:
        """Return whether a member has this name."""
        return name in self._members

    @contextmanager
    def member(self, name: Any) -> Iterator["MemberSink"]:
        """Yield a sink for the file of the next member; if nothing is written, there is none.

        Raises
        ------
        TypeError, ValueError
            The name is not text, too long, or that of another member.
        """
        name = check_name(name)
        if name in self._members:
            raise ValueError(f"two arrays have the name {name!r:.80}")
        sink = MemberSink(self._sink, Member(name, self._end, 0))
        yield sink
        if sink.nbytes:
            self._members[name] = member = sink.finish()
            self._end = member.end

    def finish(self) -> None:
        """Write the index."""
        self._sink.write(pack_index(self._members.values(), self._end))


class MemberSink:
    """Sink for the file of a member, at its place in the archive; also a stream for `recover`.

    Attributes
    ----------
    nbytes : int
        Bytes written so far.
    """

    name: str | None = None

    def __init__(self, sink: ByteSink, member: Member) -> None:
        self._sink = sink
        self._member = member
        self._first = b""  # the first piece, until there is another one
        self._is_begun = False
        self.nbytes = 0

    def write(self, data: BytesLike) -> int:
        """Append `data`."""
        if not self.nbytes and type(data) is bytes:
            self._first = data
        else:
            self._begin()
            self._sink.write(data)
        self.nbytes += len(data)
        return len(data)

    def _begin(self) -> None:
        """Write the record, without the size, and the first piece."""
        if not self._is_begun:
            self._is_begun = True
            self._sink.write(self._member.pack() + self._first)

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes that were written earlier."""
        self._begin()
        self._sink.write_at(self._member.offset + offset, data)

    def finish(self) -> Member:
        """Write the record with the size, and return it."""
        member = self._member._replace(nbytes=self.nbytes)
        if self._is_begun:
            self._sink.write_at(member.at, member.pack())
        else:
            self._sink.write(member.pack() + self._first)
        return member

    def flush(self) -> None:
        """Do nothing, as the archive is committed as a whole."""

    def commit(self) -> None:
        """Do nothing, as the archive is committed as a whole."""

    def abort(self) -> None:
        """Do nothing, as the archive is committed as a whole."""
