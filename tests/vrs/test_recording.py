"""A recording as a sequence: indexing, selections, streams, times; processes and threads."""

import copy
import gc
import io
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import vrs
from bloscpack.exceptions import CodecError, FileChangedError, NotFoundError, TruncatedError
from bloscpack.vrs.format.format import RecordType, StreamId
from bloscpack.vrs.recording import Recording

from ..openfiles import open_files
from .recordingfiles import CONFIGURATION, DATA, IMU, STATE, Rec, build, numbered

CAMERA, OTHER = (214, 1), (214, 3)
STREAMS = {
    IMU: {
        "user": {"place": "left", "rate": "1"},
        "vrs": {"VRS_Original_Recordable_Name": "My IMU", "VRS_Serial_Number": "i"},
    },
    CAMERA: {"user": {"place": "right"}, "vrs": {"VRS_Recordable_Flavor": "x/y"}},
    OTHER: {"user": {}, "vrs": {}},
}
RECORDS = [
    Rec(0.0, b"configuration", IMU, CONFIGURATION),
    Rec(0.0, b"state", CAMERA, STATE),
    *[Rec(0.5 + k, b"imu %d" % k * 20, IMU, DATA, zstd=k % 2 > 0) for k in range(10)],
    *[Rec(0.75 + 2 * k, b"camera %d" % k * 20, CAMERA, DATA, version=k % 2) for k in range(4)],
]
IN_TIME = sorted(RECORDS, key=lambda rec: (rec.timestamp, rec.stream))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.vrs"
    path.write_bytes(build(RECORDS, streams=STREAMS).data)
    return path


@pytest.fixture
def recording(path: Path) -> Iterator[Recording]:
    with vrs.open(path) as recording:
        yield recording


def seen(records: Any) -> list[tuple[str, str, float, int, bytes]]:
    return [
        (rec.stream_id, rec.record_type, rec.timestamp, rec.format_version, bytes(rec.payload))
        for rec in records
    ]


def wanted(records: Any) -> list[tuple[str, str, float, int, bytes]]:
    names = {STATE: "state", CONFIGURATION: "configuration", DATA: "data"}
    return [
        ("{}-{}".format(*rec.stream), names[rec.type], rec.timestamp, rec.version, rec.payload)
        for rec in records
    ]


def test_a_sequence_in_the_order_of_time(recording: Recording, path: Path) -> None:
    assert len(recording) == len(RECORDS)
    assert seen(recording) == wanted(IN_TIME)
    assert seen(recording[k] for k in range(len(RECORDS))) == wanted(IN_TIME)
    assert [record.record_index for record in recording] == list(range(len(RECORDS)))
    assert seen([recording[-1], recording[-len(RECORDS)]]) == wanted([IN_TIME[-1], IN_TIME[0]])
    assert seen(reversed(recording)) == wanted(IN_TIME[::-1])
    for index in (len(RECORDS), -len(RECORDS) - 1):
        with pytest.raises(IndexError, match=f"record {index} of a recording of 16"):
            recording[index]
        with pytest.raises(IndexError):
            recording.read_payload(index)
    with pytest.raises(TypeError):
        recording[1.5]  # type: ignore[call-overload]
    assert recording.read_payload(-1) == IN_TIME[-1].payload
    assert repr(recording) == f"<bloscpack.vrs.Recording {str(path)!r} of 16 records>"


@pytest.mark.parametrize(
    "picked", [slice(3, 9), slice(None, None, -1), slice(-4, None), slice(5, 5), slice(1, 99, 4)]
)
def test_slices(recording: Recording, picked: slice) -> None:
    part = recording[picked]
    assert len(part) == len(IN_TIME[picked])
    assert seen(part) == wanted(IN_TIME[picked])
    assert part.rows.tolist() == list(range(len(RECORDS)))[picked]
    assert seen(part[1:]) == wanted(IN_TIME[picked][1:])
    assert part.timestamps.tolist() == [rec.timestamp for rec in IN_TIME[picked]]
    for index in (len(part), -len(part) - 1):
        with pytest.raises(IndexError, match="of a selection of"):
            part[index]


