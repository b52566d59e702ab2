"""Recovery of a recording: a new one of all records that can be read.

Records are found by their headers, so the index need not be intact. If that leaves gaps, and more
records can be read by the index, these are taken. Payloads are copied in their stored form. A
record whose blocks cannot be decoded is copied, as its bytes are whole.
"""

import os
from contextlib import ExitStack
from typing import Any

import numpy as np

from ..plugin import (
    BloscpackError,
    Findings,
    FormatError,
    Progress,
    Report,
    map_ordered,
    resolve_nthreads,
)
from .edit.copying import copy
from .read.iteration import batches_of, iter_readable
from .recording import Recording, open_quietly
from .sequence import Selection
from .verify import RecordDamage, unreadable_record


def recover_recording(
    source: Any,
    dst: str | os.PathLike[str],
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write a new recording with every whole record of a damaged one, which is only read.

    In the report, `nchunks` counts the records that were found, and `saved` those of the copy.

    Raises
    ------
    FormatError
        No record can be saved; `dst` is not changed.
    TypeError
        `dst` is not a path.
    """
    if not isinstance(dst, str | os.PathLike):
        raise TypeError("a recording is written to the path of a file, not to a stream")
    with ExitStack() as stack:
        opened = open_quietly(source, index="rebuild", nthreads=nthreads)
        recording = stack.enter_context(opened)
        whole, found = _whole_rows(recording, nthreads)
        if recording.report.gaps:
            indexed = stack.enter_context(open_quietly(source, nthreads=nthreads))
            if indexed.report.index_fault is None:
                rows, others = _whole_rows(indexed, nthreads)
                if len(rows) > len(whole):
                    recording, whole, found = indexed, rows, others
        nbytes = int(recording.table.size.sum(dtype=np.int64))
        if not whole and (len(recording) or found.nfaults):
            raise FormatError("no whole record was found: nothing can be saved")
        chosen = Selection(recording._content, np.array(whole, np.int64))
        streams = recording.table.streams  # also those of which no record is left
        copy(chosen, dst, streams=streams, overwrite=True, nthreads=nthreads, progress=progress)
        return found.report("record", recording.name, len(recording), nbytes, saved=len(whole))


def _whole_rows(recording: Recording, nthreads: int | None) -> tuple[list[int], Findings]:
    """Return the rows of the records whose payloads can be read, and what is lost."""
    found = Findings()
    for line in recording.report._losses():
        found.add(RecordDamage(line))

    def read(records: Selection) -> tuple[list[int], list[RecordDamage]]:
        whole, lost = [], []
        for place, record in iter_readable(records):
            if isinstance(record, BloscpackError):
                lost.append(unreadable_record(records, place, record))
            else:
                whole.append(int(records.rows[place]))
        return whole, lost

    nbytes = int(recording.table.size.sum(dtype=np.int64))
    whole: list[int] = []
    for rows, lost in map_ordered(read, batches_of(recording), resolve_nthreads(nthreads, nbytes)):
        whole += rows
        for damage in lost:
            found.add(damage)
    return whole, found
