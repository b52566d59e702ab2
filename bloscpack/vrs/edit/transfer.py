"""Writing records of existing recordings to a new one, as stored or recompressed.

A `Plan` lists the records to write, their sources, order, ids and tags. The new recording is
written under a temporary name and made durable, and renamed at the end, so that it appears only
when it is complete.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias, TypedDict

import numpy as np

from ...plugin import (
    IntArray,
    Progress,
    ProgressOption,
    as_progress,
    check_absent,
    check_regular,
    disk,
    make_like,
    map_ordered,
    refuse_url_as_target,
    resolve_nthreads,
    temporary_path,
)
from ..format.compression import StoredPayload, check_preset, stored_payload
from ..format.description import Description, pack_description
from ..format.format import RECORD_HEADER_SIZE, StreamId
from ..format.indexrecord import index_nbytes
from ..format.recordindex import INDEX_ENTRY, ZSTD_LEVEL, Entries, classic_nbytes
from ..read.content import Content, files_of
from ..read.filesource import chunk_path
from ..read.iteration import batches_by_size
from ..read.recordreader import EncodedRecord
from ..write.recordfile import MAX_RECORD_NBYTES, RecordFile, refuse_present
from ..write.writer import new_creation_id

# Bytes between two calls of `progress`.
_PROGRESS_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Share:
    """Records that a plan takes from one recording."""

    content: Content  # the source recording
    rows: IntArray  # int64: records to copy, in writing order
    ids: list[StreamId]  # ids in the new recording, by stream ordinal of the source


@dataclass(frozen=True, slots=True)
class Plan:
    """Content of a new recording."""

    shares: list[Share]  # sources of the records
    order: IntArray  # int64: share of each record, in writing order
    stream_ids: list[StreamId]
    description: Description  # tags of the file and the streams

    def entries(self) -> Entries:
        """Return the index of the new recording for payloads in their stored form."""
        entries = np.empty(len(self.order), INDEX_ENTRY)
        for number, share in enumerate(self.shares):
            table, places = share.content.table, self.order == number
            part = np.empty(len(share.rows), INDEX_ENTRY)
            ids = np.array(share.ids, np.int64).reshape(-1, 2)[table.stream[share.rows]]
            part["timestamp"] = table.timestamp[share.rows]
            part["size"] = table.size[share.rows]
            part["record_type"] = table.record_type[share.rows]
            part["type_id"], part["instance_id"] = ids[:, 0], ids[:, 1]
            entries[places] = part
        return entries

    def records(self) -> Iterator[tuple[Share, EncodedRecord]]:
        """Yield all records in order, with read-ahead in each source."""
        readers = [share.content.reader.iter_encoded(share.rows) for share in self.shares]
        for number, run in groupby(self.order.tolist()):
            share, reader = self.shares[number], readers[number]
            for _ in run:
                yield share, next(reader)


class OutputOptions(TypedDict, total=False):
    """Options of the new recording, as `copy` documents them."""

    compression: str | None
    index: Literal["front", "end"]
    chunk_nbytes: int | None
    overwrite: bool
    nthreads: int | None
    progress: ProgressOption


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a plan is written: all options.

    ValueError for an unknown or impossible one.
    """

    compression: str | None = None
    index: str = "front"
    chunk_nbytes: int | None = None
    overwrite: bool = False
    nthreads: int | None = None
    progress: ProgressOption = None

    def __post_init__(self) -> None:
        if self.compression is not None:
            check_preset(self.compression)
        if self.index not in ("front", "end"):
            raise ValueError(f"index {self.index!r}: expected 'front' or 'end'")
        if self.chunk_nbytes is not None and self.chunk_nbytes < 1:
            raise ValueError(f"chunk_nbytes {self.chunk_nbytes}: expected 1 or more")


OUTPUT_DEFAULTS = {each.name: each.default for each in fields(WriteOptions)}


class Written(NamedTuple):
    """Files of a new recording."""

    paths: list[str]  # their paths
    nbytes: int  # their total size


# A record, the source it comes from, and the payload that is written for it.
_Recoded: TypeAlias = tuple[Share, EncodedRecord, StoredPayload]