def test_streams(recording: Recording) -> None:
    assert list(recording.streams) == ["214-1", "214-3", "241-1"]
    imu = recording.streams["241-1"]
    assert recording["241-1"] == imu
    assert imu != recording["214-1"]
    assert len({imu, recording["241-1"]}) == 1
    assert (imu.id, imu.type_id, imu.instance_id) == ("241-1", 241, 1)
    assert (imu.name, imu.flavor, imu.serial_number) == ("My IMU", "", "i")
    assert imu.tags == {"place": "left", "rate": "1"}
    assert imu.vrs_tags == STREAMS[IMU]["vrs"]
    assert imu.counts == {"state": 0, "configuration": 1, "data": 10}
    assert imu.time_range == (0.0, 9.5)
    assert imu.timestamps.tolist() == [0.5 + k for k in range(10)]
    assert seen(imu.records) == wanted(rec for rec in IN_TIME if rec.stream == IMU)
    assert seen(imu.configurations) == wanted([RECORDS[0]])
    camera, other = recording.streams["214-1"], recording.streams["214-3"]
    assert (camera.name, camera.flavor) == ("RGB Camera Class", "x/y")
    assert len(camera.serial_number) == 16
    assert seen(camera.states) == wanted([RECORDS[1]])
    assert seen(camera.data) == wanted(RECORDS[-4:])
    assert (other.counts["data"], other.time_range, other.tags) == (0, None, {})
    assert "241-1" in recording.streams
    for missing in ("241-2", "imu", "1"):
        assert missing not in recording.streams
        with pytest.raises(NotFoundError, match="there are 214-1, 214-3, 241-1"):
            recording.streams[missing]


def test_returned_containers_are_copies(recording: Recording) -> None:
    recording.file_tags["a"] = "b"
    recording["241-1"].tags["a"] = "b"
    recording["241-1"].timestamps[:] = 0
    assert recording.file_tags == {}
    assert "a" not in recording["241-1"].tags
    assert recording["241-1"].timestamps[1] == 1.5


def test_find_stream(recording: Recording) -> None:
    assert recording.find_stream(241).id == "241-1"
    assert recording.find_stream(214, "place", "right").id == "214-1"
    assert recording.find_stream(tag="rate").id == "241-1"
    assert [stream.id for stream in recording.find_streams(214)] == ["214-1", "214-3"]
    assert [stream.id for stream in recording.find_streams(tag="place")] == ["214-1", "241-1"]
    assert [stream.id for stream in recording.find_streams(value="left")] == ["241-1"]
    with pytest.raises(NotFoundError, match="no stream of type 214, tag 'place', value 'left'"):
        recording.find_stream(214, "place", "left")


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        ({"streams": "241-1"}, lambda rec: rec.stream == IMU),
        ({"streams": ["214-*"]}, lambda rec: rec.stream == CAMERA),
        ({"streams": ["2*", "241-1"]}, lambda rec: True),
        ({"streams": "9-*"}, lambda rec: False),
        ({"streams": StreamId(241, 1)}, lambda rec: rec.stream == IMU),
        ({"types": "state"}, lambda rec: rec.type == STATE),
        ({"types": ["state", RecordType.CONFIGURATION]}, lambda rec: rec.type != DATA),
        ({"after": 0.5, "before": 3.5}, lambda rec: 0.5 <= rec.timestamp <= 3.5),
        ({"types": "data", "after": 9.5}, lambda rec: rec.type == DATA and rec.timestamp >= 9.5),
    ],
)
def test_filter(recording: Recording, options: Any, keep: Any) -> None:
    chosen = recording.filter(**options)
    assert seen(chosen) == wanted(filter(keep, IN_TIME))
    assert seen(recording[2:].filter(**options)) == wanted(filter(keep, IN_TIME[2:]))
    for record in chosen:
        assert seen([recording[record.record_index]]) == seen([record])


def test_filters_in_a_row(recording: Recording) -> None:
    camera = recording["214-1"]
    chosen = recording.filter(streams=[camera]).filter(types="data").filter(after=1.0)
    assert seen(chosen) == wanted(RECORDS[-3:])
    assert chosen.stream_ids == ["214-1"]
    assert chosen.record_types == {"data"}
    assert chosen.time_range == (2.75, 6.75)
    assert recording.stream_ids == ["214-1", "241-1"]
    assert recording.record_types == {"data", "state", "configuration"}
    with pytest.raises(NotFoundError, match="no stream '241-9'"):
        recording.filter("241-9")
    with pytest.raises(ValueError, match="expected one of state, configuration, data"):
        recording.filter(types="datum")
    with pytest.raises(ValueError, match="record type"):
        recording.filter(types=RecordType.TAGS)
    with pytest.raises(TypeError, match="expected a stream or its id"):
        recording.filter(5)


