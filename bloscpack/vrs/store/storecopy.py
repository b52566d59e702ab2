"""VRS recordings in a frame store, and back, without loss of records or tags.

`store_recording` cuts the payloads of records into columns, one clip for each (`clipcolumns`);
`restore_recording` joins them again (`payloadrows`). Both compare the `Recording.checksum` of
source and copy: equal checksums mean equal tags, times, versions and payloads. With `verbatim` the
file is restored byte for byte (`verbatim`). Layout: docs/formats/vrs-store.md.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...plugin import (
    FormatError,
    FramePreset,
    FrameStore,
    Progress,
    map_ordered,
    resolve_nthreads,
)
from ..export.contentchecksum import content_checksum
from ..format.compression import StoredPayload, stored_payload
from ..format.description import pack_description
from ..format.format import RECORD_HEADER_SIZE, Compression, RecordType
from ..format.indexrecord import index_nbytes
from ..format.recordindex import INDEX_ENTRY, ZSTD_LEVEL
from ..read.content import Content
from ..read.iteration import batches_by_size
from ..read.recordset import RecordSet
from ..recording import Recording, open_quietly
from ..write.recordfile import MAX_RECORD_NBYTES, RecordFile
from .clipcolumns import Plan
from .columnimport import GroupImport
from .payloadrows import damaged
from .recordforms import StoredForm
from .storedrecording import ATTR, CLIP, FORMAT, StoredRecording, facts_of
from .storeprogress import Counter
from .verbatim import iter_file, store_file, write_parts

PRESET: FramePreset = "small"
"""Default compression preset of columns."""
_KINDS = RecordType.STATE, RecordType.CONFIGURATION, RecordType.DATA
# Presets to restore a record with its codec; the file does not store the compression level.
_PRESETS: dict[int, str] = {
    Compression.NONE: "none",
    Compression.LZ4: "fast",
    Compression.ZSTD: "zlight",
}


@dataclass(frozen=True, slots=True)
class RecordingCopy:
    """Result of storing or restoring a recording."""

    clips: int  # clips of the store, or streams of the restored recording
    records: int  # number of records
    images: int  # records with JPEG or PNG images, which are clips of their own
    paths: tuple[str, ...]  # the files that were created


def store_recording(
    recording: Recording,
    path: str,
    *,
    preset: FramePreset = PRESET,
    verbatim: bool = False,
    verify: bool = True,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> RecordingCopy:
    """Write a recording, which is read several times, to a new frame store.

    `verbatim` also stores the bytes needed to restore the file byte for byte; `verify` reads the
    store afterwards and compares checksums, which counts as much as copying in `progress`. The
    caller removes the store after an error.
    """
    content = recording._content
    count = Counter(progress, len(content.table) * (2 if verify else 1))
    attrs = {ATTR: {"format": FORMAT}}
    with FrameStore.create(path, preset=preset, attrs=attrs, nthreads=nthreads) as store:
        plans = list(_import_groups(store, os.path.dirname(path), content, count))
        meta = {**facts_of(content), "forms": plans}
        if verbatim:
            meta["verbatim"] = store_file(store, os.path.dirname(path), content)
        if verify:
            meta["checksum"] = content_checksum(content)
        store.append(CLIP, np.zeros(0, np.uint8), meta)
        nclips = len(store)
    if verify:
        with FrameStore(path, nthreads=nthreads) as written:
            stored = StoredRecording(written)
            if stored.checksum(count) != meta["checksum"]:
                raise _different(recording.name)
            if verbatim:
                for _ in iter_file(stored):
                    pass
    return RecordingCopy(nclips, len(content.table), _images_of(plans), (path,))


def restore_recording(
    store: FrameStore,
    paths: Callable[[int], str],
    *,
    verify: bool = True,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> RecordingCopy:
    """Restore the recording in a store of `store_recording` to a VRS file.

    `paths` returns the path of each new file by its number, from 0; the caller removes the files
    after an error.

    A store made with `verbatim` is restored byte for byte, to the same number of files. Otherwise
    the index has its old position, in front or at the end, and the records their old order.
    Payloads are compressed with their old codec, if that makes them smaller.
    """
    stored = StoredRecording(store)
    total = len(stored.records)
    count = Counter(progress, total * (2 if verify and not stored.is_verbatim else 1))
    if stored.is_verbatim:
        made = write_parts(iter_file(stored, count), stored.part_sizes, paths)
    else:
        made = [paths(0)]
        _write_recording(stored, made[0], nthreads, count)
    if verify:
        with open_quietly(made) as recording:
            found = recording.checksum()
        if found != (stored.known_checksum or stored.checksum(count)):
            raise _different(store.name)
    count.finish()
    return RecordingCopy(len(stored.streams), total, _images_of(stored.plans), tuple(made))


def _import_groups(
    store: FrameStore, folder: str, content: Content, count: Counter
) -> Iterator[Plan]:
    """Append the columns of all records; yield the plans to rebuild them."""
    for ordinal in range(len(content.table.streams)):
        for kind in _KINDS:
            records = RecordSet(content, ordinal, kind)
            records.load()
            versions = records.headers.versions
            for version in np.unique(versions).tolist():
                group = GroupImport(store, folder, content, records, version)
                for done in group.run(np.flatnonzero(versions == version)):
                    if isinstance(done, int):
                        count.add(done)
                    else:
                        yield done


def _write_recording(
    stored: StoredRecording, path: str, nthreads: int | None, count: Counter
) -> None:
    records, streams = stored.records, stored.streams
    entries = np.zeros(len(records), INDEX_ENTRY)
    entries["timestamp"][records.table.position] = records.table.timestamp
    room = index_nbytes(entries, streams, ZSTD_LEVEL)
    # Compressed sizes are not known before the records are written.
    room += room + 8 * len(records) + 1024
    index: str = "front" if stored.has_front_index else "end"
    file = RecordFile(path, stored.creation_id, index=index)
    try:
        description = pack_description(stored.description)
        file.start(description, len(stored.description.streams), room_nbytes=room)
        threads = resolve_nthreads(nthreads, sum(map(_nbytes_of, records.forms)))
        batches = batches_by_size(
            records.iter_records(np.arange(len(records))),
            lambda record: len(record[2]) + RECORD_HEADER_SIZE,
        )
        for batch in map_ordered(_encoded, batches, threads):
            for form, row, payload in batch:
                time = form.timestamps.item(row)
                file.append(form.stream_id, form.record_type, form.version, time, *payload)
            count.add(len(batch))
        file.close(streams)
    except BaseException:
        file.abort()
        raise


def _nbytes_of(form: StoredForm) -> int:
    return len(form) * form.row_nbytes if form.compressions.any() else 0


def _encoded(
    batch: list[tuple[StoredForm, int, bytes]],
) -> list[tuple[StoredForm, int, StoredPayload]]:
    """Compress payloads with the codec they had."""
    found = []
    for form, row, payload in batch:
        preset = _PRESETS.get(form.compressions.item(row), "none")
        if len(payload) > MAX_RECORD_NBYTES - RECORD_HEADER_SIZE:
            raise damaged(f"a payload of {len(payload)} bytes: expected less than 4 GiB")
        found.append((form, row, stored_payload(payload, preset)))
    return found


def _images_of(plans: Iterable[Plan]) -> int:
    """Return the number of records with JPEG and PNG images."""
    return sum(
        int(plan["records"]) for plan in plans for part in plan["parts"] if part["kind"] == "images"
    )


def _different(name: str | None) -> FormatError:
    return FormatError("the copy differs from its source; the copy was removed").at(
        path=name, whole=""
    )
