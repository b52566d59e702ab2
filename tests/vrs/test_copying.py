"""Copies of all or part of a recording, which differ from the source only where options say so."""

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import vrs
from bloscpack.exceptions import CodecError, NotFoundError, UnsupportedError
from bloscpack.storage import disk
from bloscpack.vrs.format.format import Compression
from bloscpack.vrs.read.recordreader import EncodedRecord
from tests.faults.disk import Crash, StoppingDisk, installed
from tests.oracle import Oracle

from . import manifests
from .recordingfiles import CONFIGURATION, DATA, STATE, Rec, build, numbered

CAMERA, OTHER = (214, 3), (214, 7)
WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "end": {"index": "end", "compression": "zlight"},
    "plain": {"compression": "none"},
}


def encoded(recording: vrs.RecordSequence) -> list[EncodedRecord]:
    return list(recording._content.reader.iter_encoded(recording.rows))


def payloads(path: Path) -> list[bytes]:
    with vrs.open(path) as recording:
        assert recording.report.is_clean
        return [bytes(record.payload) for record in recording]


def mixed(count: int = 300, seed: int = 1) -> list[Rec]:
    """Return records of three streams and all types, with ascending and some equal times."""
    choose = random.Random(seed)
    found, time = [], 0.0
    for number in range(count):
        time += choose.choice([0.0, 0.5, 1.0])
        found.append(
            Rec(
                time,
                bytes([number % 256]) * choose.choice([3, 40, 400]),
                stream=choose.choice([(241, 1), CAMERA, OTHER]),
                type=choose.choice([DATA, DATA, DATA, CONFIGURATION, STATE]),
                zstd=choose.random() < 0.3,
            )
        )
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.vrs"
    path.write_bytes(build(mixed(), zstd=True, file_tags={"a": "b"}).data)
    return path


@manifests.each_vector()
@pytest.mark.parametrize("way", [*WAYS, "chunks"])
def test_a_whole_copy_has_the_checksum_of_its_source(
    wheel: Oracle, vector: str, way: str, tmp_path: Path
) -> None:
    path, copy = manifests.path(vector), tmp_path / "copy.vrs"
    options = WAYS.get(way, {"chunk_nbytes": path.stat().st_size // 3 + 1})
    report = vrs.copy(path, copy, **options)
    expected = manifests.load(vector)["oracle_records_checksum"]
    with vrs.open(path) as before, vrs.open(copy) as after:
        assert after.checksum() == expected
        assert after.report.is_clean
        assert list(after.streams) == list(before.streams)
        assert report.nrecords == len(before)
        assert report.paths == tuple(part.source.name for part in after.source.parts)
        assert report.nbytes == after.source.size()
        if way in ("as it is", "chunks"):
            assert list(map(repr, encoded(after))) == list(map(repr, encoded(before)))
        if way != "chunks":
            assert ("front" in after.index_kind) == (way != "end")
    assert wheel("vrs.records_checksum(path, False)", path=str(copy)) == expected
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, report.paths))


def test_an_index_in_front_has_the_room_it_needs(source: Path, tmp_path: Path) -> None:
    front, end = tmp_path / "front.vrs", tmp_path / "end.vrs"
    assert vrs.copy(source, front).nbytes == vrs.copy(source, end, index="end").nbytes
    vrs.copy(source, front, compression="zmax", overwrite=True)
    with vrs.open(front) as recording:
        assert recording.index_kind == "classic zstd front"


