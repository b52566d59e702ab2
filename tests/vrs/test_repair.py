"""Indexes rewritten in place, in the first of several files, or with a copy of the recording."""

import hashlib
import os
import shutil
from pathlib import Path
from struct import pack_into
from typing import Any

import pytest

import bloscpack as bp
from bloscpack import vrs
from bloscpack.exceptions import FileChangedError, FormatError, UnsupportedError
from tests.faults.disk import Crash, StoppingDisk, installed
from tests.faults.power import Recorder, after_cut
from tests.oracle import Oracle

from . import manifests
from .recordingfiles import DBL_MAX, TAGS, Built, Rec, build, numbered, tags_payload

KINDS = [("end", False), ("end", True), ("front", True), ("none", False)]
each_kind = pytest.mark.parametrize(("index", "zstd"), KINDS)


def payloads(path: Path) -> list[bytes]:
    with vrs.open(path, index="strict") as recording:
        assert recording.report.is_clean
        return [bytes(record.payload) for record in recording]


def recorded(built: Built, count: int | None = None) -> list[bytes]:
    return [rec.payload for rec in built.records[:count]]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@each_kind
def test_a_file_that_was_not_closed(wheel: Oracle, tmp_path: Path, index: str, zstd: bool) -> None:
    """Truncated within a record: its rest is removed, and the index follows the last whole one."""
    built = build(numbered(150), index, zstd=zstd, file_tags={"a": "b"})
    path = tmp_path / "a.vrs"
    path.write_bytes(built.data[: built.ends[119] + 7])
    repaired = vrs.fix_index(path)
    assert (repaired.action, repaired.nrecords) == ("in place", 120)
    assert "index rebuilt" in repaired.notes[0] or "lie beyond the end" in "".join(repaired.notes)
    assert payloads(path) == recorded(built, 120)
    with vrs.open(path) as recording:
        assert recording.index_kind == "classic zstd end"
        assert recording.file_tags == {"a": "b"}
        checksum = recording.checksum()
    assert path.read_bytes()[80 : built.ends[119]] == built.data[80 : built.ends[119]]
    assert wheel("vrs.records_checksum(path, False)", path=str(path)) == checksum
    assert wheel("len(vrs.SyncVRSReader(path))", path=str(path)) == 120
    before = path.read_bytes()
    assert vrs.fix_index(path) == vrs.IndexRepair("none", 120, ())
    assert path.read_bytes() == before


@manifests.each_vector()
def test_all_vectors_without_their_index(wheel: Oracle, vector: str, tmp_path: Path) -> None:
    with vrs.open(manifests.path(vector)) as recording:
        if len(recording.source.parts) > 1 or "split" in recording.index_kind:
            pytest.skip("its index is in a file of its own")
        path = tmp_path / "a.vrs"
        shutil.copy(manifests.path(vector), path)
        data = bytearray(path.read_bytes())
        pack_into("<q", data, 24, 0)
        path.write_bytes(data)
        if not len(recording) and vector != "enc_tags_records":
            assert vrs.fix_index(path).action == "rewritten"
        else:
            assert vrs.fix_index(path).action == "in place"
        expected = manifests.load(vector)["oracle_records_checksum"]
        with vrs.open(path, index="strict") as found:
            assert found.checksum() == expected
            assert list(found.streams) == list(recording.streams)
            assert found.report.is_clean
        assert wheel("vrs.records_checksum(path, False)", path=str(path)) == expected


@manifests.each_vector()
def test_an_index_that_is_right_is_left_alone(vector: str, tmp_path: Path) -> None:
    with vrs.open(manifests.path(vector)) as recording:
        if not recording.report.is_clean:
            pytest.skip("it has none")
        for part in recording.source.parts:
            assert part.source.name is not None
            shutil.copy(part.source.name, tmp_path)
        before = contents(tmp_path)
        repaired = vrs.fix_index(tmp_path / manifests.path(vector).name)
        assert (repaired.action, repaired.nrecords) == ("none", len(recording))
    assert contents(tmp_path) == before


