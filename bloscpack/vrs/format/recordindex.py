"""Index of a VRS file: a record that lists the time, size, type and stream of every record.

An entry has no offset. Entries are in file order, and a record starts at the sum of the sizes
before it. A *classic* index counts its entries. A *split* index is the end of a file's first chunk
and grows while the other chunks are written; its complete entries are used even if it is cut off.
`RecordTable` is the index for readers: sorted by time, with offsets.

Allocations are bounded by the file size: a record takes at least 32 bytes of the file. Contract:
any bytes give a value, a `FormatError` or an `UnsupportedError`. Layout: docs/formats/vrs.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...plugin import BytesLike, FormatError, TruncatedError, UnsupportedError, unpack_fields
from . import zstd
from .format import (
    MAX_STREAMS,
    RECORD_HEADER_SIZE,
    Compression,
    RecordHeader,
    RecordType,
    StreamId,
    normal_type_ids,
)

CLASSIC_VERSION = 2
"""Format version of an index that counts its entries. Stored on disk."""
SPLIT_VERSION = 3
"""Format version of an index at the end of a first chunk. Stored on disk."""
ZSTD_LEVEL = 7
"""Zstandard level with which the reference compresses an index."""

INDEX_ENTRY = np.dtype(
    [
        ("timestamp", "<f8"),
        ("size", "<u4"),
        ("record_type", "u1"),
        ("type_id", "<i4"),
        ("instance_id", "<u2"),
    ]
)
"""Entry of one record in the index. Stored on disk, 19 bytes."""

_COUNT = Struct("<I")
_STREAM = np.dtype([("type_id", "<i4"), ("instance_id", "<u2")])

Entries = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class IndexContent:
    """Content of an index record."""

    entries: Entries  # INDEX_ENTRY: one per record, in file order; a copy
    # Streams that the index names, with or without records; empty for a split index.
    stream_ids: list[StreamId]
    # False for a split index that ends within an entry or in damaged bytes, or whose size was never
    # set. Records may then follow that it does not list.
    is_complete: bool = True


def pack_index(
    entries: Entries,
    stream_ids: Iterable[StreamId],
    level: int | None = ZSTD_LEVEL,
) -> bytes:
    """Return the payload of a classic index of `entries` in file order.

    Stream ids are stored sorted. `level` is that of Zstandard, None for none; the counts stay
    uncompressed. The record header of a compressed index has `classic_nbytes` as its uncompressed
    size.
    """
    packed = np.ascontiguousarray(entries, INDEX_ENTRY).tobytes()
    if level is not None:
        packed = zstd.compress(packed, level)
    streams = np.array([tuple(stream_id) for stream_id in sorted(stream_ids)], _STREAM)
    counts = _COUNT.pack(len(streams)), _COUNT.pack(len(entries))
    return b"".join((counts[0], streams.tobytes(), counts[1], packed))


def classic_nbytes(nentries: int, nstreams: int) -> int:
    """Return the payload size in bytes of an uncompressed classic index."""
    return 2 * _COUNT.size + nstreams * _STREAM.itemsize + nentries * INDEX_ENTRY.itemsize


def unpack_index(header: RecordHeader, payload: BytesLike, *, nbytes_present: int) -> IndexContent:
    """Return the entries of an index record; a damaged split index gives those before the damage.

    `payload` has the bytes after the header. Bytes after the last entry of a classic index are
    reserved space and ignored. For a split index whose size was never set (32), it is the rest of
    its chunk. `nbytes_present`, the size of all chunks of the file, bounds the number of entries.
    """
    most = nbytes_present // RECORD_HEADER_SIZE
    if header.format_version == CLASSIC_VERSION:
        return _unpack_classic(header, memoryview(payload), most)
    if header.format_version == SPLIT_VERSION:
        return _unpack_split(header, memoryview(payload), most)
    raise UnsupportedError(
        f"index of version {header.format_version}: this release reads"
        f" {CLASSIC_VERSION} and {SPLIT_VERSION}"
    )


def _unpack_classic(header: RecordHeader, view: memoryview, most: int) -> IndexContent:
    nstreams: int = unpack_fields(_COUNT, view, 0, "index")[0]
    at = _COUNT.size + nstreams * _STREAM.itemsize
    if nstreams > MAX_STREAMS or at > len(view):
        raise FormatError(
            f"index: {nstreams} streams in {len(view)} bytes, at most {MAX_STREAMS}", offset=0
        )
    stored = np.frombuffer(view[_COUNT.size : at], _STREAM)
    stream_ids = [StreamId.from_stored(*pair) for pair in stored.tolist()]
    nentries: int = unpack_fields(_COUNT, view, at, "index")[0]
    if nentries > most:
        raise FormatError(
            f"index: {nentries} records in a file with room for {most}", offset=at, field="count"
        )
    nbytes = nentries * INDEX_ENTRY.itemsize
    body = view[at + _COUNT.size :]
    # The reference decides by the uncompressed size, not by the header's compression field.
    if header.uncompressed_size and nentries:
        try:
            data = zstd.decompress(body, nbytes)
        except FormatError as err:
            raise FormatError(f"index: {err}") from err
    elif nbytes > len(body):
        raise TruncatedError(f"index: {nentries} records in {len(body)} bytes", offset=at)
    else:
        data = bytes(body[:nbytes])
    entries = np.frombuffer(data, INDEX_ENTRY)
    wrong = _find_wrong(entries)
    if wrong < len(entries):
        raise FormatError(f"index: entry {wrong} is invalid: {entries[wrong]}", field="entries")
    return IndexContent(entries, stream_ids)


def _unpack_split(header: RecordHeader, view: memoryview, most: int) -> IndexContent:
    is_complete = header.size > RECORD_HEADER_SIZE or not len(view)
    # While recording, the header has the compression but no sizes yet.
    if header.compression == Compression.ZSTD or header.uncompressed_size:
        data, rest = _decode_frames(view, most * INDEX_ENTRY.itemsize)
    else:
        data, rest = bytes(view[: most * INDEX_ENTRY.itemsize]), len(view)
        rest -= len(data)
    count, extra = divmod(len(data), INDEX_ENTRY.itemsize)
    entries = np.frombuffer(data, INDEX_ENTRY, count)
    good = _find_wrong(entries)
    return IndexContent(entries[:good], [], is_complete and not (rest or extra or good < count))


def _find_wrong(entries: Entries) -> int:
    """Return the index of the first invalid entry; the number of entries if all are valid."""
    types = entries["record_type"]
    good = (types >= RecordType.STATE) & (types <= RecordType.TAGS)
    good &= entries["size"] >= RECORD_HEADER_SIZE
    return len(entries) if good.all() else int(good.argmin())


def _decode_frames(view: memoryview, most: int) -> tuple[bytes, int]:
    """Decode the complete Zstandard frames at the start of `view`, up to `most` bytes in total.

    Returns their content, and the number of bytes of `view` after the last valid frame.
    """
    parts = []
    while len(view):
        try:
            nbytes = zstd.content_nbytes(view)
            if nbytes is None or nbytes > most:
                break
            end = zstd.frame_nbytes(view)
            parts.append(zstd.decompress(view[:end], nbytes))
        except FormatError:
            # This frame is cut off or damaged: keep the frames before it.
            break
        most -= nbytes
        view = view[end:]
    return b"".join(parts), len(view)


@dataclass(frozen=True, slots=True)
class RecordTable:
    """All records of a file in time order, as one array per property.

    Records of equal time are sorted by type id, instance id and offset (reference 1.4.0,
    ``IndexRecord::RecordInfo``). Records whose time is NaN come last.
    """

    timestamp: NDArray[np.float64]  # float64, shape (N,): in seconds
    offset: NDArray[np.int64]  # int64, shape (N,): byte position of the record header
    size: NDArray[np.uint32]  # uint32, shape (N,): bytes in the file, the header included
    record_type: NDArray[np.uint8]  # uint8, shape (N,): a `RecordType`
    stream: NDArray[np.int32]  # int32, shape (N,): ordinal in `streams`
    position: NDArray[np.int64]  # int64, shape (N,): ordinal of the record in file order
    # Sorted: the streams given to `from_entries` and the streams of the records.
    streams: tuple[StreamId, ...]

    def __len__(self) -> int:
        return len(self.timestamp)

    @classmethod
    def from_entries(
        cls,
        entries: Entries,
        offsets: NDArray[np.int64],
        streams: Iterable[StreamId] = (),
    ) -> "RecordTable":
        """Return the table for entries in file order; `streams` are listed without records, too."""
        ids, stream = _find_streams(entries, streams)
        table = cls(
            np.ascontiguousarray(entries["timestamp"]),
            offsets,
            np.ascontiguousarray(entries["size"]),
            np.ascontiguousarray(entries["record_type"]),
            stream,
            np.arange(len(entries)),
            tuple(ids),
        )
        if bool((table.timestamp[1:] > table.timestamp[:-1]).all()):
            return table
        return table.take(_time_order(table.timestamp, stream, offsets))

    def take(self, rows: NDArray[Any] | slice | Sequence[int]) -> "RecordTable":
        """Return the table of some rows, in the order given; `streams` does not change."""
        return RecordTable(
            self.timestamp[rows],
            self.offset[rows],
            self.size[rows],
            self.record_type[rows],
            self.stream[rows],
            self.position[rows],
            self.streams,
        )


def _key(stream_id: StreamId) -> int:
    """Return a number that sorts like the stream id."""
    return stream_id[0] << 16 | stream_id[1]


def _find_streams(
    entries: Entries, streams: Iterable[StreamId]
) -> tuple[list[StreamId], NDArray[np.int32]]:
    """Return the sorted union of `streams` and the entries' streams, and each entry's ordinal."""
    keys = normal_type_ids(entries["type_id"]) << 16 | entries["instance_id"]
    ids = sorted(set(streams))
    known = np.array([_key(stream_id) for stream_id in ids], np.int64)
    stream = np.searchsorted(known, keys)
    # Nearly always, `streams` has them all: checking that is faster than collecting them.
    if not (len(known) and np.array_equal(known.take(stream, mode="clip"), keys)):
        known = np.union1d(known, keys)
        if len(known) > MAX_STREAMS:
            raise FormatError(f"records of {len(known)} streams, at most {MAX_STREAMS}")
        ids = [StreamId(key >> 16, key & 0xFFFF) for key in known.tolist()]
        stream = np.searchsorted(known, keys)
    return ids, stream.astype(np.int32)


def _time_order(
    timestamp: NDArray[np.float64], stream: NDArray[np.int32], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the row numbers sorted by time, stream and offset."""
    # Files are nearly sorted by time, which makes a stable sort of that one column fast.
    order = np.argsort(timestamp, kind="stable")
    times = timestamp[order]
    if bool((times[1:] == times[:-1]).any()) or bool(np.isnan(times[-1:]).any()):
        order = np.lexsort((offsets, stream, timestamp))
    return order.astype(np.int64, copy=False)
