"""``blpk vrs copy``, ``merge`` and ``fix-index`` write what the package writes."""

from pathlib import Path

import numpy as np
import pytest

import bloscpack.vrs as vrs
from bloscpack.vrs.cli.copy import PRESETS
from bloscpack.vrs.cli.extract import KINDS
from bloscpack.vrs.export import extraction
from bloscpack.vrs.format import compression

from ..cli.conftest import Blpk


class Imu(vrs.Layout):
    gyro = vrs.Array("float", 2)


def written(path: Path, start: float = 100, tag: str = "yard") -> Path:
    """Write two streams of 21 and 4 records."""
    with vrs.create(path, tags={"place": tag}, compression="none") as writer:
        imu = writer.stream("imu", tags={"unit": "a", "old": "x"}, instance_id=4)
        camera = writer.stream("rgb camera")
        imu.define("configuration", vrs.Custom())
        imu.define("data", Imu)
        camera.define("data", vrs.Image("raw", 16, 20, "grey8"))
        imu.write("configuration", start, b"x")
        for n in range(20):
            imu.write("data", start + n / 4, {"gyro": (n, n)})
        for n in range(4):
            camera.write("data", start + 1 + n, np.full((20, 16), n, "u1"))
    return path


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    return written(tmp_path / "yard.vrs")


def times(path: str) -> list[float]:
    with vrs.open(path) as recording:
        return list(recording.timestamps)


def checksum(path: str | Path) -> str:
    with vrs.open(path) as recording:
        return recording.checksum()


def test_a_copy_of_all(blpk: Blpk, yard: Path) -> None:
    ended = blpk("vrs", "copy", "yard.vrs", "copy.vrs")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("copy.vrs: 25 records of 2 streams, ")
    assert checksum("copy.vrs") == checksum(yard)
    with vrs.open("copy.vrs") as recording:
        assert recording.index_kind == "classic front"
        assert list(recording.streams) == ["214-1", "241-4"]
    assert "left out" not in ended.out
    ended = blpk("vrs", "copy", "yard.vrs", "copy.vrs")
    assert (ended.code, ended.err) == (1, "blpk: error: output file 'copy.vrs' exists!\n")
    assert blpk("vrs", "copy", "-f", "yard.vrs", "copy.vrs").code == 0
    ended = blpk("vrs", "copy", "-f", "yard.vrs", "yard.vrs")
    assert (ended.code, checksum("yard.vrs")) == (1, checksum("copy.vrs"))
    assert "input and output are the same file" in ended.err


def test_parts_of_a_recording(blpk: Blpk, yard: Path) -> None:
    options = ["--stream", "241-*", "--after", "+1", "--before", "-1", "--decimate", "0.5"]
    ended = blpk("vrs", "copy", "yard.vrs", "part.vrs", *options, "--json")
    # The configuration record before the start is copied too.
    assert times("part.vrs") == [100.0, 101.0, 101.5, 102.0, 102.5, 103.0, 103.5]
    document = ended.json
    assert document.pop("cbytes") == Path("part.vrs").stat().st_size
    assert document == {
        "schema_version": 1,
        "command": "vrs copy",
        "paths": ["yard.vrs"],
        "target": "part.vrs",
        "status": "ok",
        "written": [str(yard.with_name("part.vrs"))],
        "nstreams": 1,
        "nrecords": 7,
        "nskipped": 18,
        "nduplicates": 0,
        "notes": [],
    }
    ended = blpk("vrs", "copy", "yard.vrs", "one.vrs", "--type", "configuration")
    assert times("one.vrs") == [100.0]
    assert ", 24 skipped, " in ended.out
    blpk("vrs", "copy", "yard.vrs", "few.vrs", "--decimate", "214-1=2", "--decimate", "241-4=2.5")
    assert times("few.vrs") == [100.0, 100.0, 101.0, 102.5, 103.0]


def test_tags_ids_and_compression(blpk: Blpk, yard: Path) -> None:
    tags = ["--file-tag", "place", "a=b c", "--file-tag", "by", "me", "--remove-file-tag", "none"]
    more = ["--stream-tag", "241-*", "unit", "b", "--remove-stream-tag", "241-4", "old"]
    ended = blpk("vrs", "copy", yard, "a.vrs", *tags, *more, "--renumber", "-c", "zmax")
    assert (ended.code, ended.err) == (0, "")
    with vrs.open("a.vrs") as recording:
        assert recording.file_tags == {"place": "a=b c", "by": "me"}
        assert recording["241-1"].tags == {"unit": "b"}
    assert Path("a.vrs").stat().st_size < yard.stat().st_size - 700
    blpk("vrs", "copy", yard, "b.vrs", "--index", "end", "-z", "500")
    with vrs.open("b.vrs") as recording:
        assert len(recording.source.parts) > 4
    assert checksum("b.vrs") == checksum(yard)


