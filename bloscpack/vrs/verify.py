"""Verification of a recording: read all of it and report the damage.

Every record is read, decompressed and compared with the index. Every block is located and metadata
is decoded; ``decode=True`` decodes images and audio too. One problem does not hide the next. Valid
content that cannot be decoded here, such as a custom codec or an image whose decoder is not
installed, is a notice, not a problem.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..exceptions import BloscpackError, UnsupportedError
from ..parallel.threads import map_ordered, resolve_nthreads
from ..types import IntArray
from .read.iteration import batches_of, iter_readable
from .read.record import Block, Record
from .recording import Recording

# Problems that a report lists one by one; the rest are only counted.
MAX_PROBLEMS = 1000
# Notices quote codec names, which come from the file and may be long.
_MAX_TEXT = 400

Progress = Callable[[int, int], None]


class Problem(NamedTuple):
    """Problem found in a recording.

    Attributes
    ----------
    record : int or None
        The `record_index`; None if the problem is not in a record.
    stream : str or None
        Id of the record's stream.
    message : str
        Description of the problem; names the record.
    """

    record: int | None
    stream: str | None
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(slots=True)
class CheckReport:
    """Result of `check_recording`.

    Attributes
    ----------
    nrecords, nblocks : int
        Number of records that could be read, and of their blocks.
    nbytes : int
        Bytes of their payloads, decompressed.
    nproblems : int
        Number of problems.
    problems : list of Problem
        The first `MAX_PROBLEMS` problems.
    notices : list of str
        Remarks that are not errors.
    """

    nrecords: int = 0
    nblocks: int = 0
    nbytes: int = 0
    nproblems: int = 0
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.nproblems


@dataclass(slots=True)
class _Batch:
    """Result for one batch of records."""

    stored: int
    nrecords: int = 0
    nblocks: int = 0
    nbytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    notices: Counter[str] = field(default_factory=Counter)


def check_recording(
    recording: Recording,
    *,
    decode: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> CheckReport:
    """Verify a recording without changing it.

    Parameters
    ----------
    recording : Recording
        The recording; the problems in its `report` are included.
    decode : bool
        Decode images and audio too.
    nthreads : int, optional
        Number of threads that read and decode.
    progress : callable, optional
        Called with the stored bytes of the verified records and of all records.

    Returns
    -------
    CheckReport
        Problems, notices and totals.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    report = CheckReport()
    for line in recording.report.lines():
        _note(report, Problem(None, None, line))
    total = int(recording.table.size.sum(dtype=np.int64))
    notices: Counter[str] = Counter()
    done = 0

    def check(rows: IntArray) -> _Batch:
        return _check_rows(recording, rows, decode=decode)

    threads = resolve_nthreads(nthreads, total)
    for batch in map_ordered(check, batches_of(recording), threads):
        report.nrecords += batch.nrecords
        report.nblocks += batch.nblocks
        report.nbytes += batch.nbytes
        for problem in batch.problems:
            _note(report, problem)
        notices += batch.notices
        done += batch.stored
        if progress is not None:
            progress(done, total)
    report.notices = [
        f"{text} ({count} record{'' if count == 1 else 's'})" for text, count in notices.items()
    ]
    return report


def _note(report: CheckReport, problem: Problem) -> None:
    report.nproblems += 1
    if len(report.problems) < MAX_PROBLEMS:
        report.problems.append(problem)


def _check_rows(recording: Recording, rows: IntArray, *, decode: bool) -> _Batch:
    selection = recording[int(rows[0]) : int(rows[-1]) + 1]
    batch = _Batch(int(selection.stored_nbytes.sum()))
    for place, record in iter_readable(selection):
        if isinstance(record, BloscpackError):
            stream = selection[place : place + 1].stream_ids[0]
            batch.problems.append(Problem(int(rows[place]), stream, str(record.args[0])))
            continue
        batch.nrecords += 1
        batch.nbytes += len(record.payload)
        try:
            _check_blocks(record, batch, decode=decode)
        except BloscpackError as err:
            batch.problems.append(_problem(record, str(err.args[0])))
    return batch


def _problem(record: Record, message: str) -> Problem:
    name = f"record {record.record_index} of stream {record.stream_id}"
    text = message if message.startswith(name) else f"{name}: {message}"
    return Problem(record.record_index, record.stream_id, text)


def _check_blocks(record: Record, batch: _Batch, *, decode: bool) -> None:
    kind = f"stream {record.stream_id}, {record.record_type} version {record.format_version}"
    name = f"record {record.record_index} "
    is_reported = False
    for number, block in enumerate(record.blocks):
        batch.nblocks += 1
        try:
            _check_block(block, decode=decode)
        except (UnsupportedError, ImportError) as err:
            if block.is_whole:  # otherwise the note of the record reports it
                batch.notices[f"{kind}, block {number}: {err.args[0]}"[:_MAX_TEXT]] += 1
        except BloscpackError as err:
            is_reported = is_reported or not block.is_whole
            text = str(err.args[0])
            text = text if text.startswith(name) else f"block {number}: {text}"
            batch.problems.append(_problem(record, text))
    if record.note is not None and not is_reported:
        text = "bytes unread" if record.note.endswith("bytes unread") else record.note
        batch.notices[f"{kind}: {text}"[:_MAX_TEXT]] += 1


def _check_block(block: Block, *, decode: bool) -> None:
    """Raise if a block is incomplete or its content does not decode."""
    if block.kind == "metadata":
        block.values()
    elif block.kind == "unsupported":
        block.data  # noqa: B018 - raises if bytes are missing
        raise UnsupportedError("an unsupported block: its format is incomplete")
    elif decode:
        block.array()
    else:
        block.data  # noqa: B018
