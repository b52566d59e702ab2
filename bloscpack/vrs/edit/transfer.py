"""Records of recordings written to a new one, stored as they are or compressed anew.

What is to be written is a `Plan`: which records of which recordings, in what order, under what ids
and tags. The new recording is made under a temporary name and made durable, and gets its name at
the end: it is there whole or not at all.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ...exceptions import BloscpackError
from ...parallel.threads import map_ordered, resolve_nthreads
from ...storage import disk
from ...storage.update import temporary_path
from ...types import BytesLike, IntArray
from ..format.description import Description, pack_description
from ..format.format import RECORD_HEADER_SIZE, StreamId
from ..format.indexrecord import index_nbytes
from ..format.payload import encode_payload
from ..format.recordindex import INDEX_ENTRY, ZSTD_LEVEL, Entries, classic_nbytes
from ..read.content import Content
from ..read.recordreader import EncodedRecord
from ..recording import open_quietly
from ..write.recordfile import MAX_RECORD_NBYTES, RecordFile, chunk_path
from ..write.writer import new_creation_id

Progress = Callable[[int, int], object]

# What is recompressed by one thread at a time, and after how much progress is told.
_BATCH_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Share:
    """What a plan takes of one recording.

    Attributes
    ----------
    content : Content
        The recording.
    rows : ndarray of int64
        Its records that are taken, in the order they are written.
    ids : list of StreamId
        For each of its streams, by ordinal, the id it is written under.
    """

    content: Content
    rows: IntArray
    ids: list[StreamId]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a new recording will hold.

    Attributes
    ----------
    shares : list of Share
        Where its records come from.
    order : ndarray of int64
        Which share each record comes from, in the order they are written.
    stream_ids : list of StreamId
        All its streams.
    description : Description
        Their tags, and those of the file.
    """

    shares: list[Share]
    order: IntArray
    stream_ids: list[StreamId]
    description: Description

    def entries(self) -> Entries:
        """Return the index of the new recording if payloads stay as they are stored."""
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
        """Yield all records in order, each recording read ahead."""
        readers = [share.content.reader.iter_encoded(share.rows) for share in self.shares]
        for number, run in groupby(self.order.tolist()):
            share, reader = self.shares[number], readers[number]
            for _ in run:
                yield share, next(reader)


class Written(NamedTuple):
    """A new recording.

    Attributes
    ----------
    paths : list of str
        Its files.
    nbytes : int
        Their size in all.
    """

    paths: list[str]
    nbytes: int


class _Recoded(NamedTuple):
    """A record as it will be stored."""

    share: Share
    record: EncodedRecord
    compression: int
    uncompressed_size: int
    stored: BytesLike