def test_merge(blpk: Blpk, yard: Path, tmp_path: Path) -> None:
    written(tmp_path / "b.vrs", 103, "field")
    ended = blpk("vrs", "merge", "yard.vrs", "b.vrs", "all.vrs")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("all.vrs: 41 records of 2 streams, 9 duplicates, ")
    with vrs.open("all.vrs") as recording:
        assert recording.file_tags == {"place": "yard", "place_merged": "field"}
    ended = blpk("vrs", "merge", "yard.vrs", "b.vrs", "apart.vrs", "--keep-apart", "--json")
    assert (ended.json["nrecords"], ended.json["nstreams"]) == (50, 4)
    # Times are relative to the first and the last record of all sources.
    blpk("vrs", "merge", "b.vrs", "yard.vrs", "some.vrs", "--after", "+1", "--before", "-5",
         "--stream", "214-1")  # fmt: skip
    assert times("some.vrs") == [101.0, 102.0]


@pytest.mark.parametrize("command", ["copy", "merge"])
def test_wrong_options_are_refused(blpk: Blpk, yard: Path, command: str) -> None:
    cases = [
        (["--decimate", "fast"], 2, "--decimate: expected SECONDS or ID=SECONDS"),
        (["--compression", "best"], 2, "invalid choice"),
        (["--chunk-size", "0"], 2, "must be at least 1 byte"),
        (["--stream", "9-9"], 1, "no stream '9-9'"),
        (["--after", "5", "--before", "4"], 1, "no time is between them"),
        (["--file-tag", "a"], 2, "expected 2 arguments"),
    ]
    for options, code, text in cases:
        ended = blpk("vrs", command, yard, "out.vrs", *options)
        assert (ended.code, ended.out) == (code, ""), options
        assert text in ended.err
        assert not Path("out.vrs").exists()
    assert blpk("vrs", command, yard, "-").code == 2
    assert blpk("vrs", command, "missing", "out.vrs").code == 1
    Path("empty").write_bytes(b"")
    assert blpk("vrs", command, "empty", "out.vrs").code == 4


def test_missing_records_are_reported(blpk: Blpk, yard: Path) -> None:
    data = yard.read_bytes()
    with vrs.open(yard) as recording:
        end = recording.table.offset.max() + 5
    Path("cut.vrs").write_bytes(data[:end])
    for command in ("copy", "merge"):
        ended = blpk("vrs", command, "cut.vrs", "out.vrs", "-f")
        assert ended.code == 3
        assert "24 records" in ended.out
        assert ended.err.splitlines()[0].startswith("blpk: cut.vrs: index rebuilt: ")
    with vrs.open("out.vrs") as recording:
        assert recording.report.is_clean


def test_fix_index(blpk: Blpk, yard: Path) -> None:
    ended = blpk("vrs", "fix-index", "yard.vrs")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "yard.vrs: the index is correct, nothing was changed: 25 records\n"
    data = yard.read_bytes()
    Path("cut.vrs").write_bytes(data[:-40])
    ended = blpk("vrs", "fix-index", "cut.vrs", "new.vrs", "--json")
    assert ended.json["action"] == "copied"
    assert ended.json["nrecords"] == 25
    assert Path("cut.vrs").read_bytes() == data[:-40]
    assert checksum("new.vrs") == checksum(yard)
    ended = blpk("vrs", "fix-index", "cut.vrs")
    assert (ended.code, ended.out) == (0, "cut.vrs: index written into the file: 25 records\n")
    assert "index rebuilt" in ended.err
    assert blpk("vrs", "check", "cut.vrs").code == 0
    assert checksum("cut.vrs") == checksum(yard)
    with vrs.open(yard) as recording:
        end = recording.table.offset.max() + 5
    for target in (["lossy.vrs"], []):
        Path("lost.vrs").write_bytes(data[:end])
        ended = blpk("vrs", "fix-index", "lost.vrs", *target, "--json")
        assert (ended.code, ended.json["status"], ended.json["nrecords"]) == (3, "damaged", 24)
    assert blpk("vrs", "fix-index", "cut.vrs", "new.vrs").code == 1
    assert blpk("vrs", "fix-index", "-", stdin=data).code == 2
    assert blpk("vrs", "fix-index", "-", "piped.vrs", stdin=data).code == 0
    assert checksum("piped.vrs") == checksum(yard)
    Path("text").write_text("no recording")
    assert blpk("vrs", "fix-index", "text").code == 4
    assert Path("text").read_text() == "no recording"


def test_choices_are_those_of_the_package() -> None:
    assert set(PRESETS) == set(compression.PRESETS)
    assert KINDS == extraction.KINDS
