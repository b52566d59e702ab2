"""Indexes: packed as in the vectors, salvage of split indexes, impossible sizes, sorting."""

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import BloscpackError, FormatError, TruncatedError, UnsupportedError
from bloscpack.vrs.format.format import (
    RECORD_HEADER_SIZE,
    TIMESTAMP_MAX,
    Compression,
    RecordHeader,
    RecordType,
    StreamId,
)
from bloscpack.vrs.format.recordindex import (
    CLASSIC_VERSION,
    INDEX_ENTRY,
    SPLIT_VERSION,
    ZSTD_LEVEL,
    Entries,
    RecordTable,
    classic_nbytes,
    pack_index,
    unpack_index,
)

from .vectorfiles import NAMES, VectorFile

# Vectors by another version of Zstandard, at another level, or with another order of streams.
NOT_REPRODUCED = {
    "cpy_pixel_formats",
    "cpy_split_zstd",
    "enc_ids",
    "upstream/chunks",
    "upstream/chunks-shuffled",
    "upstream/sample_file",
    "upstream/synthetic",
}
ENOUGH = 1 << 30


def header_of(
    payload: bytes, version: int = CLASSIC_VERSION, uncompressed_size: int = 0, compression: int = 0
) -> RecordHeader:
    size = RECORD_HEADER_SIZE + len(payload)
    return RecordHeader(
        size, 0, StreamId(1, 1), version, TIMESTAMP_MAX, 3, compression, uncompressed_size
    )


def make_entries(n: int, **columns: object) -> Entries:
    entries = np.zeros(n, INDEX_ENTRY)
    entries["timestamp"] = np.arange(n)
    entries["size"] = 40
    entries["record_type"] = RecordType.DATA
    entries["type_id"] = 1201
    entries["instance_id"] = 1
    for name, values in columns.items():
        entries[name] = values
    return entries


@pytest.mark.parametrize("name", NAMES)
def test_packing_gives_the_same_bytes(name: str) -> None:
    file = VectorFile(name)
    if not file.header.index_offset:
        return
    header, payload = file.record(file.header.index_offset)
    if header.format_version != CLASSIC_VERSION or name in NOT_REPRODUCED:
        return
    content = unpack_index(header, payload, nbytes_present=len(file.data))
    level = ZSTD_LEVEL if header.uncompressed_size else None
    packed = pack_index(content.entries, content.stream_ids, level)
    # An index before the records may be followed by reserved space.
    assert payload[: len(packed)] == packed
    assert len(payload) == len(packed) or "slack" in name or name == "enc_front_index"
    if level is not None:
        nbytes = classic_nbytes(len(content.entries), len(content.stream_ids))
        assert header.uncompressed_size == nbytes


@pytest.mark.parametrize("name", [name for name in NAMES if "split" in name or "chunked" in name])
def test_a_cut_split_index_gives_what_is_whole(name: str) -> None:
    file = VectorFile(name)
    header, payload = file.record(file.header.index_offset)
    if header.format_version != SPLIT_VERSION:
        return
    whole = unpack_index(header, payload, nbytes_present=len(file.data)).entries
    for end in range(0, len(payload), 7):
        cut = unpack_index(header, payload[:end], nbytes_present=len(file.data))
        assert cut.entries.tobytes() == whole[: len(cut.entries)].tobytes()
        if not header.compression:
            assert len(cut.entries) == end // INDEX_ENTRY.itemsize
        assert cut.is_complete == (end % INDEX_ENTRY.itemsize == 0 and not header.compression) or (
            end == 0
        )


def test_split_frames_before_a_damaged_one_count() -> None:
    entries = make_entries(300)
    compressor = zstandard.ZstdCompressor(7, write_checksum=True)
    frames = [compressor.compress(entries[i : i + 100].tobytes()) for i in (0, 100, 200)]
    # The size of the record and the uncompressed size are set when the file is closed.
    header = header_of(b"", SPLIT_VERSION, compression=Compression.ZSTD)
    whole = unpack_index(header, b"".join(frames), nbytes_present=ENOUGH)
    assert whole.entries.tobytes() == entries.tobytes()
    assert not whole.is_complete
    damaged = bytearray(frames[1])
    damaged[-6] ^= 0xFF
    part = unpack_index(header, frames[0] + damaged + frames[2], nbytes_present=ENOUGH)
    assert part.entries.tobytes() == entries[:100].tobytes()
    done = header_of(b"".join(frames), SPLIT_VERSION, 300 * INDEX_ENTRY.itemsize, Compression.ZSTD)
    assert unpack_index(done, b"".join(frames), nbytes_present=ENOUGH).is_complete
    # A file of this size has no room for more than the first hundred.
    few = unpack_index(done, b"".join(frames), nbytes_present=100 * RECORD_HEADER_SIZE)
    assert len(few.entries) == 100
    assert not few.is_complete


def test_split_entries_before_an_impossible_one_count() -> None:
    entries = make_entries(5, record_type=[3, 3, 3, 9, 3])
    content = unpack_index(
        header_of(entries.tobytes(), SPLIT_VERSION), entries.tobytes(), nbytes_present=ENOUGH
    )
    assert len(content.entries) == 3
    assert not content.is_complete


