"""Recovery of an archive: whole members are copied, and of damaged ones the whole chunks."""

from dataclasses import replace
from typing import IO, Any, cast

from ..container.compact import write_compact
from ..container.reader import Container
from ..damage.recover import recover
from ..damage.report import Damage, Report, message_of
from ..exceptions import BloscpackError, FormatError
from ..storage.protocol import ByteSource
from ..storage.remote.prefetch import copy_to
from ..storage.sink import open_sink
from ..types import Path, Progress
from .verify import Survey, add, scaled, verify_member
from .writer import ArchiveWriter, MemberSink


def recover_archive(
    source: ByteSource,
    dst: Path | IO[bytes],
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write a new archive with the members of a damaged one.

    Without a whole index, members are found by the records in front of them.

    Raises
    ------
    FormatError
        No member can be saved; `dst` is not changed.
    """
    survey = Survey(source)
    state = "valid" if survey.has_index else "damaged"
    notices = [f"{fault.what}; restored from its copy" for fault in survey.faults]
    notices += survey.notices
    report = Report(source.name, 0, 0, survey.losses, state, notices, saved=0)
    total = sum(member.nbytes for member in survey.members)
    done = nsaved = 0
    with open_sink(dst) as sink:
        writer = ArchiveWriter(sink, survey.attrs)
        for member in survey.members:
            note = scaled(progress, done, member, total)
            with writer.member(member.name) as new:
                part = _recover_member(survey, member, new, nthreads, note)
                nsaved += new.nbytes > 0
            done += member.nbytes
            report = add(report, part, member)
        if not nsaved and (survey.members or not survey.has_index):
            raise FormatError("no whole member was found: nothing can be saved")
        writer.finish()
    return report


def _recover_member(
    survey: Survey, member: Any, new: MemberSink, nthreads: int | None, progress: Any
) -> Report:
    """Write what is left of a member to `new`, or nothing."""
    report = verify_member(survey, member, nthreads, progress)
    if report.ok:
        file = survey.open(member)
        if file.node is None:
            copy_to(file, new, str(file.name))
        else:
            write_compact(Container.open(file), new)
        return replace(report, saved=report.nchunks)
    try:
        return recover(survey.open(member), cast(IO[bytes], new), nthreads=nthreads)
    except BloscpackError as err:
        what = f"{message_of(err)}; it is not in the new archive"
        return replace(report, damage=[Damage(what, None, 0, member.nbytes)], saved=0)
