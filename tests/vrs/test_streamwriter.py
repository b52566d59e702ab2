"""Streams of a recording being written: ids and names, tags early and late, definitions."""

from pathlib import Path
from typing import Any

import pytest

import bloscpack.vrs as vrs
from bloscpack.vrs.format.description import SERIAL_NUMBER_TAG
from bloscpack.vrs.format.format import RecordType
from bloscpack.vrs.format.typenames import TYPE_NAMES
from bloscpack.vrs.write.writer import find_type_id

from .test_writer import Imu, Sized, headers


def test_stream_ids_and_names(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as recording:
        assert recording.stream("imu").id == "241-1"
        assert recording.stream(241).id == "241-2"
        assert recording.stream("IMU data class", instance_id=9).id == "241-9"
        assert recording.stream("imu", name="Mine").id == "241-10"
        assert recording.stream("imu data (slam)").id == "1202-1"
        assert recording.stream(30000).id == "30000-1"
        for wrong in ("tricorder", 1, 2, 65535, 65536, -1):
            with pytest.raises(ValueError, match="type"):
                recording.stream(wrong)
        with pytest.raises(ValueError, match="241-9 exists already"):
            recording.stream("imu", instance_id=9)
        with pytest.raises(ValueError, match="0 to 65535"):
            recording.stream("imu", instance_id=65536)
        with pytest.raises(ValueError, match="compression"):
            recording.stream("imu", compression="zip")
    with vrs.open(tmp_path / "a.vrs") as ours:
        names = {stream.id: stream.name for stream in ours.streams.values()}
        assert names["241-10"] == "Mine"
        assert names["241-1"] == "IMU Data Class"
        serials = {stream.serial_number for stream in ours.streams.values()}
        assert len(serials) == len(names)


def test_every_type_name_is_known() -> None:
    for type_id, name in TYPE_NAMES.items():
        if type_id not in (1, 2, 65535):
            assert TYPE_NAMES[find_type_id(name)] == name


def test_too_many_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bloscpack.vrs.write.writer._MAX_STREAMS", 2)
    with vrs.create(tmp_path / "a.vrs") as recording:
        recording.stream(100)
        recording.stream(100)
        with pytest.raises(ValueError, match="at most 2 streams"):
            recording.stream(100)


def test_file_tags_until_the_first_record(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs", tags={"a": "1", "b": "2"}) as recording:
        recording.tags["a"] = "changed"
        del recording.tags["b"]
        assert dict(recording.tags) == {"a": "changed"}
        stream = recording.stream(100)
        stream.write_payload("data", 0, b"")
        recording.tags["a"] = "changed"  # the same value, so this is allowed
        with pytest.raises(ValueError, match="after its first record"):
            recording.tags["c"] = "3"
        with pytest.raises(ValueError, match="after its first record"):
            del recording.tags["a"]
        assert dict(recording.tags) == {"a": "changed"}
    with vrs.open(tmp_path / "a.vrs") as ours:
        assert ours.file_tags == {"a": "changed"}


def test_stream_tags_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    with vrs.create(path) as recording:
        stream = recording.stream(100, tags={"a": "1"})
        stream.tags["b"] = "2"
        stream.define("data", Imu)
        stream.write("data", 0, {})
        stream.tags["b"] = "2"
        stream.write("data", 1, {})
        stream.tags["c"] = "3"
        del stream.tags["a"]
        stream.write("data", 2, {})
        stream.define("data", vrs.Custom(), version=2)
        stream.write("data", 3, b"bytes", version=2)
        stream.tags["end"] = "4"
        serial = stream.vrs_tags[SERIAL_NUMBER_TAG]
    found = [RecordType(header.record_type).name for header in headers(path.read_bytes())[1:-1]]
    assert found == ["DATA", "DATA", "TAGS", "DATA", "TAGS", "DATA", "TAGS"]
    with vrs.open(path) as ours:
        assert ours["100-1"].tags == {"b": "2", "c": "3", "end": "4"}
        assert ours["100-1"].serial_number == serial
        assert bytes(ours[3].custom_blocks[0]) == b"bytes"


def test_tags_are_text(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        for tags in (recording.tags, stream.tags):
            with pytest.raises(TypeError, match="expected text, not int"):
                tags["a"] = 1  # type: ignore[assignment]
            with pytest.raises(TypeError, match="expected text, not bytes"):
                tags[b"a"] = "1"  # type: ignore[index]
            with pytest.raises(ValueError, match="surrogates"):
                tags["a"] = "\ud800"
            assert not tags
        stream.tags["bytes"] = b"\xff".decode("utf-8", "surrogateescape")
    with vrs.open(tmp_path / "a.vrs") as ours:
        assert ours["100-1"].tags == {"bytes": "\udcff"}


def test_definitions_become_tags(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        stream.define("data", Imu, vrs.Image("jpg"))
        stream.define("configuration", Sized, version=12)
        stream.define(RecordType.STATE)
        tags = stream.vrs_tags
        assert tags["RF:Data:1"] == "data_layout/size=16+image/jpg"
        assert tags["DL:Data:1:0"] == Imu.definition().to_json()
        assert tags["RF:Configuration:12"] == "data_layout"
        assert tags["RF:State:1"] == "empty"
        stream.write("state", 0)
        stream.define("data", Imu, vrs.Image("jpg"))  # once more the same
        for blocks in ((), (Imu,), (Sized, vrs.Image("jpg"))):
            with pytest.raises(ValueError, match="defined already"):
                stream.define("data", *blocks)
        with pytest.raises(ValueError, match="defined already"):
            stream.define("data", Imu, version=1)
        stream.define("data", Imu, version=11)


@pytest.mark.parametrize(
    "blocks",
    [
        (vrs.Image("jpg"), vrs.Image("jpg")),
        (vrs.Image("jpg"), Sized),
        (vrs.Custom(), Imu, vrs.Image("png")),
        (Imu, vrs.Custom(), vrs.Audio("int16le", 1)),
    ],
)
def test_blocks_whose_size_readers_could_not_find(tmp_path: Path, blocks: Any) -> None:
    with vrs.create(tmp_path / "a.vrs") as recording:
        with pytest.raises(ValueError, match=r"block [01] .*cannot find its size"):
            recording.stream(100).define("data", *blocks)
        recording.stream(100).define("data", Sized, *blocks[:1], Sized, *blocks[1:])


def test_invalid_definitions(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        with pytest.raises(TypeError, match="expected a Layout class"):
            stream.define("data", {"a": "float"})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="record type 'tags'"):
            stream.define("tags", Imu)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="version -1"):
            stream.define("data", Imu, version=-1)
        with pytest.raises(ValueError, match="at most 1000"):
            stream.define("data", *[Imu] * 1001)
        assert not [tag for tag in stream.vrs_tags if ":" in tag]
