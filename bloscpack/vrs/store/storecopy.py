"""VRS recordings in a frame store, and back: every record and tag arrives as it was.

`store_recording` cuts the payloads of records into columns, one clip for each (columns.py);
`restore_recording` puts them together again (rows.py). Both compare `Recording.checksum` of
what was read with that of what was written: equal sums are equal tags, times, versions and
payloads. With `verbatim` the file comes back byte for byte (verbatim.py). Layout:
docs/formats/vrs-store.md.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...exceptions import FormatError
from ...frames.store.framestore import FrameStore
from ...parallel.threads import map_ordered, resolve_nthreads
from ...types import BytesLike
from ..export.contentchecksum import content_checksum
from ..format.description import pack_description
from ..format.format import RECORD_HEADER_SIZE, Compression, RecordType
from ..format.indexrecord import index_nbytes
from ..format.payload import encode_payload
from ..format.recordindex import INDEX_ENTRY, ZSTD_LEVEL
from ..read.content import Content
from ..read.recordset import RecordSet
from ..recording import Recording, open_quietly
from ..write.recordfile import MAX_RECORD_NBYTES, RecordFile
from .clipcolumns import Plan
from .forms import StoredForm
from .gathering import GroupImport
from .payloadrows import damaged
from .storedrecording import ATTR, CLIP, FORMAT, StoredRecording, facts_of
from .storeprogress import Counter, Progress
from .verbatim import iter_file, store_file, write_parts

PRESET = "small"
"""What columns are compressed with unless another preset is asked for."""
_KINDS = RecordType.STATE, RecordType.CONFIGURATION, RecordType.DATA
# Recompressed with the codec that a record had; its level is not known.
_PRESETS: dict[int, str] = {
    Compression.NONE: "none",
    Compression.LZ4: "fast",
    Compression.ZSTD: "zlight",
}
_BATCH_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RecordingCopy:
    """What was brought into a store, or out of it.

    Attributes
    ----------
    clips : int
        Clips of the store; of a recording, its streams.
    records : int
        Records.
    images : int
        How many of them have JPEG or PNG images, which are clips of their own.
    paths : tuple of str
        The files that were made.
    """

    clips: int
    records: int
    images: int
    paths: tuple[str, ...]


def store_recording(
    recording: Recording,
    path: str,
    *,
    preset: str = PRESET,
    verbatim: bool = False,
    verify: bool = True,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> RecordingCopy:
    """Make a frame store of a recording.

    Parameters
    ----------
    recording : Recording
        What is read, several times.
    path : str
        The new store; to be removed by the caller after an error.
    preset : {"fast", "small"}
        How columns are compressed.
    verbatim : bool
        Keep what brings the file back byte for byte.
    verify : bool
        Read the store, and compare checksums.
    nthreads : int, optional
        Threads that encode.
    progress : callable, optional
        Called with (records done, records in all); comparing counts as much as copying.

    Raises
    ------
    FormatError, CodecError, UnsupportedError
        A record is damaged, or what was written is not what was read.
    FileExistsError
        There is such a file.
    OSError
        The recording cannot be read, or the store not be written.
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
    images = _images_of(plans)
    return RecordingCopy(nclips, len(content.table), images, (path,))


def restore_recording(
    store: FrameStore,
    paths: Callable[[int], str],
    *,
    verify: bool = True,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> RecordingCopy:
    """Write the recording in a store as a VRS file again.

    Parameters
    ----------
    store : FrameStore
        As `store_recording` makes them.
    paths : callable
        Gives the name of each new file: number 0 is the first. To be removed by the caller after
        an error.
    verify : bool
        Read what was written, and compare checksums.
    nthreads : int, optional
        Threads that compress.
    progress : callable, optional
        As for `store_recording`.

    Raises
    ------
    FormatError, CodecError, UnsupportedError
        The store is damaged, or what was written is not what was read.
    FileExistsError
        There is such a file.
    OSError
        The store cannot be read, or a file not be written.

    Notes
    -----
    Of a store made with `verbatim` the file comes back byte for byte, in as many files as it was.
    Else the index stands where it was, in front or at the end, records in the order they had, and
    payloads are compressed with the codec they had, where that makes them smaller.
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
    """Append the columns of all records; yield what tells how records are made of them."""
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
    """Write a recording anew."""
    records, streams = stored.records, stored.streams
    entries = np.zeros(len(records), INDEX_ENTRY)
    position = records.table.position
    entries["timestamp"][position] = records.table.timestamp
    room = index_nbytes(entries, streams, ZSTD_LEVEL)
    # Sizes are not known yet.
    room += room + 8 * len(records) + 1024
    file = RecordFile(
        path,
        stored.creation_id,
        index="front" if stored.has_front_index else "end",
        level=ZSTD_LEVEL,
        room=0,
        chunk_nbytes=None,
        overwrite=False,
    )
    try:
        description = pack_description(stored.description)
        file.start(description, len(stored.description.streams), room_nbytes=room)
        threads = resolve_nthreads(nthreads, sum(map(_nbytes_of, records.forms)))
        batches = _batches(records.iter_records(np.arange(len(records))))
        for batch in map_ordered(_encoded, batches, threads):
            for form, row, compression, stored_payload, nbytes in batch:
                file.append(
                    form.stream_id,
                    form.record_type,
                    form.version,
                    form.timestamps.item(row),
                    [stored_payload],
                    len(stored_payload),
                    compression,
                    nbytes if compression else 0,
                )
            count.add(len(batch))
        file.close(streams)
    except BaseException:
        file.abort()
        raise


def _nbytes_of(form: StoredForm) -> int:
    return len(form) * form.row_nbytes if form.compressions.any() else 0


def _batches(
    records: Iterable[tuple[StoredForm, int, bytes]],
) -> Iterator[list[tuple[StoredForm, int, bytes]]]:
    batch, nbytes = [], 0
    for record in records:
        batch.append(record)
        nbytes += len(record[2]) + RECORD_HEADER_SIZE
        if nbytes >= _BATCH_NBYTES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


def _encoded(
    batch: list[tuple[StoredForm, int, bytes]],
) -> list[tuple[StoredForm, int, int, BytesLike, int]]:
    """Compress payloads as they were."""
    found = []
    for form, row, payload in batch:
        preset = _PRESETS.get(form.compressions.item(row), "none")
        compression, stored = encode_payload(payload, preset)
        if len(payload) > MAX_RECORD_NBYTES - RECORD_HEADER_SIZE:
            raise damaged(f"a payload of {len(payload)} bytes: less than 4 GiB fit")
        found.append((form, row, int(compression), stored, len(payload)))
    return found


def _images_of(plans: Iterable[Plan]) -> int:
    """Return how many JPEG and PNG images there are."""
    return sum(
        int(plan["records"]) for plan in plans for part in plan["parts"] if part["kind"] == "images"
    )


def _different(name: str | None) -> FormatError:
    error = FormatError("records did not arrive as they were; the copy was removed")
    error.path = name
    return error