@pytest.mark.parametrize("level", [None, ZSTD_LEVEL])
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_round_trip_with_slack(n: int, level: int | None) -> None:
    entries, streams = make_entries(n), [StreamId(1201, 2), StreamId(1201, 1)]
    payload = pack_index(entries, streams, level) + b"\xaa" * 50
    nbytes = 0 if level is None else classic_nbytes(n, 2)
    content = unpack_index(
        header_of(payload, uncompressed_size=nbytes), payload, nbytes_present=ENOUGH
    )
    assert content.entries.tobytes() == entries.tobytes()
    assert content.stream_ids == sorted(streams)


@pytest.mark.parametrize("level", [None, ZSTD_LEVEL])
def test_every_prefix_of_a_classic_index_is_refused(level: int | None) -> None:
    payload = pack_index(make_entries(9), [StreamId(1201, 1)], level)
    header = header_of(payload, uncompressed_size=level and classic_nbytes(9, 1))
    for end in range(len(payload)):
        with pytest.raises(FormatError):
            unpack_index(header, payload[:end], nbytes_present=ENOUGH)


def test_more_records_than_the_file_has_room_for() -> None:
    payload = pack_index(make_entries(1000), [])
    header = header_of(payload, uncompressed_size=classic_nbytes(1000, 0))
    room = 1000 * RECORD_HEADER_SIZE
    assert len(unpack_index(header, payload, nbytes_present=room).entries) == 1000
    with pytest.raises(FormatError, match="room for 999"):
        unpack_index(header, payload, nbytes_present=room - 1)


def test_a_frame_that_claims_another_size() -> None:
    payload = b"\0" * 4 + (5).to_bytes(4, "little")
    frame = zstandard.ZstdCompressor().compress(make_entries(6).tobytes())
    header = header_of(b"", uncompressed_size=1)
    with pytest.raises(FormatError, match="expected 95"):
        unpack_index(header, payload + frame, nbytes_present=ENOUGH)
    unknown = zstandard.ZstdCompressor(write_content_size=False)
    with pytest.raises(FormatError, match="expected 95"):
        unpack_index(
            header, payload + unknown.compress(make_entries(5).tobytes()), nbytes_present=ENOUGH
        )


@pytest.mark.parametrize(
    ("column", "value"), [("record_type", 0), ("record_type", 5), ("size", 31)]
)
def test_entries_that_are_not_records(column: str, value: int) -> None:
    entries = make_entries(3)
    entries[column][1] = value
    payload = pack_index(entries, [], None)
    with pytest.raises(FormatError, match="entry 1"):
        unpack_index(header_of(payload), payload, nbytes_present=ENOUGH)


def test_a_stream_count_that_cannot_be() -> None:
    payload = b"\xff" * 64
    with pytest.raises(FormatError, match="4294967295 streams"):
        unpack_index(header_of(payload), payload, nbytes_present=ENOUGH)
    with pytest.raises(TruncatedError):
        unpack_index(header_of(b""), b"\0\0", nbytes_present=ENOUGH)


def test_other_versions() -> None:
    with pytest.raises(UnsupportedError, match="version 4"):
        unpack_index(header_of(b"", 4), b"", nbytes_present=ENOUGH)


@given(
    st.binary(max_size=120),
    st.sampled_from([CLASSIC_VERSION, SPLIT_VERSION]),
    st.integers(0, 2),
    st.sampled_from([0, 1, 19]),
    st.booleans(),
)
def test_any_bytes(
    data: bytes, version: int, compression: int, uncompressed_size: int, has_frame: bool
) -> None:
    if has_frame:
        data = zstandard.ZstdCompressor().compress(data)[:-1] + data
    header = header_of(data, version, uncompressed_size, compression)
    try:
        content = unpack_index(header, data, nbytes_present=1000)
    except BloscpackError:
        return
    assert len(content.entries) <= 1000 // RECORD_HEADER_SIZE


def test_the_table_is_sorted_by_time_stream_and_offset() -> None:
    entries = make_entries(
        6,
        timestamp=[2, 1, 1, np.nan, 1, 1],
        type_id=[1, 9, 9, 1, 9, 2],
        instance_id=[1, 2, 1, 1, 1, 7],
        size=[32, 33, 34, 35, 36, 2**32 - 1],
    )
    starts = np.cumsum([100, 32, 33, 34, 35, 36])
    table = RecordTable.from_entries(entries, starts, [StreamId(5, 5)])
    assert table.position.tolist() == [5, 2, 4, 1, 0, 3]
    assert table.streams == tuple(
        StreamId(*pair) for pair in [(1, 1), (2, 7), (5, 5), (9, 1), (9, 2)]
    )
    assert table.stream.tolist() == [1, 3, 3, 4, 0, 0]
    assert table.offset.tolist() == starts[table.position].tolist()


def test_given_offsets_and_legacy_ids() -> None:
    entries = make_entries(2, type_id=[100_002, 65_501])
    table = RecordTable.from_entries(entries, np.array([7, 5]))
    assert table.offset.tolist() == [7, 5]
    assert table.streams == (StreamId(65_501, 1), StreamId(65_502, 1))
    assert table.stream.tolist() == [1, 0]


def test_an_empty_table() -> None:
    table = RecordTable.from_entries(make_entries(0), np.arange(0), [StreamId(1, 1)])
    assert len(table) == 0
    assert table.streams == (StreamId(1, 1),)
