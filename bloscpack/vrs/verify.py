"""Verification of a recording: read all of it and report the damage.

Every record is read, decompressed and compared with the index. Every block is located and metadata
is decoded; ``decode=True`` decodes images and audio too. One problem does not hide the next. Valid
content that cannot be decoded here, such as a custom codec or an image whose decoder is not
installed, is a notice, not a problem.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..plugin import (
    BloscpackError,
    Damage,
    Findings,
    Progress,
    Report,
    UnsupportedError,
    map_ordered,
    message_of,
    resolve_nthreads,
)
from .read.iteration import batches_of, iter_readable
from .read.record import Block, Record
from .recording import Recording, open_quietly
from .sequence import RecordSequence


@dataclass(frozen=True, slots=True)
class RecordDamage(Damage):
    """Fault of a recording.

    Attributes
    ----------
    record : int or None
        The `record_index`; None if the fault is not in a record.
    stream : str or None
        Id of the record's stream.
    """

    record: int | None = None
    stream: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class RecordingReport(Report):
    """Result of `verify`; `nchunks` counts records that could be read, `nbytes` their payloads.

    Attributes
    ----------
    nblocks : int
        Number of blocks of these records.
    nfaults : int
        Number of faults, of which `damage` lists the first 1000.
    """

    nblocks: int = 0
    nfaults: int = 0


class _Batch(Findings):
    """Findings in a batch of records, and totals of those that could be read."""

    nrecords = nblocks = nbytes = 0


def verify_file(
    source: Any,
    *,
    decode: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> RecordingReport:
    """Open a recording and verify it; see `verify`."""
    with open_quietly(source, nthreads=nthreads) as recording:
        return verify(recording, decode=decode, nthreads=nthreads, progress=progress)


def verify(
    recording: Recording,
    *,
    decode: bool = False,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> RecordingReport:
    """Verify a recording without changing it; images and audio are decoded only with `decode`.

    The faults in the recording's `report` are included. `progress` is called with the stored bytes
    of the verified records and of all records.
    """
    found = _Batch()
    for line in recording.report.lines():
        found.add(RecordDamage(line))
    stored = recording.table.size
    total, done = int(stored.sum(dtype=np.int64)), 0

    def verify_batch(records: RecordSequence) -> tuple[int, _Batch]:
        return int(records.stored_nbytes.sum()), _verify_records(records, decode=decode)

    threads = resolve_nthreads(nthreads, total)
    for nbytes, batch in map_ordered(verify_batch, batches_of(recording), threads):
        found.merge(batch)
        found.nrecords += batch.nrecords
        found.nblocks += batch.nblocks
        found.nbytes += batch.nbytes
        done += nbytes
        if progress is not None:
            progress(done, total)
    return RecordingReport(
        recording.name,
        found.nrecords,
        found.nbytes,
        found.damage,
        notices=found.notices("record"),
        nblocks=found.nblocks,
        nfaults=found.nfaults,
    )


def _verify_records(records: RecordSequence, *, decode: bool) -> _Batch:
    batch = _Batch()
    for place, record in iter_readable(records):
        if isinstance(record, BloscpackError):
            batch.add(unreadable_record(records, place, record))
            continue
        batch.nrecords += 1
        batch.nbytes += len(record.payload)
        try:
            _verify_blocks(record, batch, decode=decode)
        except BloscpackError as err:
            batch.add(record_damage(record, err))
    return batch


def unreadable_record(records: RecordSequence, place: int, err: BloscpackError) -> RecordDamage:
    """Return the damage of the record at a place of a selection, which reading it raised."""
    stream = records[place : place + 1].stream_ids[0]
    return RecordDamage(message_of(err), record=int(records.rows[place]), stream=stream)


def record_damage(record: Record, err: BloscpackError, block: int | None = None) -> RecordDamage:
    """Return the damage of a record or of one of its blocks, which decoding it raised."""
    row, stream, what = record.record_index, record.stream_id, message_of(err)
    if not what.startswith(f"record {row} "):
        where = "" if block is None else f", block {block}"
        what = f"record {row} of stream {stream}{where}: {what}"
    return RecordDamage(what, record=row, stream=stream)


def _verify_blocks(record: Record, batch: _Batch, *, decode: bool) -> None:
    kind = f"stream {record.stream_id}, {record.record_type} version {record.format_version}"
    is_reported = False
    for number, block in enumerate(record.blocks):
        batch.nblocks += 1
        try:
            _verify_block(block, decode=decode)
        except (UnsupportedError, ImportError) as err:
            if block.is_whole:  # otherwise the note of the record reports it
                batch.note(f"{kind}, block {number}: {message_of(err)}")
        except BloscpackError as err:
            is_reported = is_reported or not block.is_whole
            batch.add(record_damage(record, err, number))
    if record.note is not None and not is_reported:
        text = "bytes unread" if record.note.endswith("bytes unread") else record.note
        batch.note(f"{kind}: {text}")


def _verify_block(block: Block, *, decode: bool) -> None:
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