@pytest.mark.parametrize(
    "options",
    [
        {"streams": "214-*"},
        {"streams": ["241-1", "214-7"], "types": "data"},
        {"types": ["state", "configuration"]},
        {"before": 70.0},
        {"streams": "214-?", "types": "data", "before": 30.5},
    ],
)
def test_filters(source: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    with vrs.open(source) as recording:
        table = recording.table
        keep = np.ones(len(recording), bool)
        names = np.array([str(id_) for id_ in table.streams])[table.stream]
        if "streams" in options:
            chosen = {"214-*": ["214-3", "214-7"], "214-?": ["214-3", "214-7"]}
            wanted = options["streams"]
            keep &= np.isin(names, chosen[wanted] if isinstance(wanted, str) else wanted)
        kinds = {"data": DATA, "state": STATE, "configuration": CONFIGURATION}
        if "types" in options:
            wanted = options["types"]
            wanted = [wanted] if isinstance(wanted, str) else wanted
            keep &= np.isin(table.record_type, [kinds[kind] for kind in wanted])
        keep &= table.timestamp <= options.get("before", np.inf)
        expected = [bytes(recording[int(row)].payload) for row in np.flatnonzero(keep)]
        times = table.timestamp[keep]
    report = vrs.copy(source, tmp_path / "copy.vrs", **options)
    assert payloads(tmp_path / "copy.vrs") == expected
    assert 0 < report.nrecords == keep.sum() == len(keep) - report.nskipped
    with vrs.open(tmp_path / "copy.vrs") as copy:
        assert copy.timestamps.tolist() == times.tolist()
        assert set(copy.streams) == (
            {"241-1", "214-7"}
            if isinstance(options.get("streams"), list)
            else {"214-3", "214-7"}
            if "streams" in options
            else {"241-1", "214-3", "214-7"}
        )


def test_names_from_an_iterator(source: Path, tmp_path: Path) -> None:
    report = vrs.copy(source, tmp_path / "copy.vrs", streams=iter(["214-3"]), types=iter(["data"]))
    with vrs.open(source) as before, vrs.open(tmp_path / "copy.vrs", index="strict") as copy:
        assert report.nstreams == 1
        assert list(copy.streams) == ["214-3"]
        assert len(copy) == len(before.filter("214-3", "data"))
        assert dict(copy.streams["214-3"].tags) == dict(before.streams["214-3"].tags)


def test_a_trim_keeps_the_last_settings_before_it(source: Path, tmp_path: Path) -> None:
    vrs.copy(source, tmp_path / "copy.vrs", after=60.0, before=90.0)
    with vrs.open(source) as recording:
        last: dict[tuple[str, str], bytes] = {}
        inside = []
        for record in recording:
            key = record.stream_id, record.record_type
            if record.timestamp < 60 and record.record_type != "data":
                last[key] = bytes(record.payload)
            if 60 <= record.timestamp <= 90:
                inside.append(bytes(record.payload))
    found = payloads(tmp_path / "copy.vrs")
    assert len(last) == 6
    assert found[6:] == inside
    assert sorted(found[:6]) == sorted(last.values())
    assert any(record.timestamp == 60.0 for record in recording_of(tmp_path / "copy.vrs"))
    # Types that were left out are not added again.
    vrs.copy(source, tmp_path / "data.vrs", after=60.0, types="data")
    assert all(r.timestamp >= 60 for r in recording_of(tmp_path / "data.vrs"))


def recording_of(path: Path) -> list[vrs.Record]:
    with vrs.open(path) as recording:
        return list(recording)


@pytest.mark.parametrize("interval", [0, 0.5, 0.75, 2, 7.25, float("inf")])
def test_decimation(source: Path, tmp_path: Path, interval: float) -> None:
    """One stream, then all streams, compared with a loop over the records."""
    decimate: Any
    for decimate, ids in (
        ({"214-3": interval}, {"214-3"}),
        (interval, {"214-3", "214-7", "241-1"}),
    ):
        expected, last = [], {}
        for record in recording_of(source):
            if record.record_type == "data" and record.stream_id in ids:
                if record.timestamp < last.get(record.stream_id, -np.inf) + interval:
                    continue
                last[record.stream_id] = record.timestamp
            expected.append(bytes(record.payload))
        vrs.copy(source, tmp_path / "copy.vrs", decimate=decimate, overwrite=True)
        assert payloads(tmp_path / "copy.vrs") == expected


def test_tags_are_set_and_removed(wheel: Oracle, source: Path, tmp_path: Path) -> None:
    vrs.copy(
        source,
        tmp_path / "copy.vrs",
        tags={"a": None, "new": "ü", "absent": None},
        stream_tags={"214-*": {"role": "eye"}, "214-7": {"role": "ear", "gone": None}},
    )
    with vrs.open(source) as before, vrs.open(tmp_path / "copy.vrs") as after:
        assert after.file_tags == {"new": "ü"}
        tags = {name: stream.tags for name, stream in after.streams.items()}
        assert tags == {"214-3": {"role": "eye"}, "214-7": {"role": "ear"}, "241-1": {}}
        for name, stream in after.streams.items():
            assert stream.serial_number == before.streams[name].serial_number != ""
    source_text = "vrs.SyncVRSReader(path).file_tags"
    assert wheel(source_text, path=str(tmp_path / "copy.vrs")) == {"new": "ü"}


def test_ids_change_only_on_request(source: Path, tmp_path: Path) -> None:
    vrs.copy(source, tmp_path / "same.vrs", streams="214-*")
    vrs.copy(source, tmp_path / "new.vrs", streams="214-*", renumber=True)
    with vrs.open(tmp_path / "same.vrs") as same, vrs.open(tmp_path / "new.vrs") as new:
        assert list(same.streams) == ["214-3", "214-7"]
        assert list(new.streams) == ["214-1", "214-2"]
        assert same.checksum() == new.checksum()
        kept = [record.stream_id for record in same]
        renamed = {"214-3": "214-1", "214-7": "214-2"}
        assert [record.stream_id for record in new] == [renamed[name] for name in kept]


def test_a_stream_without_tags_gets_none(tmp_path: Path) -> None:
    """With an empty entry in the description, readers would derive a serial number."""
    (tmp_path / "a.vrs").write_bytes(build(numbered(3), streams={}).data)
    vrs.copy(tmp_path / "a.vrs", tmp_path / "b.vrs")
    with vrs.open(tmp_path / "a.vrs") as before, vrs.open(tmp_path / "b.vrs") as after:
        assert after.streams["241-1"].serial_number == before.streams["241-1"].serial_number == ""
        assert after.checksum() == before.checksum()


def test_a_selection_is_copied_as_it_is(source: Path, tmp_path: Path) -> None:
    with vrs.open(source) as recording:
        chosen = recording.filter("214-3", after=20)[::-2]
        report = vrs.copy(chosen, tmp_path / "copy.vrs")
        expected = [bytes(record.payload) for record in chosen][::-1]
        assert report.nstreams == 1
        assert len(recording.checksum()) == 16  # it is still open
    assert payloads(tmp_path / "copy.vrs") == expected


@pytest.mark.parametrize("nthreads", [1, 3])
def test_recompression(source: Path, tmp_path: Path, nthreads: int) -> None:
    for preset, kind in (("tight", 1), ("zfast", 2), ("none", 0)):
        copy = tmp_path / f"{preset}.vrs"
        vrs.copy(source, copy, compression=preset, nthreads=nthreads)
        assert payloads(copy) == payloads(source)
        with vrs.open(copy) as recording:
            stored = {record.compression for record in encoded(recording)}
            assert stored == {Compression.NONE, kind}


def test_several_threads_keep_the_order(tmp_path: Path) -> None:
    choose = np.random.default_rng(1)
    with vrs.create(tmp_path / "a.vrs", compression="none") as recording:
        stream = recording.stream("sample")
        for number in range(60):
            frame = choose.integers(0, 4, 200_000 if number % 3 else 10, "u1")
            stream.write_payload("data", number, frame.tobytes())
    vrs.copy(tmp_path / "a.vrs", tmp_path / "b.vrs", compression="zfast", nthreads=3)
    assert payloads(tmp_path / "a.vrs") == payloads(tmp_path / "b.vrs")


@pytest.mark.parametrize("compression", [None, "zfast"])
def test_progress(
    source: Path, tmp_path: Path, compression: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bloscpack.vrs.edit.transfer._PROGRESS_NBYTES", 5000)
    seen: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        seen.append((done, total))

    vrs.copy(source, tmp_path / "copy.vrs", compression=compression, progress=note)
    assert len(seen) > 3
    assert seen == sorted(set(seen))
    assert {total for _, total in seen} == {seen[-1][0]}


def test_wrong_options_make_no_file(source: Path, tmp_path: Path) -> None:
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (ValueError, {"compression": "zstd"}),
        (ValueError, {"index": "split"}),
        (ValueError, {"chunk_nbytes": 0}),
        (ValueError, {"after": 2, "before": 1}),
        (ValueError, {"decimate": -1.0}),
        (ValueError, {"decimate": float("nan")}),
        (ValueError, {"after": float("nan")}),
        (ValueError, {"before": float("nan")}),
        (ValueError, {"types": "tags"}),
        (ValueError, {"tags": {"a": "\ud800"}}),
        (TypeError, {"tags": {"a": 1}}),
        (TypeError, {"stream_tags": {"214-3": {"a": b"c"}}}),
        (NotFoundError, {"streams": "1-1"}),
        (NotFoundError, {"stream_tags": {"1-1": {}}}),
        (NotFoundError, {"decimate": {"1-1": 1.0}}),
        (ValueError, {"nthreads": 0}),
    ]
    for kind, options in wrong:
        with pytest.raises(kind):
            vrs.copy(source, tmp_path / "copy.vrs", **options)
    assert os.listdir(tmp_path) == ["source.vrs"]
    with pytest.raises(FileExistsError):
        vrs.copy(source, source)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        vrs.copy(source, tmp_path / "nowhere" / "copy.vrs")


def test_a_damaged_record_stops_what_has_to_decode_it(tmp_path: Path) -> None:
    records = [Rec(0, b"first"), Rec(1, bytes(500), zstd=True), Rec(2, b"last")]
    built = build(records)
    built.data[built.offsets[1] + 32] ^= 0xFF  # the magic of the frame
    path, copy = tmp_path / "a.vrs", tmp_path / "copy.vrs"
    path.write_bytes(built.data)
    with pytest.raises(CodecError, match="record 1 of stream 241-1"):
        vrs.copy(path, copy, compression="zfast")
    assert os.listdir(tmp_path) == ["a.vrs"]
    vrs.copy(path, copy)
    with vrs.open(copy) as recording, pytest.raises(CodecError, match="record 1"):
        _ = recording[1]


def test_losses_are_reported(tmp_path: Path) -> None:
    built = build(numbered(9))
    start, stop = built.offsets[4:6]
    built.data[start:stop] = b"\xff" * (stop - start)
    (tmp_path / "a.vrs").write_bytes(built.data[: built.ends[7] + 5])
    report = vrs.copy(tmp_path / "a.vrs", tmp_path / "b.vrs")
    expected = [rec.payload for k, rec in enumerate(built.records) if k not in (4, 8)]
    assert payloads(tmp_path / "b.vrs") == expected
    assert len(report.notes) == 3
    assert "index rebuilt" in report.notes[0]


def test_a_url_is_refused_without_its_secrets(source: Path) -> None:
    url = "https://me:secret@host/a.vrs?sig=secret"
    calls: list[Any] = [
        lambda: vrs.copy(source, url),
        lambda: vrs.merge([source, source], url),
        lambda: vrs.create(url),
    ]
    for call in calls:
        with pytest.raises(UnsupportedError, match=r"^https://host/a\.vrs") as caught:
            call()
        assert "secret" not in str(caught.value)


def test_a_copy_over_its_source(source: Path) -> None:
    expected = payloads(source)
    source.chmod(0o640)
    vrs.copy(source, source, compression="zfast", overwrite=True)
    assert payloads(source) == expected
    assert source.stat().st_mode & 0o777 == 0o640
    assert os.listdir(source.parent) == [source.name]


@pytest.mark.parametrize("name", ["copy.vrs", "copy_0"])
def test_chunks_that_are_replaced(source: Path, tmp_path: Path, name: str) -> None:
    """The files of the old recording are removed, and no other file is."""
    copy, expected = tmp_path / name, payloads(source)
    many = vrs.copy(source, copy, chunk_nbytes=1000)
    few = vrs.copy(source, copy, chunk_nbytes=5000, overwrite=True)
    assert len(many.paths) > len(few.paths) > 2
    assert set(os.listdir(tmp_path)) == {"source.vrs", *map(os.path.basename, few.paths)}
    assert payloads(copy) == expected
    one = vrs.copy(source, copy, overwrite=True)
    assert set(os.listdir(tmp_path)) == {"source.vrs", name}
    assert one.paths == (str(copy),)
    stranger = Path(few.paths[1])
    stranger.write_bytes(b"a stranger")
    vrs.copy(source, copy, overwrite=True)
    with pytest.raises(FileExistsError, match="_1"):
        vrs.copy(source, copy, chunk_nbytes=5000, overwrite=True)
    copy.unlink()
    with pytest.raises(FileExistsError, match="_1"):
        vrs.copy(source, copy, chunk_nbytes=5000)
    assert stranger.read_bytes() == b"a stranger"


@pytest.mark.parametrize("over_itself", [False, True])
def test_a_stranger_with_the_name_of_a_later_chunk(
    source: Path, tmp_path: Path, over_itself: bool
) -> None:
    """No file of the old recording is removed before all new names are known to be free."""
    copy = tmp_path / "copy.vrs"
    few = vrs.copy(source, copy, chunk_nbytes=10_000)
    stranger = tmp_path / f"copy.vrs_{len(few.paths) + 1}"
    stranger.write_bytes(b"a stranger")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(FileExistsError, match=stranger.name):
        vrs.copy(copy if over_itself else source, copy, chunk_nbytes=1000, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_new_files_stay_once_the_old_ones_are_removed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed rename, the records are in the files with temporary names."""
    expected, copy = payloads(source), tmp_path / "copy.vrs"
    vrs.copy(source, copy, chunk_nbytes=5000)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "move", fail)
    with pytest.raises(OSError, match="Input/output"):
        vrs.copy(copy, copy, chunk_nbytes=5000, overwrite=True)
    left = set(tmp_path.iterdir()) - {source}
    assert payloads(min(left, key=lambda path: len(path.name))) == expected


@pytest.mark.parametrize(
    ("chunk_nbytes", "name"), [(None, "a.vrs"), (5000, "a.vrs"), (5000, "a.vrs_2")]
)
def test_a_file_that_appears_during_a_copy_stays(
    source: Path, tmp_path: Path, chunk_nbytes: int | None, name: str
) -> None:
    def appear(done: int, total: int) -> None:
        (tmp_path / name).write_bytes(b"mine")

    with pytest.raises(FileExistsError, match=name):
        vrs.copy(source, tmp_path / "a.vrs", chunk_nbytes=chunk_nbytes, progress=appear)
    assert sorted(os.listdir(tmp_path)) == [name, source.name]
    assert (tmp_path / name).read_bytes() == b"mine"


@pytest.mark.parametrize("chunk_nbytes", [None, 5000])
@pytest.mark.parametrize("kind", ["error", "crash", "torn"])
def test_a_copy_is_there_whole_or_not_at_all(
    source: Path, tmp_path: Path, chunk_nbytes: int | None, kind: str
) -> None:
    expected = payloads(source)
    for step in range(1000):
        folder = tmp_path / str(step)
        folder.mkdir()
        stopping = StoppingDisk(step, kind)
        stopped = False
        try:
            with installed(stopping):
                vrs.copy(source, folder / "a.vrs", chunk_nbytes=chunk_nbytes)
        except (OSError, Crash):
            stopped = True
        if (folder / "a.vrs").exists():
            assert payloads(folder / "a.vrs") == expected
        elif kind == "error":
            assert os.listdir(folder) == []
        if not stopped:
            break
    assert step > 6


@pytest.mark.parametrize("kind", ["error", "crash", "torn"])
def test_a_copy_that_replaces_leaves_the_old_or_the_new(
    source: Path, tmp_path: Path, kind: str
) -> None:
    new = payloads(source)
    for step in range(1000):
        folder = tmp_path / str(step)
        folder.mkdir()
        path = folder / "a.vrs"
        path.write_bytes(build(numbered(3)).data)
        old = payloads(path)
        stopped = False
        try:
            with installed(StoppingDisk(step, kind)):
                vrs.copy(source, path, overwrite=True)
        except (OSError, Crash):
            stopped = True
        assert payloads(path) in (old, new)
        if kind == "error":
            assert os.listdir(folder) == ["a.vrs"]
        if not stopped:
            assert payloads(path) == new
            break
    assert step > 6