def test_nearest(recording: Recording) -> None:
    assert recording.nearest(0.6).timestamp == 0.5
    assert recording.nearest(-9).timestamp == 0.0
    assert recording.nearest(99).timestamp == 9.5
    assert recording.nearest(0.625).timestamp == 0.5  # the earlier of two equally near
    assert recording.nearest(3.0, "214-1").timestamp == 2.75
    assert recording.nearest(9.0, record_type="configuration").timestamp == 0.0
    assert recording.nearest(9.0, recording["214-1"], "data", tolerance=2.25).timestamp == 6.75
    for options in (
        {"tolerance": 0.1},
        {"stream": "214-3"},
        {"record_type": "state", "stream": IMU},
    ):
        with pytest.raises((NotFoundError, TypeError)):
            recording.nearest(4.0, **options)  # type: ignore[arg-type]


def test_nearest_rows_against_a_loop(recording: Recording) -> None:
    times = np.linspace(-1, 11, 97)
    for stream, tolerance in ((None, None), ("241-1", 0.3), ("214-1", 1.0)):
        chosen = recording if stream is None else recording.filter(stream)
        rows, known = chosen.rows, chosen.timestamps
        found = recording.nearest_rows(times, stream, tolerance=tolerance)
        for time, row in zip(times, found.tolist(), strict=True):
            gaps = np.abs(known - time)
            best = int(gaps.argmin())
            assert row == (rows[best] if gaps[best] <= (tolerance or 99) else -1)
    assert recording.nearest_rows([], "214-3").tolist() == []
    assert recording.nearest_rows([1.0, 2.0], "214-3").tolist() == [-1, -1]
    assert recording.nearest_rows([float("nan")]).tolist() == [-1]


def test_payloads_of_all_sizes_in_one_run() -> None:
    sizes = [0, 1, 65503, 65504, 65505, 1 << 20, 3, (1 << 20) + 7, 0, *range(100), 300_000, 5]
    records = [Rec(float(k), os.urandom(size)) for k, size in enumerate(sizes)]
    recording = vrs.open(bytes(build(records).data))
    assert seen(recording) == wanted(records)
    assert seen(recording[::-1]) == wanted(records[::-1])
    assert seen(recording[::7]) == wanted(records[::7])
    assert all(type(record.payload) is bytes for record in recording)


class CountingFile(io.BytesIO):
    """File that counts its reads."""

    nreads = 0

    def read(self, *args: Any) -> bytes:
        CountingFile.nreads += 1
        return super().read(*args)


def test_large_records_are_read_alone_and_those_between_them_together() -> None:
    sizes = [*[20_000] * 5, 70_000, 70_000, *[10] * 9, 80_000, 10]
    records = [Rec(float(k), os.urandom(size)) for k, size in enumerate(sizes)]
    recording = vrs.open(CountingFile(bytes(build(records).data)))
    CountingFile.nreads = 0
    assert seen(recording) == wanted(records)
    # Runs of 1, 3 and 1, of 9, and of 1 records; header and payload of each large one.
    assert CountingFile.nreads == 5 + 3 * 2


def test_iterating_reads_ahead() -> None:
    records = numbered(20_000)
    recording = vrs.open(CountingFile(bytes(build(records).data)))
    CountingFile.nreads = 0
    assert sum(len(record.payload) for record in recording) == sum(len(r.payload) for r in records)
    assert CountingFile.nreads < 12
    CountingFile.nreads = 0
    next(iter(recording))
    assert CountingFile.nreads == 1
    CountingFile.nreads = 0
    _ = recording[777]
    assert CountingFile.nreads == 1


def test_records_in_another_order_than_in_the_file() -> None:
    records = numbered(600, 300)
    order = np.random.default_rng(1).permutation(len(records))
    recording = vrs.open(bytes(build([records[k] for k in order]).data))
    assert seen(recording) == wanted(records)
    assert recording.table.position[recording.table.position.argsort()].tolist() == list(range(600))


def test_a_file_that_is_cut_while_it_is_open(path: Path) -> None:
    with vrs.open(path) as recording:
        offsets = recording.table.offset
        os.truncate(path, offsets[9] + 3)
        found: list[vrs.Record] = []
        with pytest.raises(TruncatedError, match="record 9 of stream") as caught:
            found.extend(iter(recording))
        assert seen(found) == wanted(IN_TIME[:9])
        assert caught.value.path == str(path)
        for row in range(len(recording)):
            if offsets[row] < offsets[9]:
                assert seen([recording[row]]) == wanted([IN_TIME[row]])
            else:
                with pytest.raises(TruncatedError, match=f"record {row} of stream"):
                    recording[row]


