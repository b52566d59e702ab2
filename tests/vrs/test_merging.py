"""Merged recordings, compared with a loop over all of their records."""

import os
from pathlib import Path
from typing import Any

import pytest

from bloscpack import vrs
from bloscpack.exceptions import CodecError, NotFoundError
from tests.oracle import Oracle

from . import manifests
from .recordingfiles import Rec, build
from .test_copying import mixed

IMU, IMU_2, CAMERA = (241, 1), (241, 5), (214, 3)
NAME, SERIAL = "VRS_Original_Recordable_Name", "VRS_Serial_Number"

Streams = dict[tuple[int, int], dict[str, dict[str, str]]]


def write(path: Path, records: list[Rec], streams: Streams, **file_tags: str) -> Path:
    described = {id_: {"user": {}, "vrs": {}, **tags} for id_, tags in streams.items()}
    path.write_bytes(build(records, file_tags=file_tags, streams=described).data)
    return path


def found_in(path: Path) -> list[tuple[str, float, bytes]]:
    with vrs.open(path, index="strict") as recording:
        assert recording.report.is_clean
        return [(each.stream_id, each.timestamp, bytes(each.payload)) for each in recording]


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    """Return two recordings of streams 241-1, 214-3 and 214-7, with some equal times."""
    return [
        write(
            tmp_path / f"{seed}.vrs",
            mixed(200, seed),
            {IMU: {}, CAMERA: {}, (214, 7): {}},
            name=f"recording {seed}",
            same="same",
        )
        for seed in (1, 2)
    ]


@pytest.mark.parametrize("compression", [None, "zfast"])
def test_streams_are_joined_and_duplicates_dropped(
    wheel: Oracle, pair: list[Path], tmp_path: Path, compression: str | None
) -> None:
    expected: dict[tuple[Any, ...], list[tuple[str, float, bytes]]] = {}
    total = 0
    for path in pair:
        before = set(expected)
        with vrs.open(path) as recording:
            for record in recording:
                total += 1
                key = record.timestamp, record.stream_id, record.record_type
                if key not in before:
                    row = record.stream_id, record.timestamp, bytes(record.payload)
                    expected.setdefault(key, []).append(row)
    merged = tmp_path / "merged.vrs"
    report = vrs.merge(pair, merged, compression=compression)
    rows = [row for group in expected.values() for row in group]
    found = found_in(merged)
    assert sorted(found) == sorted(rows)
    assert [row[1] for row in found] == sorted(row[1] for row in rows)
    assert report.nrecords == len(rows)
    assert report.nduplicates == report.nskipped == total - len(rows) > 10
    with vrs.open(merged) as recording:
        assert recording.file_tags == {
            "name": "recording 1",
            "name_merged": "recording 2",
            "same": "same",
        }
        checksum = recording.checksum()
    assert wheel("vrs.records_checksum(path, False)", path=str(merged)) == checksum


def test_streams_are_kept_apart(pair: list[Path], tmp_path: Path) -> None:
    report = vrs.merge(pair, tmp_path / "merged.vrs", keep_apart=True)
    renamed = {"241-1": "241-2", "214-3": "214-8", "214-7": "214-9"}
    expected = found_in(pair[0])
    expected += [(renamed[id_], *rest) for id_, *rest in found_in(pair[1])]  # type: ignore[misc]
    found = found_in(tmp_path / "merged.vrs")
    assert sorted(found) == sorted(expected)
    assert (report.nstreams, report.nskipped) == (6, 0)
    with vrs.open(tmp_path / "merged.vrs") as recording:
        for path, ids in zip(pair, ({}, renamed), strict=True):
            with vrs.open(path) as source:
                for name, stream in source.streams.items():
                    merged = recording.streams[ids.get(name, name)]
                    assert merged.serial_number == stream.serial_number
                    assert len(merged.records) == len(stream.records)


