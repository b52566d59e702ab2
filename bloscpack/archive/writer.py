"""Writer of an archive: members front to back, then the index.

Small members are held until enough of them follow one another to be a bundle. Any other is written
straight to its place. If it is written in pieces, its size is known only at its end, so that its
record is written twice.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..format.archiveindex import (
    MAX_BUNDLE_NBYTES,
    MAX_ROWS_NBYTES,
    Bundle,
    Member,
    check_name,
    pack_archive_front,
    pack_bundle,
    pack_index,
    row_nbytes,
)
from ..storage.protocol import ByteSink
from ..types import BytesLike

# Largest file in a bundle.
_SMALL_NBYTES = 4096
# Fewer members are parts of their own, so that each can be read by itself, also by references.
_LEAST_MEMBERS = 8


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
        self.sink = sink
        front = pack_archive_front(attrs)
        sink.write(front)
        self._end = len(front)
        self._names: set[str] = set()
        self._parts: list[Member | Bundle] = []
        self._held: dict[str, bytes] = {}  # files of small members
        self._held_nbytes = self._rows_nbytes = 0

    def __contains__(self, name: object) -> bool:
        """Return whether a member has this name."""
        return name in self._names

    @contextmanager
    def member(self, name: Any) -> Iterator["MemberSink"]:
        """Yield a sink for the file of the next member; if nothing is written, there is none.

        Raises
        ------
        TypeError, ValueError
            The name is not text, too long, or that of another member.
        """
        name = check_name(name)
        if name in self._names:
            raise ValueError(f"two arrays have the name {name!r:.80}")
        sink = MemberSink(self, name)
        yield sink
        if sink.nbytes:
            sink.finish()
            self._names.add(name)

    def finish(self) -> None:
        """Write the index."""
        self.write_held()
        self.sink.write(pack_index(self._parts, self._end))

    def hold(self, name: str, file: bytes) -> None:
        """Add a small member, which is written with the next ones."""
        nbytes, row = len(file), row_nbytes(name)
        if (
            self._held_nbytes + nbytes > MAX_BUNDLE_NBYTES
            or self._rows_nbytes + row > MAX_ROWS_NBYTES
        ):
            self.write_held()
        self._held[name] = file
        self._held_nbytes += nbytes
        self._rows_nbytes += row

    def write_held(self) -> None:
        """Write the members that are held: a bundle, or each by itself."""
        held, self._held, self._held_nbytes, self._rows_nbytes = self._held, {}, 0, 0
        if len(held) >= _LEAST_MEMBERS:
            bundle, chunk = pack_bundle(self._end, held)
            self._add(bundle, chunk)
        else:
            for name, file in held.items():
                self._add(Member(name, self._end, len(file)), file)

    def write_whole(self, name: str, file: bytes) -> None:
        """Write a member at once."""
        self.write_held()
        self._add(Member(name, self._end, len(file)), file)

    def _add(self, part: Member | Bundle, content: bytes) -> None:
        self.sink.write(part.pack() + content)
        self.note(part)

    def begin(self, name: str, first: bytes) -> Member:
        """Write the record of a member, without its size, and its first bytes."""
        self.write_held()
        member = Member(name, self._end, 0)
        self.sink.write(member.pack() + first)
        return member

    def note(self, part: Member | Bundle) -> None:
        """Note a part that has been written."""
        self._parts.append(part)
        self._end = part.end


class MemberSink:
    """Sink for the file of a member of an archive; also a stream for `recover`.

    Attributes
    ----------
    nbytes : int
        Bytes written so far.
    """

    name: str | None = None

    def __init__(self, archive: ArchiveWriter, member: str) -> None:
        self._archive = archive
        self._name = member
        self._first = b""  # until it is neither small nor in one piece
        self._member: Member | None = None  # from then on
        self.nbytes = 0

    def write(self, data: BytesLike) -> int:
        """Append `data`."""
        is_small = self.nbytes + len(data) <= _SMALL_NBYTES
        if self._member is None and (is_small or (not self.nbytes and type(data) is bytes)):
            self._first = bytes(data) if not self.nbytes else self._first + data
        else:
            self._begin()
            self._archive.sink.write(data)
        self.nbytes += len(data)
        return len(data)

    def _begin(self) -> Member:
        """Write the record, without the size, and the first piece."""
        if self._member is None:
            self._member = self._archive.begin(self._name, self._first)
        return self._member

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes that were written earlier."""
        if self._member is None and self.nbytes <= _SMALL_NBYTES:
            self._first = self._first[:offset] + data + self._first[offset + len(data) :]
        else:
            self._archive.sink.write_at(self._begin().offset + offset, data)

    def finish(self) -> None:
        """Write the record with the size, or everything if nothing is written yet."""
        if self._member is not None:
            member = self._member._replace(nbytes=self.nbytes)
            self._archive.sink.write_at(member.at, member.pack())
            self._archive.note(member)
        elif self.nbytes <= _SMALL_NBYTES:
            self._archive.hold(self._name, self._first)
        else:
            self._archive.write_whole(self._name, self._first)

    def flush(self) -> None:
        """Do nothing, as the archive is committed as a whole."""

    def commit(self) -> None:
        """Do nothing, as the archive is committed as a whole."""

    def abort(self) -> None:
        """Do nothing, as the archive is committed as a whole."""