def test_an_index_that_hides_records(tmp_path: Path) -> None:
    built = build(numbered(9))
    path = tmp_path / "a.vrs"
    # Number of entries, behind one stream.
    pack_into("<I", built.data, built.index_offset + 32 + 4 + 6, 4)
    path.write_bytes(built.data)
    assert vrs.fix_index(path).action == "in place"
    assert payloads(path) == recorded(built)


def test_an_index_with_a_wrong_entry(tmp_path: Path) -> None:
    """The wrong entry is in the middle, where opening does not check it."""
    built = build(numbered(9))
    path = tmp_path / "a.vrs"
    pack_into("<d", built.data, built.index_offset + 32 + 14 + 4 * 19, 4.5)
    path.write_bytes(built.data)
    with vrs.open(path) as recording:
        assert recording.report.is_clean
    assert vrs.fix_index(path).action == "in place"
    assert payloads(path) == recorded(built)


def test_a_damaged_record_is_not_a_fault_of_the_index(tmp_path: Path) -> None:
    built = build(numbered(9))
    path = tmp_path / "a.vrs"
    start = built.offsets[4]
    built.data[start : start + 32] = b"\xff" * 32
    path.write_bytes(built.data)
    before = path.read_bytes()
    assert vrs.fix_index(path).action == "none"
    assert path.read_bytes() == before
    # If an entry is wrong besides, the records are those of a scan, which does not find this one.
    pack_into("<d", built.data, built.index_offset + 32 + 14 + 2 * 19, 4.5)
    path.write_bytes(built.data)
    repaired = vrs.fix_index(path)
    assert (repaired.action, repaired.nrecords, repaired.is_whole) == ("rewritten", 8, False)
    assert repaired.notes[0].endswith("bytes before it, but that record has 52")
    with vrs.open(path) as recording:
        assert len(recording) == 8


def test_damage_between_records(tmp_path: Path) -> None:
    """Without an index that gives their offsets, the file is replaced."""
    built = build(numbered(9), "front", file_tags={"a": "b"})
    start, stop = built.offsets[4:6]
    built.data[start:stop] = b"\xff" * (stop - start)
    pack_into("<q", built.data, 24, 0)
    path = tmp_path / "a.vrs"
    path.write_bytes(built.data)
    expected = [payload for k, payload in enumerate(recorded(built)) if k != 4]
    data = path.read_bytes()
    copied = vrs.fix_index(path, tmp_path / "b.vrs")
    assert (copied.action, copied.nrecords) == ("copied", 8)
    assert payloads(tmp_path / "b.vrs") == expected
    assert path.read_bytes() == data
    repaired = vrs.fix_index(path)
    assert (repaired.action, repaired.nrecords) == ("rewritten", 8)
    assert any(f"from byte {start}" in note for note in repaired.notes)
    assert payloads(path) == expected
    with vrs.open(path) as recording:
        assert "front" in recording.index_kind
        assert recording.file_tags == {"a": "b"}
    assert sorted(os.listdir(tmp_path)) == ["a.vrs", "b.vrs"]


def test_tags_records_stay(tmp_path: Path) -> None:
    late = Rec(-DBL_MAX, tags_payload({"late": "tag"}, {}), type=TAGS)
    built = build([*numbered(3), late, *numbered(2)], "none")
    path = tmp_path / "a.vrs"
    path.write_bytes(built.data)
    assert vrs.fix_index(path).nrecords == 5
    with vrs.open(path, index="strict") as recording:
        assert recording.streams["241-1"].tags == {"late": "tag"}
        assert len(recording) == 5


def test_a_longer_file_header_stays(tmp_path: Path) -> None:
    if not manifests.listed():
        pytest.skip("no vectors")
    path = tmp_path / "a.vrs"
    shutil.copy(manifests.path("enc_big_file_header"), path)
    data = bytearray(path.read_bytes())
    pack_into("<q", data, 24, 0)
    data[80:90] = b"0123456789"
    path.write_bytes(data)
    vrs.fix_index(path)
    assert path.read_bytes()[80:90] == b"0123456789"
    assert path.read_bytes()[:24] == data[:24]


