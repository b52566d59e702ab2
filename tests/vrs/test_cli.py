"""``blpk vrs``: info, list, print, check, checksum and extract."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="raw images become PNG by Pillow")

import bloscpack.vrs as vrs

from ..cli.conftest import Blpk

NASTY = "red\x1b[31m\nblpk: error: no"


class Imu(vrs.Layout):
    gyro = vrs.Array("float", 2, tags={"unit": "rad/s"})
    name = vrs.String()


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    """Two streams with 25 records, and names with terminal control characters."""
    path = tmp_path / "yard.vrs"
    with vrs.create(path, tags={"place": NASTY}, compression="fast") as writer:
        imu, camera = writer.stream("imu"), writer.stream("rgb camera", flavor=NASTY)
        imu.define("configuration", vrs.Custom())
        imu.define("data", Imu)
        camera.define("data", vrs.Image("raw", 16, 20, "grey8"))
        imu.write("configuration", 100, b"x")
        for n in range(20):
            imu.write("data", 100 + n / 4, {"gyro": (n, np.nan), "name": NASTY})
        for n in range(4):
            camera.write("data", 101 + n, np.full((20, 16), n, "u1"))
    return path


def damaged(path: Path, *rows: int) -> Path:
    """Return a copy with damaged payloads of some records, which must be compressed."""
    with vrs.open(path) as recording:
        offsets = recording.table.offset[list(rows)].tolist()
    data = bytearray(path.read_bytes())
    for offset in offsets:
        data[offset + 32] ^= 0xFF
    copy = path.with_name("damaged.vrs")
    copy.write_bytes(data)
    return copy


def rows_of(document: dict[str, Any]) -> list[int]:
    return [record["record"] for record in document["records"]]


def test_info(blpk: Blpk, yard: Path) -> None:
    ended = blpk("vrs", "info", "yard.vrs", "--fields")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[:2] == ["kind: VRS recording", "records: 25"]
    assert {"index: classic zstd end", "format: version VRS1"} <= {*lines}
    assert 'tags: {"place": "red\\u001b[31m\\nblpk: error: no"}' in lines
    rows = [re.split("  +", line) for line in lines]
    name = "RGB Camera Class, red\\x1b[31m\\nblpk: error: no"
    assert ["214-1", "0", "0", "4", "101.0 to 104.0 s", name] in rows
    assert ["241-1", "1", "0", "20", "100.0 to 104.75 s", "IMU Data Class"] in rows
    assert any(line.startswith("214-1 data version 1: image/raw/") for line in lines)
    assert "    block 0, gyro: float_array of 2, rad/s" in lines
    assert "    block 0, name: string" in lines
    assert "    block 0" not in blpk("vrs", "info", yard).out
    # The command for all file types does the same.
    assert blpk("info", "yard.vrs").out == blpk("vrs", "info", "yard.vrs").out


def test_info_as_json(blpk: Blpk, yard: Path) -> None:
    document = blpk("vrs", "info", "yard.vrs", "--json").json
    assert (document["path"], document["kind"]) == ("yard.vrs", "recording")
    assert document["tags"] == {"place": NASTY}
    camera, imu = document["streams"]
    assert camera["records"] == {"state": 0, "configuration": 0, "data": 4}
    assert imu["time_range"] == [100.0, 104.75]
    assert imu["formats"][1]["format"] == "data_layout"
    assert blpk("info", "yard.vrs", "--json").json == document


def test_options_choose_records(blpk: Blpk, yard: Path) -> None:
    with vrs.open(yard) as recording:
        times = recording.timestamps
        streams = np.array([record.stream_id for record in recording])
        types = np.array([record.record_type for record in recording])
    everything = np.arange(25)
    cases: list[tuple[list[str], Any]] = [
        ([], everything),
        (["--stream", "214-1"], streams == "214-1"),
        (["--stream", "2[14]4-*", "--stream", "241-1"], everything),
        (["--type", "configuration"], types == "configuration"),
        (["--type", "data", "--type", "configuration"], everything),
        (["--after", "101.5", "--before", "103"], (times >= 101.5) & (times <= 103)),
        (["--after", "+1.5"], times >= 101.5),
        (["--before", "-2"], times <= 102.75),
        (["--after", "-0.5", "--stream", "241-1"], (times >= 104.25) & (streams == "241-1")),
        (["--select", "3:9:2"], everything[3:9:2]),
        (["--select", "-1"], everything[-1:]),
        (["--select", "-3:"], everything[-3:]),
        (["--type", "data", "--select", "0"], everything[types == "data"][:1]),
    ]
    for options, expected in cases:
        wanted = everything[expected].tolist()
        for command in ("list", "print"):
            ended = blpk("vrs", command, "yard.vrs", "--json", *options)
            assert rows_of(ended.json) == wanted, options
            assert ended.code == 0
        assert len(blpk("vrs", "list", yard, *options).out.splitlines()) == len(wanted)
    blpk("vrs", "extract", "yard.vrs", "out", "--only", "metadata", "--type", "configuration")
    assert len(Path("out/metadata.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--stream", "9-9"], 1, "no stream '9-9': there are 214-1, 241-1"),
        (["--stream", "x"], 1, "no stream 'x'"),
        (["--select", "25"], 1, "there are 25 records"),
        (["--select", "1,2"], 2, "expected a number or one range of records"),
        (["--select", "..."], 2, "expected a number or one range of records"),
        (["--after", "nan"], 2, "must be seconds"),
        (["--after", "soon"], 2, "must be seconds"),
        (["--type", "tags"], 2, "invalid choice"),
    ],
)
def test_options_that_select_nothing(
    blpk: Blpk, yard: Path, options: list[str], code: int, text: str
) -> None:
    for command in (["list"], ["print"], ["print", "--json"]):
        ended = blpk("vrs", *command, yard, *options)
        assert (ended.code, ended.out) == (code, "")
        assert text in ended.err
        assert len(ended.err.splitlines()) == 1


def test_list(blpk: Blpk, yard: Path) -> None:
    lines = blpk("vrs", "list", yard).out.splitlines()
    assert lines[0].split() == ["0", "100.0", "241-1", "configuration", "33"]
    assert [int(line.split()[0]) for line in lines] == list(range(25))
    (entry,) = blpk("vrs", "list", yard, "--json", "--select", "0").json["records"]
    with vrs.open(yard) as recording:
        assert entry == {
            "record": 0,
            "stream": "241-1",
            "type": "configuration",
            "timestamp": 100.0,
            "offset": recording.table.offset.item(0),
            "cbytes": 33,
        }


def test_print(blpk: Blpk, yard: Path) -> None:
    lines = blpk("vrs", "print", yard, "--select", "0:2").out.splitlines()
    assert lines == [
        "record 0: 241-1 configuration version 1, 100.0 s, 1 bytes",
        "  block 0: custom, 1 bytes",
        "record 1: 241-1 data version 1, 100.0 s, 40 bytes",
        "  block 0: metadata, 40 bytes",
        '    gyro: [0.0, "NaN"]',
        f"    name: {json.dumps(NASTY)}",
    ]
    (record,) = blpk("vrs", "print", yard, "--json", "--select", "1").json["records"]
    assert record["blocks"][0]["values"] == {"gyro": [0.0, "NaN"], "name": NASTY}


def test_damaged_records_are_reported_and_the_others_shown(blpk: Blpk, yard: Path) -> None:
    damaged(yard, 5, 15)
    ended = blpk("vrs", "print", "damaged.vrs", "--json")
    assert ended.code == 3
    assert rows_of(ended.json) == list(range(25))
    assert ["error" in record for record in ended.json["records"]].count(True) == 2
    assert ended.err.splitlines()[0].startswith("blpk: error: damaged.vrs: record 5 of stream 214")
    text = blpk("vrs", "print", "damaged.vrs")
    assert (text.code, text.out.count("\nrecord ")) == (3, 22)
    assert len(text.err.splitlines()) == 2
    # The index is not damaged.
    assert blpk("vrs", "list", "damaged.vrs").code == 0


def test_check(blpk: Blpk, yard: Path, tmp_path: Path) -> None:
    ended = blpk("vrs", "check", "--decode", "yard.vrs")
    assert (ended.code, ended.out, ended.err) == (0, "yard.vrs: ok\n", "")
    damaged(yard, 5)
    (tmp_path / "cut.vrs").write_bytes(yard.read_bytes()[:-200])
    (tmp_path / "empty").write_bytes(b"")
    names = ["yard.vrs", "damaged.vrs", "cut.vrs", "empty", "missing", "."]
    ended = blpk("vrs", "check", *names)
    assert ended.code == 3
    assert [line.split(": ")[0] for line in ended.out.splitlines()] == [
        "yard.vrs",
        "damaged.vrs",
        "cut.vrs",
        "cut.vrs",
    ]
    assert "record 5 of stream 214-1: " in ended.out
    found = blpk("vrs", "check", "--json", *names).json["files"]
    assert [each["status"] for each in found] == [
        "ok",
        "damaged",
        "damaged",
        "foreign",
        "failed",
        "foreign",
    ]
    assert (found[0]["nchunks"], found[0]["damage"]) == (25, [])
    assert found[1]["damage"][0]["record"] == 5
    assert found[3]["error"] == "empty: not a VRS recording: it is empty"


def test_a_walk_for_one_type_counts_the_others(blpk: Blpk, tmp_path: Path, ramp: Path) -> None:
    (tmp_path / "f").mkdir()
    ramp.rename(tmp_path / "f" / "array.blp")
    ended = blpk("vrs", "verify", "-r", "f")
    assert (ended.code, ended.out, ended.err) == (0, "", "blpk: 0 checked, 1 of other types\n")
    (tmp_path / "f" / "x.vrs").write_text("no recording")
    ended = blpk("vrs", "verify", "-r", "f")
    assert (ended.code, ended.out) == (4, "")
    assert "f/x.vrs: not a VRS recording" in ended.err


def test_exit_codes(blpk: Blpk, yard: Path, tmp_path: Path, packed: Path) -> None:
    (tmp_path / "short.vrs").write_bytes(yard.read_bytes()[:40])
    commands = (["info"], ["list"], ["print"], ["checksum"], ["check"])
    for command in commands:
        assert blpk("vrs", *command, yard).code == 0
        assert blpk("vrs", *command, packed).code == 4
        assert blpk("vrs", *command, "missing").code == 1
        assert blpk("vrs", *command, "short.vrs").code == 3
        assert blpk("vrs", *command).code == 2
    assert blpk("vrs", "extract", packed, "out").code == 4
    assert blpk("vrs").code == 2
    assert blpk("info", "short.vrs").code == 3


def test_standard_input(blpk: Blpk, yard: Path) -> None:
    ended = blpk("vrs", "check", "-", stdin=yard.read_bytes())
    assert (ended.code, ended.out) == (0, "-: ok\n")
    assert blpk("vrs", "info", "-", "--json", stdin=yard.read_bytes()).json["parts"] == [None]
    assert blpk("vrs", "info", "-", stdin=b"").code == 4


def test_checksum(blpk: Blpk, yard: Path) -> None:
    with vrs.open(yard) as recording:
        checksum = recording.checksum()
    ended = blpk("vrs", "checksum", "yard.vrs", "missing")
    assert (ended.code, ended.out) == (1, f"{checksum}  yard.vrs\n")
    found = blpk("vrs", "checksum", "--json", "yard.vrs", "missing").json["files"]
    assert [(each["status"], each["checksum"]) for each in found] == [
        ("ok", checksum),
        ("failed", None),
    ]
    damaged(yard, 5)
    ended = blpk("vrs", "checksum", "damaged.vrs")
    assert (ended.code, ended.out) == (3, "")


def test_extract(blpk: Blpk, yard: Path) -> None:
    ended = blpk("vrs", "extract", "yard.vrs", "out")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("out: 25 records, 6 files (4 image, 1 custom, 1 metadata), ")
    ended = blpk("vrs", "extract", "yard.vrs", "out")
    assert (ended.code, ended.err) == (1, "blpk: error: folder 'out' is not empty\n")
    for options in (["-f"], ["--force", "--json"]):
        assert blpk("vrs", "extract", "yard.vrs", "out", *options).code == 0
    ended = blpk("vrs", "extract", damaged(yard, 5), "some", "--only", "image", "--json")
    assert ended.code == 3
    assert ended.json["nfiles"] == {"image": 3}
    assert (ended.json["status"], ended.json["nrecords"]) == ("damaged", 24)
    assert "record 5 of stream 214-1" in ended.err
    assert sorted(path.name for path in Path("some").iterdir()) == ["214-1"]


def test_problems_found_while_opening_are_notes(blpk: Blpk, yard: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.vrs").write_bytes(yard.read_bytes()[:-200])
    for command in ("info", "list", "print", "checksum"):
        ended = blpk("vrs", command, "cut.vrs")
        assert ended.code == 0
        assert ended.err.startswith("blpk: cut.vrs: index rebuilt: ")
        assert blpk("vrs", command, "cut.vrs", "-q").err == ""
    assert blpk("vrs", "info", "cut.vrs", "--json").json["faults"][0].startswith("index rebuilt")


def test_missing_records_are_reported_once(blpk: Blpk, yard: Path, tmp_path: Path) -> None:
    with vrs.open(yard) as recording:
        end = recording.table.offset.max() + 5
    (tmp_path / "cut.vrs").write_bytes(yard.read_bytes()[:end])
    for command in ("info", "list", "check"):
        ended = blpk("vrs", command, "cut.vrs")
        both = ended.out + ended.err
        assert both.count("not a record: 5 bytes are less than a record header") == 1
        assert "warning" not in both
    # Commands for all file types do not print a report; they warn.
    ended = blpk("convert", "cut.vrs", "out.blp")
    assert ended.err.count("blpk: warning: cut.vrs: 5 bytes, the first at byte") == 1
    assert ended.err.count("do not belong to a record") == 1