def test_the_nth_streams_of_a_type_are_joined(tmp_path: Path) -> None:
    """Streams are joined by order, not by id; an extra stream keeps its id if that is free."""
    first = write(tmp_path / "1.vrs", [Rec(0, b"a", IMU_2)], {IMU_2: {}})
    second = write(
        tmp_path / "2.vrs",
        [Rec(1, b"b", IMU), Rec(2, b"c", IMU_2), Rec(3, b"d", CAMERA)],
        {IMU: {}, IMU_2: {}, CAMERA: {}},
    )
    report = vrs.merge([first, second], tmp_path / "merged.vrs")
    assert found_in(tmp_path / "merged.vrs") == [
        ("241-5", 0, b"a"),
        ("241-5", 1, b"b"),
        ("241-6", 2, b"c"),
        ("214-3", 3, b"d"),
    ]
    assert (report.nstreams, report.nduplicates) == (3, 0)


def test_records_of_one_source_at_the_same_time_stay(tmp_path: Path) -> None:
    first = write(tmp_path / "1.vrs", [Rec(1, b"a"), Rec(1, b"b"), Rec(2, b"c")], {IMU: {}})
    second = write(
        tmp_path / "2.vrs", [Rec(1, b"x"), Rec(2, b"y", type=1), Rec(3, b"z")], {IMU: {}}
    )
    report = vrs.merge([first, second], tmp_path / "merged.vrs")
    assert [row[2] for row in found_in(tmp_path / "merged.vrs")] == [b"a", b"b", b"c", b"y", b"z"]
    assert report.nduplicates == 1
    nan = float("nan")
    first = write(tmp_path / "1.vrs", [Rec(nan, b"a"), Rec(-0.0, b"b")], {IMU: {}})
    second = write(tmp_path / "2.vrs", [Rec(nan, b"c"), Rec(0.0, b"d")], {IMU: {}})
    vrs.merge([first, second], tmp_path / "merged.vrs", overwrite=True)
    assert [row[2] for row in found_in(tmp_path / "merged.vrs")] == [b"b", b"a", b"c"]


def test_tags_are_joined(tmp_path: Path) -> None:
    tags: list[dict[str, dict[str, str]]] = [
        {"user": {"a": "1", "b": "1", "a_merged": "5"}, "vrs": {NAME: "n1", SERIAL: "s1"}},
        {"user": {"a": "2", "b": "1", "c": "3"}, "vrs": {NAME: "n2", SERIAL: "s2", "X": "x"}},
        {"user": {"a": "4"}, "vrs": {SERIAL: "s3", "RF:Data:1": "custom"}},
    ]
    paths = [write(tmp_path / f"{k}.vrs", [], {IMU: tags[k]}) for k in range(3)]
    merged = tmp_path / "merged.vrs"
    vrs.merge(paths, merged, tags={"file": "tag"}, stream_tags={"241-*": {"b": None, "new": "n"}})
    with vrs.open(merged) as recording:
        stream = recording.streams["241-1"]
        assert stream.tags == {
            "a": "1",
            "a_merged": "5",
            "a_merged-1": "2",
            "a_merged-2": "4",
            "c": "3",
            "new": "n",
        }
        assert stream.vrs_tags == {NAME: "n1", SERIAL: "s1", "X": "x", "RF:Data:1": "custom"}
        assert recording.file_tags == {"file": "tag"}


def test_streams_that_look_different_are_not_joined(tmp_path: Path) -> None:
    """Otherwise, records of the second would be decoded by the formats of the first."""
    paths = [
        write(tmp_path / f"{k}.vrs", [Rec(k, b"1234")], {IMU: {"vrs": {"RF:Data:1": text}}})
        for k, text in enumerate(("custom", "data_layout"))
    ]
    merged = tmp_path / "merged.vrs"
    with pytest.raises(ValueError, match=r"241-1.*RF:Data:1.*keep_apart"):
        vrs.merge(paths, merged)
    assert not merged.exists()
    vrs.merge(paths, merged, keep_apart=True)
    with vrs.open(merged) as recording:
        formats = [stream.vrs_tags["RF:Data:1"] for stream in recording.streams.values()]
        assert formats == ["custom", "data_layout"]


