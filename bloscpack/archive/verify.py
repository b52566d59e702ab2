"""Verification of an archive: front, records and index, and each member as a file of its own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from ..container.log import commits_of, find_arrays
from ..container.members import (
    LOG_ARCHIVE,
    MemberSource,
    NodeSource,
    is_archive_log,
    read_attrs,
    read_index,
    window,
)
from ..container.salvagelog import with_copies
from ..damage.report import Damage, Report, damage_of, message_of
from ..damage.verify import check_log, verify
from ..exceptions import BloscpackError, FormatError, FormatVersionMismatch, WrongKindError
from ..format.archiveindex import (
    MAX_NAME_NBYTES,
    RECORD_MAGIC,
    RECORD_SIZE,
    Member,
    unpack_archive_header,
)
from ..format.header import MAX_HEADER_SIZE, unpack_header_of
from ..format.log import Commit, Node
from ..storage.file import Holes
from ..storage.memory import MemorySource
from ..storage.protocol import ByteSource
from ..types import BytesLike, Progress

# Size of the blocks that are searched for the next record.
_SCAN_NBYTES = 1 << 20


class _LogMember(NamedTuple):
    """Array of a changed archive; see `Member`."""

    name: str
    commit: Commit
    node: Node
    offset: int = 0  # offsets in its file are those in the archive

    @property
    def nbytes(self) -> int:
        """Weight of the array for a progress."""
        return self.node.chunks.nleaves


class Survey:
    """Members of a possibly damaged archive, and the damage outside of their files.

    Attributes
    ----------
    members : list of Member or of array of a log
        Those of the index, or of the records if the index is damaged; of a file that was cut off,
        the last one may be shorter than its record says.
    attrs : dict
        Attrs of the archive; empty if they are lost.
    faults : list of Damage
        Damage that loses nothing, as there is a copy: to the header and to records.
    losses : list of Damage
        Damage by which attrs or members may be lost: to the metadata, and to the index.
    notices : list of str
        Facts about a log.
    has_index : bool
        Whether the index, or the last commit, is intact.
    """

    members: list[Any]

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._holes = Holes(source)
        self._block = 0, b""  # start and bytes of the block searched last
        self.faults: list[Damage] = []
        self.losses: list[Damage] = []
        self.notices: list[str] = []
        self.attrs: dict[str, object] = {}
        if is_archive_log(source, source.read_at(0, MAX_HEADER_SIZE)):
            self._read_log()
            return
        end = self._read_front()
        self.has_index = True
        try:
            found, index = read_index(source)
        except FormatError as err:
            self.has_index = False
            self.members = self._find_members(end or MAX_HEADER_SIZE)
            last = max([end or 0, *(member.end for member in self.members)])
            self.losses.append(damage_of(err, None, min(last, source.size()), source.size()))
            return
        self.members = list(found.values())
        self._compare_records(index)
        first = self.members[0].at if self.members else source.size() - len(index)
        if end is not None and end != first:
            self.losses.append(Damage("the metadata end at a wrong offset", None, end, first))

    def open(self, member: Any) -> MemberSource:
        """Return a source for a member."""
        if isinstance(member, Member):
            return window(self._source, member)
        return NodeSource(self._source, *member[1:3], is_held=False, owns=False)

    def _read_log(self) -> None:
        """Find the arrays of a log."""
        self._check_header(lambda head: unpack_header_of(head, LOG_ARCHIVE, "an archive"))
        source, faults = with_copies(self._source)
        self._source = source
        self.faults += [Damage(what, None, start, end) for what, start, end in faults]
        found = find_arrays(source)
        self.members = [_LogMember(name, *place) for name, place in found.named.items()]
        self.losses += [Damage(what, None, start, end) for what, start, end in found.losses]
        self.has_index = not self.losses
        commits = commits_of(source).commits
        if commits and self.has_index:
            damage, self.notices = check_log(source, commits[0])
            self.losses += damage
        if found.front is not None:
            self._read_attrs(MemorySource(found.front))

    def _check_header(self, check: Callable[[BytesLike], object]) -> None:
        try:
            check(self._source.read_at(0, MAX_HEADER_SIZE))
        except (FormatError, FormatVersionMismatch, WrongKindError) as err:
            self.faults.append(Damage(message_of(err), None, 0, MAX_HEADER_SIZE))

    def _read_front(self) -> int | None:
        """Read the front and return its end; None if it is not known."""
        self._check_header(unpack_archive_header)
        return self._read_attrs(self._source)

    def _read_attrs(self, front: ByteSource) -> int | None:
        """Read the attrs and return the end of the metadata section; None if it is damaged."""
        try:
            self.attrs, end = read_attrs(front)
        except BloscpackError as err:
            self.losses.append(
                Damage(f"{message_of(err)}; the attrs are lost", None, MAX_HEADER_SIZE)
            )
            return None
        return end

    def _compare_records(self, index: bytes) -> None:
        """Compare each record with its copy in the index."""
        position = 0
        for member in self.members:
            nbytes = member.offset - member.at
            copy, position = index[position : position + nbytes], position + nbytes
            if self._source.read_at(member.at, nbytes) != copy:
                what = f"member {member.name!r}: the record before it is damaged"
                self.faults.append(Damage(what, None, member.at, member.offset, member=member.name))

    def _find_members(self, position: int) -> list[Member]:
        """Return the members by the records before them, without the index."""
        size = self._source.size()
        members: dict[str, Member] = {}
        gap = None
        while position < size:
            found = self._record_at(position)
            if found is None or found.name in members:
                gap = position if gap is None else gap
                position = self._next_magic(position + 1)
                continue
            if gap is not None:
                self.losses.append(Damage("no record of a member", None, gap, position))
                gap = None
            stop = min(found.end, size)
            members[found.name] = found._replace(nbytes=max(stop - found.offset, 0))
            position = max(stop, found.offset)
        return list(members.values())

    def _record_at(self, position: int) -> Member | None:
        """Return the record at a position; the index has copies of it at other positions."""
        head = self._source.read_at(position, RECORD_SIZE + MAX_NAME_NBYTES)
        try:
            found = Member.unpack(head)
        except FormatError:
            return None
        return found if found.at == position else None

    def _next_magic(self, position: int) -> int:
        """Return the next position of what may be a record, or the end."""
        size, rest = self._source.size(), len(RECORD_MAGIC) - 1
        while position < size:
            start, block = self._block
            if not start <= position < start + len(block) - rest:
                start = self._holes.data_from(position)  # the magic has no zero bytes of a hole
                block = bytes(self._source.read_at(start, _SCAN_NBYTES + rest))
                self._block = start, block
            at = block.find(RECORD_MAGIC, max(position - start, 0))
            if at >= 0:
                return start + at
            position = start + max(len(block) - rest, 1)
        return size


def verify_archive(
    source: ByteSource, *, nthreads: int | None = None, progress: Progress | None = None
) -> Report:
    """Verify an archive and each of its members.

    Parameters
    ----------
    source : ByteSource
        The file, which is only read.
    nthreads : int, optional
        Threads that decode; by default one per processor, at most 8.
    progress : callable, optional
        Called with (stored bytes done, stored bytes in all).

    Returns
    -------
    Report
        Damage names the member; offsets are those in the archive, and decoded bytes those of the
        member. `nchunks` and `nbytes` are sums.
    """
    survey = Survey(source)
    state = "valid" if survey.has_index else "damaged"
    damage = [*survey.faults, *survey.losses]
    report = Report(source.name, 0, 0, damage, state, survey.notices)
    total = sum(member.nbytes for member in survey.members)
    done = 0
    for member in survey.members:
        note = scaled(progress, done, member, total)
        part = verify_member(survey.open(member), nthreads, note)
        done += member.nbytes
        report = add(report, part, member)
    return report


def verify_member(file: MemberSource, nthreads: int | None, progress: Progress | None) -> Report:
    """Verify the file of a member."""
    try:
        return verify(file, nthreads=nthreads, progress=progress)
    except BloscpackError as err:
        return Report(None, 0, 0, [damage_of(err)])


def add(report: Report, part: Report, member: Any) -> Report:
    """Return the report of an archive with that of a member."""
    place = f" at offset {member.offset}" if member.offset else ""
    lead = f"member {member.name!r}{place}: "
    damage = [
        replace(
            each,
            what=lead + each.what,
            offset=None if each.offset is None else each.offset + member.offset,
            end=None if each.end is None else each.end + member.offset,
            member=member.name,
        )
        for each in part.damage
    ]
    return replace(
        report,
        nchunks=report.nchunks + part.nchunks,
        nbytes=report.nbytes + part.nbytes,
        damage=[*report.damage, *damage],
        notices=[*report.notices, *(lead + each for each in part.notices)],
        saved=None if part.saved is None else (report.saved or 0) + part.saved,
    )


def scaled(
    progress: Progress | None, start: int, member: Any, total: int
) -> Callable[[int, int], object] | None:
    """Return the callback for a member, which counts its part of the stored bytes of all."""
    if progress is None:
        return None
    return lambda done, of: progress(start + member.nbytes * done // max(of, 1), total)
