"""Opening files that are truncated, damaged, or described wrongly by their index."""

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from struct import pack, pack_into
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import vrs
from bloscpack.exceptions import BloscpackWarning, FormatError, TruncatedError
from bloscpack.vrs.format.description import Description, pack_description
from bloscpack.vrs.format.format import (
    DESCRIPTION_TYPE_ID,
    FILE_HEADER_SIZE,
    INDEX_TYPE_ID,
    RECORD_HEADER_SIZE,
    Compression,
    FileHeader,
    RecordHeader,
    StreamId,
)
from bloscpack.vrs.format.indexrecord import internal_header
from bloscpack.vrs.format.recordindex import (
    CLASSIC_VERSION,
    INDEX_ENTRY,
    classic_nbytes,
    pack_index,
)
from bloscpack.vrs.recording import Recording

from .recordingfiles import DATA, DBL_MAX, TAGS, Built, Rec, build, numbered, tags_payload

KINDS = [("end", False), ("end", True), ("front", True), ("split", False), ("none", False)]
each_kind = pytest.mark.parametrize(("index", "zstd"), KINDS)


def opened(data: Any, **options: Any) -> Recording:
    return vrs.open(bytes(data), **options)


def payloads(recording: Recording) -> list[bytes]:
    found = [bytes(record.payload) for record in recording]
    assert [recording.read_payload(k) for k in range(len(recording))] == found
    return found


def expected(built: Built, *, without: Any = ()) -> list[bytes]:
    return [rec.payload for k, rec in enumerate(built.records) if k not in without]


@each_kind
def test_whole_files(index: str, zstd: bool) -> None:
    built = build(numbered(9), index, zstd=zstd, file_tags={"a": "b"})
    with opened(built.data) as recording:
        assert payloads(recording) == expected(built)
        assert recording.file_tags == {"a": "b"}
        assert recording.table.offset.tolist() == built.offsets
        place = "" if index == "split" else f" {index}"
        form = "split" if index == "split" else "classic"
        kind = "scanned" if index == "none" else f"{form}{' zstd' * zstd}{place}"
        assert recording.index_kind == kind
        assert recording.report.is_clean == (index != "none")


def test_offsets_beyond_4_gib(tmp_path: Path) -> None:
    """Sizes of 32 bits add up to offsets of 64 bits; the file is mostly a hole."""
    nbytes = (1 << 32) - 1
    path, entries = tmp_path / "a.vrs", np.zeros(3, INDEX_ENTRY)
    entries["timestamp"], entries["size"], entries["record_type"] = range(3), nbytes, 3
    entries["type_id"], entries["instance_id"] = 1201, 1
    payload = pack_index(entries, [StreamId(1201, 1)])
    description = pack_description(Description())
    first = FILE_HEADER_SIZE + RECORD_HEADER_SIZE + len(description)
    end = first + 3 * nbytes
    counts = len(payload), nbytes, Compression.ZSTD, classic_nbytes(3, 1)
    with path.open("wb") as file:
        file.write(FileHeader(1, index_offset=end).pack())
        file.write(internal_header(DESCRIPTION_TYPE_ID, 2, len(description), 0) + description)
        for k, previous in enumerate((first - FILE_HEADER_SIZE, nbytes, nbytes)):
            file.seek(first + k * nbytes)
            file.write(RecordHeader(nbytes, previous, StreamId(1201, 1), 1, k, 3).pack())
        file.seek(end)
        file.write(internal_header(INDEX_TYPE_ID, CLASSIC_VERSION, *counts) + payload)
    with vrs.open(path, index="strict") as recording:
        assert recording.table.offset.tolist() == [first + k * nbytes for k in range(3)]
        assert recording.report.is_clean


@each_kind
def test_a_file_cut_at_every_byte_gives_all_whole_records(index: str, zstd: bool) -> None:
    built = build(numbered(5, 10), index, zstd=zstd, file_tags={"a": "b"})
    size = len(built.data)
    for nbytes in range(80):
        with pytest.raises(TruncatedError):
            opened(built.data[:nbytes])
    for nbytes in range(80, size):
        try:
            recording = opened(built.data[:nbytes])
        except FormatError:  # an index in front, and none of the records it lists
            if built.whole(nbytes) or index not in ("front", "split"):
                raise
            continue
        assert payloads(recording) == expected(built)[: built.whole(nbytes)], nbytes
        assert not recording.report.is_clean


