"""Verification of an archive: front, records and index, and each member as a file of its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..container.logreader import commits_of, find_arrays
from ..container.members import (
    LOG_ARCHIVE,
    NodeSource,
    bundles_of,
    first_names,
    is_archive_log,
    read_attrs,
    read_index,
    source_of,
)
from ..container.salvagelog import with_copies
from ..damage.report import Damage, Report, damage_of, message_of
from ..damage.verify import check_log, verify
from ..exceptions import (
    BloscpackError,
    FormatError,
    FormatVersionMismatch,
    UnsupportedError,
    WrongKindError,
)
from ..format.archiveindex import (
    MAX_NAME_NBYTES,
    RECORD_MAGIC,
    RECORD_SIZE,
    Bundle,
    Bundled,
    Member,
    unpack_archive_header,
    unpack_record,
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
    members : list of Member, Bundled or of array of a log
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
        self._files = bundles_of(source)
        self._holes = Holes(source)
        self._block = 0, b""  # start and bytes of the block searched last
        self.faults: list[Damage] = []
        self.losses: list[Damage] = []
        self.notices: list[str] = []
        self.attrs: dict[str, object] = {}
        if is_archive_log(source, source.read_at(0, MAX_HEADER_SIZE)):
            self._read_log()
            return
        self._check_header(unpack_archive_header)
        end = self._read_attrs(self._source)
        self.has_index = True
        try:
            found, index = read_index(source)
        except FormatError as err:
            self.has_index = False
            self.members = self._find_members(end or MAX_HEADER_SIZE)
            last = max([end or 0, *(member.part.end for member in self.members)])
            self.losses.append(damage_of(err, None, min(last, source.size()), source.size()))
            return
        self.members = list(found.values())
        self._compare_records(index)
        first = self.members[0].part.at if self.members else source.size() - len(index)
        if end is not None and end != first:
            self.losses.append(Damage("the metadata end at a wrong offset", None, end, first))

    def open(self, member: Any) -> ByteSource:
        """Return a source for a member; raises FormatError if its bundle is damaged."""
        if isinstance(member, Member | Bundled):
            return source_of(self._source, member, self._files)
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
        for part in dict.fromkeys(member.part for member in self.members):
            nbytes = part.offset - part.at
            copy, position = index[position : position + nbytes], position + nbytes
            if self._source.read_at(part.at, nbytes) == copy:
                continue
            names = [member.name for member in part.members()]
            member = names[0] if isinstance(part, Member) else None
            if self._is_of_another(part.at):
                what = f"{_named(names)}: the content of others is in its place"
                self.losses.append(Damage(what, None, part.at, part.end, member=member))
                self.members = [each for each in self.members if each.part != part]
            else:
                what = f"{_named(names)}: the record before it is damaged"
                self.faults.append(Damage(what, None, part.at, part.offset, member=member))

    def _is_of_another(self, position: int) -> bool:
        """Return whether there is a whole record at a position, but that of another one."""
        head = self._source.read_at(position, RECORD_SIZE + MAX_NAME_NBYTES)
        try:
            return unpack_record(head).at != position
        except (FormatError, UnsupportedError):
            return False

    def _find_members(self, position: int) -> list[Member | Bundled]:
        """Return the members by the records before them, without the index."""
        size = self._source.size()
        members: dict[str, Member | Bundled] = {}
        gap = None
        while position < size:
            found, inside = self._record_at(position)
            if found is None or any(member.name in members for member in inside):
                gap = position if gap is None else gap
                position = self._next_magic(position + 1)
                continue
            if gap is not None:
                self.losses.append(Damage("no record of a member", None, gap, position))
                gap = None
            stop = min(found.end, size)
            if isinstance(found, Member):
                inside = [found._replace(nbytes=max(stop - found.offset, 0))]
            members |= {member.name: member for member in inside}
            position = max(stop, found.offset)
        return list(members.values())

    def _record_at(self, position: int) -> tuple[Member | Bundle | None, Sequence[Any]]:
        """Return the part at a position, and its members.

        The index has copies of its record at other positions.
        """
        head = self._source.read_at(position, RECORD_SIZE + MAX_NAME_NBYTES)
        try:
            found = unpack_record(head)
            return (found, found.members()) if found.at == position else (None, ())
        except (FormatError, UnsupportedError):
            return None, ()

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
        part = verify_member(survey, member, nthreads, note)
        done += member.nbytes
        report = add(report, part, member)
    return report


def verify_member(
    survey: Survey, member: Any, nthreads: int | None, progress: Progress | None
) -> Report:
    """Verify the file of a member."""
    try:
        return verify(survey.open(member), nthreads=nthreads, progress=progress)
    except BloscpackError as err:
        return Report(None, 0, 0, [damage_of(err)])


def add(report: Report, part: Report, member: Any) -> Report:
    """Return the report of an archive with that of a member."""
    if isinstance(member, Bundled):
        bundle = member.part
        lead = f"member {member.name!r} in the bundle at offset {bundle.at}: "
        damage = [replace(each, offset=bundle.offset, end=bundle.end) for each in part.damage]
    else:
        lead = (
            f"member {member.name!r}" + f" at offset {member.offset}" * bool(member.offset) + ": "
        )
        damage = [
            replace(
                each,
                offset=None if each.offset is None else each.offset + member.offset,
                end=None if each.end is None else each.end + member.offset,
            )
            for each in part.damage
        ]
    damage = [replace(each, what=lead + each.what, member=member.name) for each in damage]
    return replace(
        report,
        nchunks=report.nchunks + part.nchunks,
        nbytes=report.nbytes + part.nbytes,
        damage=[*report.damage, *damage],
        notices=[*report.notices, *(lead + each for each in part.notices)],
        saved=None if part.saved is None else (report.saved or 0) + part.saved,
    )


def _named(names: Sequence[str]) -> str:
    """Return the names of members in a part, for messages."""
    return f"member{'s' * (len(names) > 1)} {first_names(names)}"


def scaled(
    progress: Progress | None, start: int, member: Any, total: int
) -> Callable[[int, int], object] | None:
    """Return the callback for a member, which counts its part of the stored bytes of all."""
    if progress is None:
        return None
    return lambda done, of: progress(start + member.nbytes * done // max(of, 1), total)