def test_filters_apply_to_each_source(pair: list[Path], tmp_path: Path) -> None:
    options: dict[str, Any] = {"streams": "214-*", "after": 20.0, "before": 60.0, "types": "data"}
    cut = []
    for number, path in enumerate(pair):
        vrs.copy(path, tmp_path / f"cut{number}.vrs", **options, decimate={"214-7": 3.0})
        cut.append(tmp_path / f"cut{number}.vrs")
    vrs.merge(cut, tmp_path / "expected.vrs")
    vrs.merge(pair, tmp_path / "merged.vrs", **options, decimate={"214-7": 3.0})
    assert found_in(tmp_path / "merged.vrs") == found_in(tmp_path / "expected.vrs")
    with vrs.open(pair[1]) as recording:
        chosen = recording.filter("241-1")
        vrs.merge([chosen, pair[0]], tmp_path / "mixed.vrs", streams=["241-1"])
        assert len(recording) == 200


def test_names_from_an_iterator(pair: list[Path], tmp_path: Path) -> None:
    names, types = ["241-1", "214-3"], ["data"]
    vrs.merge(pair, tmp_path / "a.vrs", streams=names, types=types)
    vrs.merge(pair, tmp_path / "b.vrs", streams=iter(names), types=iter(types))
    assert found_in(tmp_path / "a.vrs") == found_in(tmp_path / "b.vrs") != []
    vrs.merge(pair, tmp_path / "c.vrs", streams=vrs.StreamId(241, 1))
    assert {stream for stream, *_ in found_in(tmp_path / "c.vrs")} == {"241-1"}


def test_a_stream_that_only_one_source_has(tmp_path: Path) -> None:
    first = write(tmp_path / "1.vrs", [Rec(0, b"a"), Rec(1, b"b")], {IMU: {}})
    second = write(tmp_path / "2.vrs", [Rec(0, b"c", CAMERA)], {CAMERA: {}})
    merged = tmp_path / "merged.vrs"
    vrs.merge([first, second], merged, streams="214-3", decimate={"241-1": 5})
    assert found_in(merged) == [("214-3", 0, b"c")]
    for options in ({"streams": ["214-3", "1-1"]}, {"decimate": {"1-1": 1.0}}):
        with pytest.raises(NotFoundError, match="1-1"):
            vrs.merge([first, second], tmp_path / "no.vrs", **options)  # type: ignore[arg-type]


def test_decimation_by_any_name_of_a_stream(pair: list[Path], tmp_path: Path) -> None:
    merged = tmp_path / "merged.vrs"
    vrs.merge(pair, merged, decimate={"214-3": 5})
    expected = found_in(merged)
    vrs.merge(pair, merged, overwrite=True)
    assert found_in(merged) != expected
    with vrs.open(pair[0]) as recording:
        for name in (vrs.StreamId(*CAMERA), recording.streams["214-3"]):
            vrs.merge(pair, merged, decimate={name: 5}, overwrite=True)
            assert found_in(merged) == expected


def test_wrong_sources(pair: list[Path], tmp_path: Path) -> None:
    with vrs.open(pair[0]) as recording:
        for wrong in ([], iter(()), str(pair[0]), pair[0], recording, recording[:2]):
            with pytest.raises(ValueError, match="sources"):
                vrs.merge(wrong, tmp_path / "merged.vrs")  # type: ignore[arg-type]
    vrs.merge(iter(pair), tmp_path / "from an iterator.vrs")  # type: ignore[arg-type]
    (tmp_path / "from an iterator.vrs").unlink()
    with pytest.raises(FileNotFoundError):
        vrs.merge([*pair, tmp_path / "absent.vrs"], tmp_path / "merged.vrs")
    built = build([Rec(1e6, bytes(500), zstd=True)])
    built.data[built.offsets[0] + 32] ^= 0xFF
    with pytest.raises(CodecError):
        vrs.merge([pair[0], bytes(built.data)], tmp_path / "merged.vrs", compression="none")
    assert sorted(os.listdir(tmp_path)) == ["1.vrs", "2.vrs"]


@manifests.each_vector()
def test_a_vector_merged_with_itself(vector: str, tmp_path: Path) -> None:
    path = manifests.path(vector)
    report = vrs.merge([path, path], tmp_path / "merged.vrs")
    with vrs.open(path) as recording, vrs.open(tmp_path / "merged.vrs") as merged:
        if vector != "enc_nan":  # NaN times do not equal themselves
            assert merged.checksum() == recording.checksum()
            assert report.nduplicates == len(recording)
        assert list(merged.streams) == list(recording.streams)