def write_plan(plan: Plan, dst: str | os.PathLike[str], options: WriteOptions) -> Written:
    """Write the recording of a plan to the path `dst`. After an error all new files are removed.

    Without `compression`, payloads are copied as stored.
    """
    refuse_url_as_target(dst, "a recording")
    target = disk.target_of(dst)
    check_absent(dst, overwrite=options.overwrite)
    check_regular(target, target)
    if options.chunk_nbytes is not None:
        # Readers would take it for a chunk of the recording.
        refuse_present([chunk_path(target, 1)], files_of(target) if options.overwrite else ())
    description = pack_description(plan.description)
    entries = plan.entries()
    total = int(entries["size"].astype(np.int64).sum())
    room = index_nbytes(entries, plan.stream_ids, ZSTD_LEVEL)
    if options.compression is not None:
        # The size of recompressed records is not known; their current size is a good estimate.
        room = min(room + room // 4 + 1024, classic_nbytes(len(entries), len(plan.stream_ids)))
    del entries  # writing takes long, and needs no second index in memory
    try:
        file = RecordFile(
            temporary_path(target),
            new_creation_id(),
            index=options.index,
            chunk_nbytes=options.chunk_nbytes,
        )
    except OSError as err:
        err.filename = target  # the caller does not know the temporary name
        raise
    try:
        file.start(description, len(plan.stream_ids), room_nbytes=room)
        records = _recode(plan, options.compression, resolve_nthreads(options.nthreads, total))
        _append(file, records, total, as_progress(options.progress))
        file.close(plan.stream_ids)
    except BaseException:
        file.abort()
        raise
    nbytes = sum(os.stat(path).st_size for path in file.paths)
    return Written(_publish(file.paths, target, overwrite=options.overwrite), nbytes)


def _recode(plan: Plan, preset: str | None, nthreads: int) -> Iterator[_Recoded]:
    """Yield the records in the form they will be stored in, in order."""
    if preset is None:
        for share, record in plan.records():
            parts, nbytes = [record.stored], len(record.stored)
            payload = StoredPayload(parts, nbytes, record.compression, record.uncompressed_size)
            yield share, record, payload
        return
    compression = preset

    def recode(batch: list[tuple[Share, EncodedRecord]]) -> list[_Recoded]:
        return [_recoded(share, record, compression) for share, record in batch]

    for recoded in map_ordered(recode, batches_by_size(plan.records(), _nbytes_of), nthreads):
        yield from recoded


def _recoded(share: Share, record: EncodedRecord, preset: str) -> _Recoded:
    payload = share.content.reader.decode(
        record.stored, record.compression, record.uncompressed_size, record.row
    )
    stored = stored_payload(payload, preset)
    size = stored.nbytes + RECORD_HEADER_SIZE
    if size > MAX_RECORD_NBYTES:
        raise ValueError(
            f"record {record.row}: {size} bytes when decompressed, expected less than 4 GiB"
        )
    return share, record, stored


def _nbytes_of(item: tuple[Share, EncodedRecord]) -> int:
    _, record = item
    return max(len(record.stored), record.uncompressed_size) + RECORD_HEADER_SIZE


def _append(
    file: RecordFile, records: Iterable[_Recoded], total: int, progress: Progress | None
) -> None:
    done = reported = 0
    for share, record, payload in records:
        stream_id, version = share.ids[record.stream], record.format_version
        file.append(stream_id, record.record_type, version, record.timestamp, *payload)
        done += len(record.stored) + RECORD_HEADER_SIZE
        if progress is not None and done - reported >= _PROGRESS_NBYTES:
            progress(done, total)
            reported = done
    if progress is not None and (reported < total or not total):
        progress(total, total)


def _publish(made: list[str], target: str, *, overwrite: bool) -> list[str]:
    """Rename the files of a recording to their final names, and return these.

    One file replaces another in one step. Of several, the old ones are removed first: the new ones
    are durable then, under their temporary names. No other file is replaced, not even one that
    another program made while the recording was written.
    """
    names = [chunk_path(target, number) for number in range(len(made))]
    left = dict(zip(names, made, strict=True))
    is_last = False  # whether only the new files have the records
    try:
        replaced = files_of(target) if overwrite else []
        # `write_plan` has looked for the first chunk only, and some time ago.
        refuse_present(names, replaced)
        for path in made:
            with open(path, "rb") as file:
                make_like(file.fileno(), target, target)
        if len(made) > 1:
            for path in replaced:
                is_last = True
                disk.unlink(path)
            replaced = []
        # Only the first file makes a recording of the others, so it is renamed last.
        for name in [*names[1:], target]:
            disk.move(left[name], name, overwrite=overwrite and name == target)
            left[name] = name
        left.clear()
        for path in replaced[1:]:
            disk.unlink(path)
        disk.sync_folder(os.path.dirname(target))
    except BaseException:
        for path in [] if is_last else [*left.values()]:
            disk.unlink(path)
        raise
    return names