def chunked(path: Path, *, close: bool) -> list[bytes]:
    """Record into several files; return the payloads."""
    recording = vrs.create(path, compression="none", chunk_nbytes=400)
    stream = recording.stream("sample")
    expected = [bytes([k]) * 50 for k in range(30)]
    for number, payload in enumerate(expected):
        stream.write_payload("data", number, payload)
    if close:
        recording.close()
    else:
        recording.flush()
        recording._is_closed = True
        recording._file._close_files()
    return expected


def test_a_recording_in_several_files(wheel: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    expected = chunked(path, close=False)
    files = sorted(os.listdir(tmp_path))
    last = tmp_path / f"a.vrs_{len(files) - 1}"
    with last.open("ab") as stream:
        stream.write(b"the rest of a record")
    repaired = vrs.fix_index(path)
    assert (repaired.action, repaired.nrecords) == ("in place", 30)
    assert payloads(path) == expected
    assert sorted(os.listdir(tmp_path)) == files
    with vrs.open(path) as recording:
        assert recording.index_kind == "split zstd"
        checksum = recording.checksum()
    assert wheel("vrs.records_checksum(path, False)", path=str(path)) == checksum
    assert vrs.fix_index(path).action == "none"


@pytest.mark.parametrize("at", [0, 100])
def test_damage_in_one_of_several_files(tmp_path: Path, at: int) -> None:
    """Damage at the start of a file makes it look foreign; none of its records may be lost."""
    path = tmp_path / "a.vrs"
    expected = chunked(path, close=False)
    middle = bytearray((tmp_path / "a.vrs_2").read_bytes())
    middle[at : at + 40] = b"\xff" * 40
    (tmp_path / "a.vrs_2").write_bytes(middle)
    before = contents(tmp_path)
    with pytest.raises(UnsupportedError, match="dst"):
        vrs.fix_index(path)
    assert contents(tmp_path) == before
    files = [path, *(tmp_path / f"a.vrs_{k}" for k in range(1, len(before)))]
    vrs.fix_index(files, tmp_path / "b.vrs")
    found = payloads(tmp_path / "b.vrs")
    assert len(found) == len(expected) - 1
    assert set(found) < set(expected)


def broken(folder: Path, case: str) -> tuple[Path, list[bytes]]:
    """Write a recording that `fix_index` repairs in one of its ways."""
    path = folder / "a.vrs"
    if case == "chunks":
        return path, chunked(path, close=False)
    built = build(numbered(9), "end" if case == "damaged index" else "none")
    expected = recorded(built)
    if case == "damaged index":
        pack_into("<I", built.data, built.index_offset + 32 + 4 + 6, 4)
    elif case == "damage":
        start, stop = built.offsets[4:6]
        built.data[start:stop] = b"\xff" * (stop - start)
        del expected[4]
    else:
        built.data += b"the rest of a record"
    path.write_bytes(built.data)
    return path, expected


each_case = pytest.mark.parametrize("case", ["rest", "damaged index", "damage", "chunks"])


def found_in(path: Path) -> list[bytes]:
    with vrs.open(path) as recording:
        return [bytes(record.payload) for record in recording]


@each_case
@pytest.mark.parametrize("kind", ["error", "crash", "torn"])
def test_a_repair_that_is_stopped_loses_nothing(tmp_path: Path, case: str, kind: str) -> None:
    for step in range(100):
        folder = tmp_path / str(step)
        folder.mkdir()
        path, expected = broken(folder, case)
        stopped = False
        try:
            with installed(StoppingDisk(step, kind)):
                vrs.fix_index(path)
        except (OSError, Crash):
            stopped = True
        assert found_in(path) == expected, step
        if not stopped:
            break
        vrs.fix_index(path)
        assert payloads(path) == expected
    assert step > 3


@each_case
def test_power_loss(tmp_path: Path, case: str) -> None:
    """All records can be found at any moment, and the header never refers to half an index."""
    work = tmp_path / "work"
    work.mkdir()
    path, expected = broken(work, case)
    original = path.read_bytes()
    recorder = Recorder(work)
    with installed(recorder):
        vrs.fix_index(path)
    header_offsets = path.read_bytes()[24:32]
    for count in range(len(recorder.events) + 1):
        for seed in range(12):
            folder = tmp_path / f"{count}-{seed}"
            folder.mkdir()
            for name, file in after_cut(recorder, count, seed).items():
                (folder / name).write_bytes(file.durable)
            assert found_in(folder / "a.vrs") == expected, (count, seed)
            data = (folder / "a.vrs").read_bytes()
            if data[24:32] == header_offsets and data != original:
                with vrs.open(folder / "a.vrs", index="strict") as recording:
                    assert len(recording) == len(expected)


def test_a_recording_behind_a_url(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    path, _ = broken(tmp_path, "rest")
    store = fsspec.filesystem("memory")
    store.pipe("/repair/broken.vrs", path.read_bytes())
    try:
        with pytest.raises(UnsupportedError, match=r"^memory://repair/broken\.vrs: .*repaired"):
            vrs.fix_index("memory://repair/broken.vrs")
        vrs.fix_index("memory://repair/broken.vrs", tmp_path / "whole.vrs")
        store.pipe("/repair/whole.vrs", (tmp_path / "whole.vrs").read_bytes())
        assert vrs.fix_index("memory://repair/whole.vrs").action == "none"
    finally:
        store.rm("/repair", recursive=True)


def test_a_file_that_grows_during_the_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = broken(tmp_path, "rest")

    def growing(*args: Any) -> Any:
        with path.open("ab") as stream:
            stream.write(b"more")
        return original(*args)

    from bloscpack.vrs.edit import indexrepair

    original = indexrepair.classic_index
    monkeypatch.setattr(indexrepair, "classic_index", growing)
    before = path.read_bytes()
    with pytest.raises(FileChangedError):
        vrs.fix_index(path)
    assert path.read_bytes() == before + b"more"


def test_a_record_that_only_the_index_finds_is_recovered(tmp_path: Path) -> None:
    built = build(numbered(9))
    pack_into("<I", built.data, built.offsets[4] + 4, 1)  # the size of the record before it
    path = tmp_path / "a.vrs"
    path.write_bytes(built.data)
    report = bp.recover(path, tmp_path / "b.vrs")
    assert (report.ok, report.saved) == (True, 9)
    assert payloads(tmp_path / "b.vrs") == recorded(built)
    # Without the index the record is lost.
    pack_into("<q", built.data, 24, 0)
    path.write_bytes(built.data)
    report = bp.recover(path, tmp_path / "b.vrs")
    assert (report.ok, report.saved) == (False, 8)


def test_a_recording_without_records_is_recovered_unless_it_is_damaged(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs", tags={"who": "me"}) as recording:
        recording.stream("imu", tags={"role": "eye"})
    report = bp.recover(tmp_path / "a.vrs", tmp_path / "b.vrs")
    assert (report.ok, report.saved, report.nchunks) == (True, 0, 0)
    with vrs.open(tmp_path / "b.vrs") as recovered:
        assert dict(recovered.file_tags) == {"who": "me"}
        assert [dict(stream.tags) for stream in recovered.streams.values()] == [{"role": "eye"}]
    with open(tmp_path / "a.vrs", "ab") as file:
        file.write(b"damage" * 9)
    with pytest.raises(FormatError, match="no whole record"):
        bp.recover(tmp_path / "a.vrs", tmp_path / "c.vrs")


def test_a_recovered_recording_has_streams_without_records(tmp_path: Path) -> None:
    tags = {"user": {"role": "eye"}, "vrs": {}}
    built = build(numbered(3), streams={(241, 1): {"user": {}, "vrs": {}}, (214, 3): tags})
    (tmp_path / "a.vrs").write_bytes(built.data)
    assert bp.recover(tmp_path / "a.vrs", tmp_path / "b.vrs").saved == 3
    with vrs.open(tmp_path / "b.vrs") as recovered:
        assert dict(recovered.streams["214-3"].tags) == {"role": "eye"}