def test_chunks_cut_at_every_byte(tmp_path: Path) -> None:
    built = build(numbered(6, 10), "none")
    first, second = built.offsets[2], built.offsets[4]
    (tmp_path / "x").write_bytes(built.data[:first])
    (tmp_path / "x_1").write_bytes(built.data[first:second])
    for nbytes in range(second, len(built.data) + 1):
        (tmp_path / "x_2").write_bytes(built.data[second:nbytes])
        with vrs.open(tmp_path / "x") as recording:
            assert payloads(recording) == expected(built)[: built.whole(nbytes)]


@each_kind
@pytest.mark.parametrize("cut", [1, 7, 40, 90, 150, 200])
def test_any_cut_into_chunks(tmp_path: Path, index: str, zstd: bool, cut: int) -> None:
    built = build(numbered(8, 30), index, zstd=zstd)
    place = built.offsets[1] + cut
    for number, piece in enumerate((built.data[:place], built.data[place:])):
        (tmp_path / f"x_{number}").write_bytes(piece)
    for where in (tmp_path / "x_0", [tmp_path / "x_0", tmp_path / "x_1"]):
        with vrs.open(where) as recording:
            assert payloads(recording) == expected(built)
            assert recording.report.notes == ()


def test_a_cut_in_the_last_whole_record_of_a_truncated_file(tmp_path: Path) -> None:
    built = build(numbered(8, 30), "none")
    place = built.offsets[6] + 5
    (tmp_path / "x").write_bytes(built.data[:place])
    for nbytes in (0, 32, 40):
        (tmp_path / "x_1").write_bytes(built.data[place : built.offsets[7] + nbytes])
        with vrs.open(tmp_path / "x") as recording:
            assert payloads(recording) == expected(built)[:7]
            assert recording.report.notes == ()


@pytest.mark.parametrize("index", ["end", "front", "none"])
@pytest.mark.parametrize("cut", [0, 1, 33])
def test_an_unrelated_neighbour_is_left_alone(tmp_path: Path, index: str, cut: int) -> None:
    built = build(numbered(6), index)
    other = build([Rec(9.0, b"other" * 9)] * 3, "none")
    size = len(built.data) - cut
    (tmp_path / "x").write_bytes(built.data[:size])
    (tmp_path / "x_1").write_bytes(other.data[other.offsets[1] :])
    with vrs.open(tmp_path / "x") as recording:
        assert payloads(recording) == expected(built)[: built.whole(size)]
        assert recording.source.size() == size
        assert recording.report.notes == ("1 numbered neighbours do not belong to the file",)


def test_a_neighbour_after_a_whole_index_is_left_alone_even_if_it_would_fit(
    tmp_path: Path,
) -> None:
    records = numbered(8, 21)
    built = build([Rec(rec.timestamp, b"same size") for rec in records], "front")
    older = build([Rec(rec.timestamp, b"SAME SIZE") for rec in records], "none")
    (tmp_path / "x").write_bytes(built.data)
    (tmp_path / "x_1").write_bytes(older.data[older.offsets[3] :])
    with vrs.open(tmp_path / "x") as recording:
        assert payloads(recording) == expected(built)


def test_the_head_of_a_split_file_whose_index_was_never_closed(tmp_path: Path) -> None:
    built = build(numbered(6), "split")
    first = built.offsets[0]
    head = bytearray(built.data[:first])
    head[40:48] = bytes(8)
    pack_into("<I", head, built.index_offset, 32)
    for index_nbytes in (0, 19, 50, first - built.index_offset - 32):
        (tmp_path / "x").write_bytes(head[: built.index_offset + 32 + index_nbytes])
        (tmp_path / "x_1").write_bytes(built.data[first:-1])
        with vrs.open(tmp_path / "x") as recording:
            assert payloads(recording) == expected(built)[:5]
            assert recording.report.index_fault is not None


