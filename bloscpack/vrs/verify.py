"""Reading everything that a recording has, to find what is damaged.

Every record is read, decompressed and compared with the index; every block is found, metadata is
decoded, and with ``decode=True`` every image too. One problem does not hide the next. What is valid
but cannot be decoded here, as a custom codec, is a notice and no problem; so is an image whose
decoder is not installed.
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

# So many problems are told one by one.
MAX_PROBLEMS = 1000
# Names of codecs come from the file.
_MAX_TEXT = 400

Progress = Callable[[int, int], None]


class Problem(NamedTuple):
    """Something that is wrong.

    Attributes
    ----------
    record : int or None
        The `record_index`; None if it is not a record's.
    stream : str or None
        The id of its stream.
    message : str
        What is wrong; it names the record.
    """

    record: int | None
    stream: str | None
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(slots=True)
class CheckReport:
    """What was found.

    Attributes
    ----------
    nrecords, nblocks : int
        How many there are, in what could be read.
    nbytes : int
        Of their payloads, decompressed.
    nproblems : int
        How many there are.
    problems : list of Problem
        What is wrong, the first `MAX_PROBLEMS`.
    notices : list of str
        What is not, but should be known.
    """

    nrecords: int = 0
    nblocks: int = 0
    nbytes: int = 0
    nproblems: int = 0
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.nproblems


@dataclass(slots=True)
class _Batch:
    """What was found in some records."""

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
    """Look for damage in a recording; nothing is changed.

    Parameters
    ----------
    recording : Recording
        What was found on opening, its `report`, counts as well.
    decode : bool
        Decode images and audio too.
    nthreads : int, optional
        Threads that read and decode.
    progress : callable, optional
        Called with the stored bytes of records that were checked, and of all.

    Returns
    -------
    CheckReport
        What is wrong.

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
    is_told = False
    for number, block in enumerate(record.blocks):
        batch.nblocks += 1
        try:
            _check_block(block, decode=decode)
        except (UnsupportedError, ImportError) as err:
            if block.is_whole:  # else the note of the record says it
                batch.notices[f"{kind}, block {number}: {err.args[0]}"[:_MAX_TEXT]] += 1
        except BloscpackError as err:
            is_told = is_told or not block.is_whole
            text = str(err.args[0])
            text = text if text.startswith(name) else f"block {number}: {text}"
            batch.problems.append(_problem(record, text))
    if record.note is not None and not is_told:
        text = "bytes unread" if record.note.endswith("bytes unread") else record.note
        batch.notices[f"{kind}: {text}"[:_MAX_TEXT]] += 1


def _check_block(block: Block, *, decode: bool) -> None:
    """Raise if a block is not whole, or its content does not decode."""
    if block.kind == "metadata":
        block.values()
    elif block.kind == "unsupported":
        block.data  # noqa: B018 - raises if it is not there
        raise UnsupportedError("an unsupported block: its format says too little")
    elif decode:
        block.array()
    else:
        block.data  # noqa: B018