@pytest.mark.parametrize("where", ["file", "memory"])
def test_large_compressed_records(tmp_path: Path, where: str) -> None:
    rng = np.random.default_rng(4)
    records = [Rec(k, rng.bytes(100_000 + k) * 2, IMU, DATA, zstd=k % 3 > 0) for k in range(6)]
    built, path = build(records), tmp_path / "large.vrs"
    path.write_bytes(built.data)
    with vrs.open(path if where == "file" else bytes(built.data)) as recording:
        assert seen(recording) == wanted(records)
        assert seen([recording[k] for k in (4, 1, 4)]) == wanted([records[k] for k in (4, 1, 4)])

    with vrs.open(path) as recording:
        os.truncate(path, built.ends[4] - 1)
        kept = recording[1]
        message = r"record 4 of stream .*: found 100\d+ of its 100\d+ bytes"
        with pytest.raises(TruncatedError, match=message):
            recording[4]
        with pytest.raises(TruncatedError, match="record 5 of stream"):
            recording[5]
        assert seen([kept]) == wanted(records[1:2])

    path.write_bytes(
        built.data[: built.offsets[1] + 32] + b"?" + built.data[built.offsets[1] + 33 :]
    )
    with vrs.open(path) as recording:
        with pytest.raises(CodecError, match=r"record 1 of stream .*no such frame"):
            recording[1]
        assert seen(recording[2:]) == wanted(records[2:])


def test_closing(path: Path) -> None:
    recording = vrs.open(path)
    record = recording[2]
    recording.close()
    recording.close()
    assert record.payload == IN_TIME[2].payload
    for use in (lambda: recording[0], lambda: list(recording), lambda: pickle.dumps(recording)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_recording_that_is_dropped_is_closed_at_once(path: Path) -> None:
    gc.disable()
    try:
        recording = vrs.open(path)
        _ = [record.blocks for record in recording.filter(types="data")], recording["241-1"].data
        del recording, _
        assert open_files(path) == []
    finally:
        gc.enable()


def test_options_are_checked(path: Path) -> None:
    with pytest.raises(ValueError, match="mode must be 'r', not 'w'"):
        vrs.open(path, "w")
    with pytest.raises(ValueError, match="index must be one of auto, rebuild, strict, not 'no'"):
        vrs.open(path, index="no")


@pytest.mark.parametrize("carry", [lambda part: pickle.loads(pickle.dumps(part)), copy.copy])
def test_parts_of_a_recording_are_pickled(recording: Recording, carry: Any) -> None:
    sliced, filtered, stream, streams, both = map(
        carry,
        (
            recording[2:9:3],
            recording.filter("241-1", "data"),
            recording["214-1"],
            recording.streams,
            [recording, recording["241-1"].data],
        ),
    )
    assert seen(sliced) == wanted(IN_TIME[2:9:3])
    assert seen(filtered[3:]) == wanted(
        [r for r in IN_TIME if r.stream == IMU and r.type == DATA][3:]
    )
    assert stream.tags == {"place": "right"}
    assert seen(stream.data) == wanted(
        [r for r in IN_TIME if r.stream == CAMERA and r.type == DATA]
    )
    assert list(streams) == ["214-1", "214-3", "241-1"]
    again, part = both
    assert part._content is again._content, "a recording is opened once"


def test_parts_are_pickled_without_decoders(recording: Recording) -> None:
    assert [record.blocks for record in recording] == [()] * len(RECORDS)
    most = len(pickle.dumps(recording)) + 300
    for part in (recording[:2], recording["214-1"], recording.streams):
        assert len(pickle.dumps(part)) < most


def test_pickles_as_its_path_and_options(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with vrs.open("x.vrs", index="rebuild", nthreads=3) as recording:
        data = pickle.dumps((recording, recording[3]))
    monkeypatch.chdir("/")
    again, record = pickle.loads(data)
    assert seen(again) == wanted(IN_TIME)
    assert (again.index_kind, again.nthreads) == ("scanned", 3)
    assert seen([record]) == wanted([IN_TIME[3]])
    again.close()
    path.write_bytes(build(RECORDS, streams=STREAMS, creation_id=9).data)
    with pytest.raises(FileChangedError, match="open it again"):
        pickle.loads(data)


def test_pickles_of_other_places(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    assert seen(pickle.loads(pickle.dumps(vrs.open(data)))) == wanted(IN_TIME)
    (tmp_path / "a").write_bytes(data[:900])
    (tmp_path / "b").write_bytes(data[900:])
    with vrs.open([tmp_path / "a", tmp_path / "b"]) as recording:
        again = pickle.loads(pickle.dumps(recording))
        assert seen(again) == wanted(IN_TIME)
        again.close()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(vrs.open(io.BytesIO(data)))


def test_selections_outlive_the_recording(path: Path) -> None:
    chosen = vrs.open(path).filter("214-1", "data")
    assert seen(chosen) == wanted(RECORDS[-4:])