# Format, base and offset from it (of the file, the index or its first entry), and new value.
INDEX, ENTRIES = "index", "entries"
DAMAGES = {
    "count": ("<I", INDEX, 32 + 4 + 6, 3),
    "size": ("<I", ENTRIES, 19 * 2 + 8, 1000),
    "type": ("<B", ENTRIES, 19 * 2 + 12, 9),
    "last time": ("<d", ENTRIES, 19 * 6, 1e9),
    "stream": ("<i", ENTRIES, 13, 242),
    "version": ("<I", INDEX, 12, 4),
    "record size": ("<I", INDEX, 0, 1 << 31),
    "header": ("<B", INDEX, 26, 0),
    "stream count": ("<I", INDEX, 32, 0xFFFFFFFF),
    "offset": ("<q", "file", 24, -5),
    "far offset": ("<q", "file", 24, 1 << 62),
    "first": ("<q", "file", 40, 1 << 40),
}


@pytest.mark.parametrize("index", ["end", "front"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_wrong_index_hides_no_record(index: str, damage: str) -> None:
    built = build(numbered(7), index)
    data = bytearray(built.data)
    form, base, offset, value = DAMAGES[damage]
    start = {"file": 0, INDEX: built.index_offset, ENTRIES: built.index_offset + 32 + 14}[base]
    pack_into(form, data, start + offset, value)
    recording = opened(data)
    assert payloads(recording) == expected(built)
    assert recording.index_kind == "scanned"
    assert recording.report.index_fault in str(recording.report)
    with pytest.raises(FormatError, match="index: "):
        opened(data, index="strict")


@pytest.mark.parametrize(
    ("at", "new", "message"),
    [
        (0, pack("<d", 4.5), r"timestamp 4.0, but the index has 4.5"),
        (12, b"\x01", "record_type 3, but the index has 1"),
        (13, pack("<i", 9), "stream 241-1, but the index has 9-1"),
        (17, pack("<H", 9), "stream 241-1, but the index has 241-9"),
        (8, pack("<I", 64), "size 63, but the index has 64"),
    ],
)
def test_a_wrong_index_entry_is_found_on_reading(at: int, new: bytes, message: str) -> None:
    built = build(numbered(9, 30), "end")
    data = bytearray(built.data)
    entry = built.index_offset + 32 + 14 + 19 * 4
    data[entry + at : entry + at + len(new)] = new
    if at == 8:  # the next record gets that much less
        data[entry + 19 + 8] -= 1
    recording = opened(data)
    assert recording.report.is_clean
    for read in (recording.__getitem__, recording.read_payload):
        with pytest.raises(FormatError, match=rf"record 4 of stream .*: header at .*: {message}"):
            read(4)
    found: list[vrs.Record] = []
    with pytest.raises(FormatError, match=f"record 4 of stream .*: {message}"):
        found.extend(iter(recording))
    assert [record.record_index for record in found] == [0, 1, 2, 3]
    assert recording[8].payload == built.records[8].payload
    recording = opened(data, index="rebuild")
    assert payloads(recording) == expected(built)
    assert recording.report.index_fault == "this was requested"


@pytest.mark.parametrize("index", ["end", "front", "split"])
def test_strict_takes_a_good_index_and_no_other(index: str) -> None:
    built = build(numbered(4), index)
    assert payloads(opened(built.data, index="strict")) == expected(built)
    with pytest.raises(FormatError, match="index: it is missing"):
        opened(build(numbered(4), "none").data, index="strict")


def test_records_that_are_beyond_the_end() -> None:
    built = build(numbered(6), "front")
    recording = opened(built.data[: built.ends[3] + 5])
    assert payloads(recording) == expected(built)[:4]
    assert recording.report.nmissing == 2
    assert "2 records of the index lie beyond the end" in str(recording.report)
    assert recording.index_kind == "classic front"


def test_a_damaged_record_costs_no_other() -> None:
    built = build(numbered(9, 50), "none")
    built.data[built.offsets[4] + 27] = 9
    recording = opened(built.data)
    assert payloads(recording) == expected(built, without={4})
    assert [gap.offset for gap in recording.report.gaps] == [built.offsets[4]]
    stopped = opened(built.data, resync=False)
    assert payloads(stopped) == expected(built)[:4]


def test_bytes_after_the_last_record() -> None:
    for index in ("end", "front", "none"):
        built = build(numbered(3), index)
        recording = opened(built.data + b"junk" * 20)
        assert payloads(recording) == expected(built)
        assert [gap.nbytes for gap in recording.report.gaps] == [80]


@pytest.mark.parametrize("value", [0, -1, 79, 81, 1 << 40])
def test_a_description_that_is_not_where_the_header_says(value: int) -> None:
    for index in ("front", "none"):
        built = build(numbered(3), index, file_tags={"a": "b"})
        pack_into("<q", built.data, 32, value)
        recording = opened(built.data)
        assert payloads(recording) == expected(built)
        (note,) = recording.report.notes
        assert note.startswith("description: ")
        # A scan finds the description anyway.
        assert recording.file_tags == ({"a": "b"} if index == "none" else {})


def test_a_damaged_description() -> None:
    built = build(numbered(3), "end", file_tags={"a": "b"})
    pack_into("<I", built.data, 80 + 32, 0xFFFFFFF0)
    recording = opened(built.data)
    assert payloads(recording) == expected(built)
    assert recording.file_tags == {}
    assert recording.streams["241-1"].tags == {}
    assert "description" in str(recording.report)


def test_tags_records_are_applied_and_hidden() -> None:
    late = (1202, 7)
    tags = tags_payload({"place": "left"}, {"VRS_Serial_Number": "s", "RF:Data:1": "custom"})
    records = [
        *numbered(3),
        Rec(-DBL_MAX, tags, late, TAGS),
        Rec(1.5, b"late", late, DATA),
    ]
    for index in ("end", "front", "none"):
        recording = opened(build(records, index, zstd=True).data)
        assert [record.timestamp for record in recording] == [0.0, 1.0, 1.5, 2.0]
        stream = recording.streams["1202-7"]
        assert (stream.tags, stream.serial_number) == ({"place": "left"}, "s")
        assert stream.counts == {"state": 0, "configuration": 0, "data": 1}
        assert stream.data[0].blocks[0].kind == "custom"
    records[3] = Rec(-DBL_MAX, tags[:-1], late, TAGS)
    recording = opened(build(records).data)
    assert len(recording) == 4
    assert recording.streams["1202-7"].tags == {}
    assert recording.report.notes[0].startswith("tags record of stream 1202-7: ")


def test_times_that_are_nan() -> None:
    nan = float("nan")
    records = [Rec(nan, b"x"), Rec(1.0, b"y"), Rec(nan, b"z"), Rec(-0.0, b"0")]
    for index in ("end", "none"):
        recording = opened(build(records, index).data)
        assert payloads(recording) == [b"0", b"y", b"x", b"z"]
        assert recording.time_range == (0.0, 1.0)


def test_no_records() -> None:
    for index in ("end", "front", "split", "none"):
        streams = {(241, 1): {"user": {"a": "b"}, "vrs": {}}}
        recording = opened(build([], index, streams=streams).data)
        assert len(recording) == len(list(recording)) == 0
        assert [stream.tags for stream in recording.streams.values()] == [{"a": "b"}]
        assert set(recording["241-1"].counts.values()) == {0}
        assert recording["241-1"].time_range is None
        assert recording.time_range is None
        assert recording[:].stream_ids == []


def test_more_records_than_a_file_can_have() -> None:
    built = build(numbered(3), "end")
    pack_into("<I", built.data, built.index_offset + 32 + 4 + 6, 0xFFFFFFFF)
    assert payloads(opened(built.data)) == expected(built)


def test_sizes_are_not_trusted() -> None:
    """A description and an index that claim 4 GB do not make the reader allocate it."""
    built = build(numbered(3), "end")
    for at in (80, built.index_offset):
        data = bytearray(built.data)
        data[at : at + 4] = pack("<I", 0xFFFFFFF0)
        recording = opened(data)
        assert payloads(recording) == expected(built)
        assert [note[:11] for note in recording.report.notes] == ["description"] * (at == 80)


def in_chunks(folder: Path) -> list[Path]:
    """Record 25 records into several files, and return their paths."""
    with vrs.create(folder / "a.vrs", compression="none", chunk_nbytes=400) as recording:
        stream = recording.stream("sample")
        for number in range(25):
            stream.write_payload("data", number, bytes([number]) * 50)
    return [folder / "a.vrs", *sorted(folder.glob("a.vrs_*"), key=lambda path: int(path.name[6:]))]


def test_a_recording_whose_files_were_exchanged_is_not_empty(tmp_path: Path) -> None:
    """This used to open with 0 of 25 records."""
    first, one, two, *_ = in_chunks(tmp_path)
    assert len(vrs.open(first)) == 25
    one.rename(tmp_path / "x")
    two.rename(one)
    (tmp_path / "x").rename(two)
    with pytest.raises(FormatError, match=r"the index lists 25 records, but none of them"):
        vrs.open(first)


def test_a_recording_whose_other_files_are_missing_is_not_empty(tmp_path: Path) -> None:
    first, *others = in_chunks(tmp_path)
    for path in others:
        path.unlink()
    with pytest.raises(
        FormatError, match=r"the files that continue it are missing, or it was truncated"
    ):
        vrs.open(first)


def test_a_recording_with_some_of_its_files_reports_the_rest(tmp_path: Path) -> None:
    first, *others = in_chunks(tmp_path)
    others[-1].unlink()
    recording = vrs.open(first)
    assert 0 < len(recording) < 25
    assert recording.report.nmissing == 25 - len(recording)
    assert "records of the index lie beyond the end of the file" in str(recording.report)


def damaged_and_cut() -> bytes:
    """Return a recording without index, with one damaged record and a truncated last one."""
    built = build(numbered(9, 50), "none")
    built.data[built.offsets[4] + 27] = 9
    return bytes(built.data[:-7])


@pytest.mark.parametrize(
    "use",
    [
        lambda path: vrs.open(path).close(),
        lambda path: bp.frames.open(path).close(),
        lambda path: vrs.copy(path, path.parent / "copy.vrs"),
    ],
    ids=["open", "frames.open", "copy"],
)
def test_a_recording_with_damaged_records_warns_once(
    tmp_path: Path, use: Callable[[Path], Any]
) -> None:
    """This used to be reported only by `recording.report`."""
    path = tmp_path / "a.vrs"
    path.write_bytes(damaged_and_cut())
    with pytest.warns(BloscpackWarning) as caught:
        use(path)
    (warning,) = caught
    assert warning.filename == __file__
    built = build(numbered(9, 50), "none")
    lost = built.ends[4] - built.offsets[4] + built.ends[8] - 7 - built.offsets[8]
    assert str(warning.message).startswith(
        f"{path}: {lost} bytes, the first at byte {built.offsets[4]}, do not belong to a record ("
    )
    assert str(warning.message).endswith(
        "; only the records that were found are read, and recording.report lists the rest"
    )


def test_a_recording_without_its_last_file_warns(tmp_path: Path) -> None:
    first, *others = in_chunks(tmp_path)
    others[-1].unlink()
    with pytest.warns(
        BloscpackWarning, match=r"a\.vrs: \d records of the index lie beyond"
    ) as caught:
        recording = vrs.open(first)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(pickle.loads(pickle.dumps(recording))) == len(recording) < 25


@pytest.mark.parametrize("options", [{}, {"index": "rebuild"}])
def test_a_recording_that_lost_nothing_does_not_warn(options: dict[str, Any]) -> None:
    built = build(numbered(3), "none")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(opened(built.data, **options)) == 3


def test_a_repair_reports_damage_and_does_not_warn(tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    path.write_bytes(damaged_and_cut())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        repaired = vrs.fix_index(path)
        assert len(vrs.open(path)) == repaired.nrecords == 7
    assert any("are not a record" in note for note in repaired.notes)
