"""VRS recordings in a frame store, and back: every record and tag arrives as it was.

`store_recording` cuts the payloads of records into columns, one clip for each (recordform.py);
`restore_recording` puts them together again (recordrows.py). Both compare `Recording.checksum` of
what was read with that of what was written: equal sums are equal tags, times, versions and
payloads. With `verbatim` the store keeps, beside the columns, all bytes of the file that they do not
give, so that it comes back byte for byte. Layout: docs/formats/vrs-store.md.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from xxhash import xxh3_128

from .exceptions import FormatError, NotFoundError
from .frames.reader import FrameStore
from .recordform import BLOCK_NBYTES, GroupImport, Plan, Spool
from .recordrows import StoredForm, StoredRagged, StoredTable, damaged
from .storage import disk
from .threads import map_ordered, resolve_nthreads
from .vrs.content import Content
from .vrs.description import Description, StreamTags, pack_description
from .vrs.format import RECORD_HEADER_SIZE, Compression, RecordType, StreamId
from .vrs.index import INDEX_ENTRY, ZSTD_LEVEL
from .vrs.logical import content_checksum, records_checksum
from .vrs.payload import encode_payload
from .vrs.reading import StoredRecord
from .vrs.recordfile import RecordFile, index_nbytes
from .vrs.recording import Recording
from .vrs.recording import open as open_recording
from .vrs.recordset import RecordSet
from .wire import BytesLike

FORMAT = 1
"""Of what a store says of a recording. Stored on disk."""
PRESET = "small"
"""What columns are compressed with unless another preset is asked for."""
_ATTR = "vrs"
_CLIP = "recording"
_KINDS = RecordType.STATE, RecordType.CONFIGURATION, RecordType.DATA
# Recompressed with the codec that a record had; its level is not known.
_PRESETS: dict[int, str] = {
    Compression.NONE: "none",
    Compression.LZ4: "fast",
    Compression.ZSTD: "zlight",
}
_BATCH_NBYTES = 1 << 20

Progress = Callable[[int, int], None]


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


def is_recording_store(store: Any) -> bool:
    """Return whether a source of clips is a store that holds a recording."""
    return isinstance(store, FrameStore) and _ATTR in store.attrs


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
    content = recording.content
    count = _Counter(progress, len(content.table) * (2 if verify else 1))
    attrs = {_ATTR: {"format": FORMAT}}
    with FrameStore.create(path, preset=preset, attrs=attrs, nthreads=nthreads) as store:
        plans = list(_import_groups(store, os.path.dirname(path), content, count))
        meta = {**_facts_of(content), "forms": plans}
        if verbatim:
            meta["verbatim"] = _import_file(store, os.path.dirname(path), content)
        if verify:
            meta["checksum"] = content_checksum(content)
        store.append(_CLIP, np.zeros(0, np.uint8), meta)
        nclips = len(store)
    if verify:
        with FrameStore(path, nthreads=nthreads) as written:
            stored = StoredRecording(written)
            if stored.checksum(count) != meta["checksum"]:
                raise _different(recording.name)
            if verbatim:
                for _ in stored.iter_file():
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
    count = _Counter(progress, total * (2 if verify and not stored.is_verbatim else 1))
    if stored.is_verbatim:
        made = _write_parts(stored.iter_file(count), stored.part_sizes, paths)
    else:
        made = [paths(0)]
        _write_recording(stored, made[0], nthreads, count)
    if verify:
        with open_recording(made) as recording:
            found = recording.checksum()
        if found != (stored.known_checksum or stored.checksum(count)):
            raise _different(store.name)
    count.finish()
    return RecordingCopy(len(stored.streams), total, _images_of(stored.plans), tuple(made))


class StoredRecording:
    """The recording in a frame store.

    Parameters
    ----------
    store : FrameStore
        The store.

    Attributes
    ----------
    plans : list of dict
        How its records are made of clips.
    description : Description
        All tags.
    streams : tuple of StreamId
        Sorted.
    records : StoredTable
        The records.
    known_checksum : str or None
        That of the recording that was stored.

    Raises
    ------
    FormatError
        The store holds none, or a damaged one.
    """

    def __init__(self, store: FrameStore) -> None:
        self._store = store
        try:
            self._meta = store[_CLIP].meta
        except NotFoundError as err:
            raise damaged(f"there is no clip {_CLIP!r}: it was not written to its end") from err
        found = store.attrs.get(_ATTR)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise damaged(f"{found!r:.80}: this release reads format {FORMAT}")
        plans = self._meta.get("forms")
        if not isinstance(plans, list) or not all(isinstance(each, dict) for each in plans):
            raise damaged("no list of forms")
        self.plans: list[Plan] = plans
        self.description, listed = _tags_of(self._meta)
        try:
            self.records = StoredTable(store, plans, listed)
        except NotFoundError as err:
            raise damaged(str(err.args[0])) from err
        self.streams = self.records.table.streams
        checksum = self._meta.get("checksum")
        self.known_checksum = checksum if isinstance(checksum, str) else None

    @property
    def creation_id(self) -> int:
        """Of the file header."""
        found = self._meta.get("creation_id")
        if type(found) is not int or not 0 <= found < 1 << 64:
            raise damaged(f"creation_id {found!r:.80}")
        return found

    @property
    def has_front_index(self) -> bool:
        """Whether the index stood in front of the records."""
        return "front" in str(self._meta.get("index"))

    @property
    def is_verbatim(self) -> bool:
        """Whether the file comes back byte for byte."""
        return self._meta.get("verbatim") is not None

    @property
    def part_sizes(self) -> list[int]:
        """Bytes of the files that the recording was."""
        sizes = self._verbatim.get("parts")
        if (
            not isinstance(sizes, list)
            or not sizes
            or any(type(size) is not int or size < 0 for size in sizes)
        ):
            raise damaged("sizes of its files")
        return sizes

    @property
    def _verbatim(self) -> dict[str, Any]:
        found = self._meta.get("verbatim")
        if not isinstance(found, dict):
            raise damaged("nothing tells of its file")
        return found

    def checksum(self, count: "_Counter | None" = None) -> str:
        """Return the checksum of all records and tags: see `Recording.checksum`."""
        tags = [self.description.streams.get(each, StreamTags()) for each in self.streams]
        records = self._iter_in_time(count)
        return records_checksum(records, self.streams, tags, self.description.file_tags)

    def _iter_in_time(self, count: "_Counter | None") -> Iterator[StoredRecord]:
        ordinals = {stream_id: k for k, stream_id in enumerate(self.streams)}
        positions = self.records.table.position
        for form, row, payload in self.records.iter_records(positions):
            time = form.timestamps.item(row)
            yield ordinals[form.stream_id], form.record_type, form.version, time, payload
            if count is not None:
                count.add()

    def iter_file(self, count: "_Counter | None" = None) -> Iterator[BytesLike]:
        """Yield the bytes of the file, piece by piece.

        Raises
        ------
        FormatError
            They are not those that the file had.
        """
        digest = xxh3_128()
        for piece in self._iter_pieces(count):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != self._verbatim.get("xxh3_128"):
            raise damaged("the bytes that come back are not those of the file")

    def _iter_pieces(self, count: "_Counter | None") -> Iterator[BytesLike]:
        store, total = self._store, len(self.records)
        try:
            rest = StoredRagged(
                store, {"id": f"{_CLIP}/rest", "offsets": f"{_CLIP}/rest:offsets"}, total + 1
            )
            headers = store[f"{_CLIP}/headers"]
        except NotFoundError as err:
            raise damaged(str(err.args[0])) from err
        if headers.shape != (total, RECORD_HEADER_SIZE) or headers.dtype != np.uint8:
            raise damaged(f"headers of shape {headers.shape}")
        records = self.records.iter_records(np.arange(total))
        for start in range(0, total, 4096):
            rows: Any = headers.read(slice(start, start + 4096))
            for number, header in enumerate(rows, start):
                yield from rest.iter_bytes(number)
                yield header.tobytes()
                form, row, payload = next(records)
                if not form.compressions[row]:
                    yield payload
                if count is not None:
                    count.add()
        yield from rest.iter_bytes(total)


def _import_groups(
    store: FrameStore, folder: str, content: Content, count: "_Counter"
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


def _facts_of(content: Content) -> dict[str, Any]:
    """Return what a store says of the recording as a whole, for people, too."""
    description = content.description
    return {
        "creation_id": content.header.creation_id,
        "version": content.header.version,
        "index": content.index_kind,
        "file_tags": description.file_tags,
        "streams": {
            str(stream_id): (
                {"tags": tags.user, "vrs_tags": tags.vrs}
                if (tags := description.streams.get(stream_id)) is not None
                else None
            )
            for stream_id in content.table.streams
        },
    }


def _tags_of(meta: Mapping[str, Any]) -> tuple[Description, list[StreamId]]:
    """Return the tags of a recording, and its streams, those that nothing describes among them."""
    streams: dict[StreamId, StreamTags] = {}
    listed: list[StreamId] = []
    found = meta.get("streams")
    if not isinstance(found, dict):
        raise damaged("no streams")
    for name, tags in found.items():
        try:
            stream_id = StreamId.parse(name)
        except ValueError as err:
            raise damaged(f"stream {name!r:.80}") from err
        listed.append(stream_id)
        if tags is None:
            continue
        if not isinstance(tags, dict):
            raise damaged(f"tags of stream {name}")
        streams[stream_id] = StreamTags(_texts(tags.get("tags")), _texts(tags.get("vrs_tags")))
    return Description(streams, _texts(meta.get("file_tags"))), listed


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise damaged("tags are no texts")
    return value


def _import_file(store: FrameStore, folder: str, content: Content) -> dict[str, Any]:
    """Append what the columns do not give of the bytes of the file: all but plain payloads."""
    source, table = content.source, content.table
    order = np.argsort(table.position, kind="stable")
    ends: list[int] = [0]
    rest, headers = Spool(folder), Spool(folder)
    digest = xxh3_128()
    at, size = 0, source.size()

    def copy(until: int, spool: Spool | None) -> None:
        nonlocal at
        while at < until:
            piece = source.read_at(at, min(_BATCH_NBYTES, until - at))
            if not len(piece):
                raise FormatError(f"byte {at}: the file ends", offset=at)
            digest.update(piece)
            if spool is not None:
                spool.write(piece)
            at += len(piece)

    try:
        for row in order.tolist():
            start = table.offset.item(row)
            copy(start, rest)
            if at != start:
                raise FormatError(f"record {row} begins in the one before it", offset=start)
            ends.append(rest.nbytes)
            header = bytes(source.read_at(start, RECORD_HEADER_SIZE))
            copy(start + RECORD_HEADER_SIZE, headers)
            if not header[_COMPRESSION_AT]:
                copy(start + table.size.item(row), None)
        copy(size, rest)
        ends.append(rest.nbytes)
        block = max(1, min(rest.nbytes, BLOCK_NBYTES))
        rest.pad(block)
        shape = (rest.nbytes // block, block)
        store.append(f"{_CLIP}/rest", rest.array(np.uint8, shape))
        store.append(f"{_CLIP}/rest:offsets", np.array(ends, np.int64))
        shape = (len(table), RECORD_HEADER_SIZE)
        store.append(f"{_CLIP}/headers", headers.array(np.uint8, shape))
    finally:
        rest.close()
        headers.close()
    return {"parts": [part.nbytes for part in source.parts], "xxh3_128": digest.hexdigest()}


# Behind size, previous size, type id, version, time, instance and type.
_COMPRESSION_AT = 4 + 4 + 4 + 4 + 8 + 2 + 1


def _write_parts(
    pieces: Iterable[BytesLike], sizes: list[int], paths: Callable[[int], str]
) -> list[str]:
    """Write bytes into files of these sizes, durably."""
    made: list[str] = []
    left = _gathered(pieces)
    piece: BytesLike = b""
    try:
        for number, size in enumerate(sizes):
            fd = disk.create(paths(number))
            made.append(paths(number))
            try:
                at = 0
                while at < size:
                    piece = piece or next(left, b"")
                    if not len(piece):
                        raise damaged("it has less bytes than its files had")
                    taken = memoryview(piece)[: size - at]
                    disk.write_at(fd, at, taken)
                    at += len(taken)
                    piece = piece[len(taken) :]
                disk.sync(fd)
            finally:
                os.close(fd)
        if len(piece) or next(left, b""):
            raise damaged("it has more bytes than its files had")
    except BaseException:
        for path in made:
            with suppress(OSError):
                disk.unlink(path)
        raise
    return made


def _gathered(pieces: Iterable[BytesLike]) -> Iterator[bytes]:
    """Yield small pieces together."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) >= _BATCH_NBYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _write_recording(
    stored: StoredRecording, path: str, nthreads: int | None, count: "_Counter"
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


class _Counter:
    """Tells of progress now and then."""

    _STEP = 4096

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = self._told = 0

    def add(self, count: int = 1) -> None:
        """Count records."""
        self._done = min(self._done + count, self._total)
        if self._done - self._told >= self._STEP or self._done == self._total:
            self._tell()

    def finish(self) -> None:
        """Tell that all is done."""
        if self._done < self._total:
            self._done = self._total
            self._tell()

    def _tell(self) -> None:
        self._told = self._done
        if self._progress is not None:
            self._progress(self._done, self._total)