def write_plan(
    plan: Plan,
    target: str,
    *,
    compression: str | None,
    index: str,
    chunk_nbytes: int | None,
    overwrite: bool,
    nthreads: int | None,
    progress: Progress | None,
) -> Written:
    """Make the recording of a plan.

    Parameters
    ----------
    plan : Plan
    target : str
        Where, without links.
    compression : str or None
        A preset for all payloads; None to leave them as they are stored.
    index, chunk_nbytes, overwrite
        As for `writer.create`.
    nthreads : int or None
        Threads that recompress.
    progress : callable or None
        Called with the bytes of records done, and of all.

    Raises
    ------
    FileExistsError
        There is a file where one is to be made.
    FormatError, CodecError, UnsupportedError
        A record is damaged.
    ValueError
        A tag cannot be stored, or a record has 4 GiB or more when decompressed.
    OSError
        Bytes cannot be read or written. After any error nothing is left.
    """
    check_target(target, chunked=chunk_nbytes is not None, overwrite=overwrite)
    description = pack_description(plan.description)
    entries = plan.entries()
    total = int(entries["size"].astype(np.int64).sum())
    room = index_nbytes(entries, plan.stream_ids, ZSTD_LEVEL)
    if compression is not None:
        # How large records become is not known; sizes of other records are a good guess.
        room = min(room + room // 4 + 1024, classic_nbytes(len(entries), len(plan.stream_ids)))
    del entries
    try:
        file = RecordFile(
            temporary_path(target),
            new_creation_id(),
            index=index,
            level=ZSTD_LEVEL,
            room=0,
            chunk_nbytes=chunk_nbytes,
            overwrite=False,
        )
    except OSError as err:
        err.filename = target  # the temporary name would puzzle
        raise
    try:
        file.start(description, len(plan.stream_ids), room_nbytes=room)
        records = _recode(plan, compression, resolve_nthreads(nthreads, total))
        _append(file, records, total, progress)
        file.close(plan.stream_ids)
    except BaseException:
        file.abort()
        raise
    nbytes = sum(os.stat(path).st_size for path in file.paths)
    return Written(_publish(file.paths, target), nbytes)


def _recode(plan: Plan, preset: str | None, nthreads: int) -> Iterator[_Recoded]:
    """Yield the records as they will be stored, in order."""
    if preset is None:
        for share, record in plan.records():
            yield _Recoded(
                share, record, record.compression, record.uncompressed_size, record.stored
            )
        return
    compression = preset

    def recode(batch: list[tuple[Share, EncodedRecord]]) -> list[_Recoded]:
        return [_recoded(share, record, compression) for share, record in batch]

    for recoded in map_ordered(recode, _batches(plan.records()), nthreads):
        yield from recoded


def _recoded(share: Share, record: EncodedRecord, preset: str) -> _Recoded:
    payload = share.content.reader.decode(
        record.stored, record.compression, record.uncompressed_size, record.row
    )
    compression, stored = encode_payload(payload, preset)
    size = len(stored) + RECORD_HEADER_SIZE
    if size > MAX_RECORD_NBYTES:
        raise ValueError(
            f"record {record.row}: {size} bytes when decompressed, less than 4 GiB fit"
        )
    return _Recoded(share, record, compression, len(payload) if compression else 0, stored)


def _batches(
    records: Iterable[tuple[Share, EncodedRecord]],
) -> Iterator[list[tuple[Share, EncodedRecord]]]:
    """Yield records in lists of about 1 MiB, enough work for a thread."""
    batch, nbytes = [], 0
    for share, record in records:
        batch.append((share, record))
        nbytes += max(len(record.stored), record.uncompressed_size) + RECORD_HEADER_SIZE
        if nbytes >= _BATCH_NBYTES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


def _append(
    file: RecordFile, records: Iterable[_Recoded], total: int, progress: Progress | None
) -> None:
    done = told = 0
    for share, record, compression, uncompressed_size, stored in records:
        file.append(
            share.ids[record.stream],
            record.record_type,
            record.format_version,
            record.timestamp,
            [stored],
            len(stored),
            compression,
            uncompressed_size if compression else 0,
        )
        done += len(record.stored) + RECORD_HEADER_SIZE
        if progress is not None and done - told >= _BATCH_NBYTES:
            progress(done, total)
            told = done
    if progress is not None and (told < total or not total):
        progress(total, total)


def check_target(target: str, *, chunked: bool, overwrite: bool) -> None:
    """Raise FileExistsError if a recording cannot be made at `target`.

    To be overwritten there may be a recording, in as many files as it has, or another file, but no
    folder, and nothing that would be taken for a chunk of the new one.
    """
    if not overwrite or os.path.isdir(target):
        _check_absent(target)
    chunk = chunk_path(target, 1)
    if chunked and not (overwrite and chunk in _files_of(target)):
        _check_absent(chunk)


def _check_absent(path: str) -> None:
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def _files_of(target: str) -> list[str]:
    """Return the files of the recording at `target`, or whatever file is there; none if none."""
    if not os.path.exists(target):
        return []
    try:
        with open_quietly(target) as recording:
            names = [part.source.name for part in recording.source.parts]
    except BloscpackError:
        return [target]
    return [name for name in names if name is not None]


def _publish(made: list[str], target: str) -> list[str]:
    """Rename the files of a recording; return their names.

    One file takes the place of another at once. Of several, those that are replaced go first: what
    is new is durable then, under its temporary names.
    """
    names = [chunk_path(target, number) for number in range(len(made))]
    left = dict(zip(names, made, strict=True))
    try:
        replaced = _files_of(target)
        if replaced:
            _take_mode(made, target)
        if len(made) > 1:
            for path in replaced:
                disk.unlink(path)
            replaced = []
        # The first file is what makes the others a recording.
        for name in [*names[1:], target]:
            if name != target:
                _check_absent(name)
            disk.replace(left[name], name)
            left[name] = name
        left.clear()
        for path in replaced[1:]:
            disk.unlink(path)
        disk.sync_folder(os.path.dirname(target))
    except BaseException:
        for path in left.values():
            disk.unlink(path)
        raise
    return names


def _take_mode(made: list[str], target: str) -> None:
    """Give files the permissions of the one they replace."""
    mode = stat.S_IMODE(os.stat(target).st_mode)
    for path in made:
        fd = os.open(path, os.O_RDONLY)
        try:
            disk.set_mode(fd, mode)
        finally:
            os.close(fd)
