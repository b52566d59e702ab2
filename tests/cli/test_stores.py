"""``blpk info``, ``ls``, ``verify`` and ``recover`` of frame stores."""

from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.media import image

from ..videofiles import moving, write_video
from .conftest import Blpk, flip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two clips of one kind, and one of images that differ in shape."""
    path = tmp_path / "clips.blp"
    rng = np.random.default_rng(0)
    with bp.frames.create(path, preset="small", attrs={"unit": "m"}) as frames:
        for number in range(2):
            frames.append(f"c{number}", rng.integers(0, 255, (5, 30, 40, 3), "u1"), {"n": number})
        sizes = ((8, 8, 3), (8, 9, 3))
        frames.append("mixed", [image.encode_jpeg(np.zeros(size, "u1")) for size in sizes])
    return path


def test_info(blpk: Blpk, store: Path) -> None:
    ended = blpk("info", store)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[:4] == ["kind: frame store", "clips: 3", "frames: 12", "chunks: 12"]
    assert {"codec: lossless", "preset: small", 'attrs: {"unit": "m"}'} <= {*lines}
    assert [line.rsplit(maxsplit=4) for line in lines[-3:]] == [
        ["frames of", "dtype", "codec", "clips", "frames"],
        ["30x40x3", "|u1", "lossless", "2", "10"],
        ["8x8x3 and others", "|u1", "image", "1", "2"],
    ]


def test_info_of_many_kinds(blpk: Blpk, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "many.blp") as frames:
        for number in range(1, 14):
            frames.append(str(number), np.zeros((number, number), "u1"))
        frames.append_video("walk", write_video(tmp_path / "walk.mp4", moving(4), codec="libx264"))
    lines = blpk("i", "many.blp").out.splitlines()
    assert sum(" |u1 " in line for line in lines) == 10
    assert lines[-1] == "and 4 more kinds"
    assert any(line.startswith("video: h264, groups of at most 4 frames") for line in lines)


def test_info_json(blpk: Blpk, store: Path) -> None:
    document = blpk("info", "--json", store).json
    nbytes = 10 * 30 * 40 * 3 + 2 * 8 * 8 * 3
    assert document == {
        "schema_version": 1,
        "command": "info",
        "path": str(store),
        "kind": "frames",
        "nchunks": 12,
        "nbytes": nbytes,
        "cbytes": store.stat().st_size,
        "ratio": nbytes / store.stat().st_size,
        "dead_nbytes": 0,
        "freed_nbytes": 0,
        "nclips": 3,
        "nframes": 12,
        "codec": "lossless",
        "preset": "small",
        "quality": 90,
        "subsampling": "444",
        "checksum": "xxh3_64",
        "format_version": 4,
        "attrs": {"unit": "m"},
        "formats": [
            {"codec": "lossless", "dtype": "|u1", "shape": [30, 40, 3], "varies": False}
            | {"nclips": 2, "nframes": 10},
            {"codec": "image", "dtype": "|u1", "shape": [8, 8, 3], "varies": True}
            | {"nclips": 1, "nframes": 2},
        ],
        "video": None,
        "errors": [],
    }


def test_ls(blpk: Blpk, store: Path, ramp: Path) -> None:
    with bp.frames.create("depth.blp") as frames:
        frames.append("a", np.zeros((6, 4, 5), "<u2"))
        frames.append("b", np.zeros((1, 4, 5), "<u2"))
    bp.frames.create("empty.blp").close()
    ended = blpk("ls", store, "depth.blp", ramp, "empty.blp")
    assert (ended.code, ended.err) == (0, "")
    rows = [line.split() for line in ended.out.splitlines()]
    assert rows[0][:4] == ["-", "various", "-", str(10 * 30 * 40 * 3 + 2 * 8 * 8 * 3)]
    assert rows[1][:4] == ["7x4x5", "<u2", "-", "280"]
    assert rows[1][6:] == ["xxh3_64", "depth.blp"]
    assert rows[2][0] == "30x4"
    assert rows[3][:4] == ["-", "various", "-", "0"]
    one, two = blpk("ls", "--json", "depth.blp", ramp).json["files"]
    assert list(one) == list(two)
    assert (one["kind"], one["shape"], one["dtype"]) == ("frames", [7, 4, 5], "<u2")


def test_standard_input(blpk: Blpk, store: Path) -> None:
    data = store.read_bytes()
    assert "clips: 3" in blpk("info", "-", stdin=data).out
    assert blpk("verify", "-", stdin=data).out == "-: ok\n"
    assert blpk("ls", "-", stdin=data).code == 0


def test_verify(blpk: Blpk, store: Path) -> None:
    assert blpk("verify", store).out == f"{store}: ok\n"
    with bp.frames.open(store) as frames:
        offset, cbytes = frames["c1"].chunk_extents()[3]
    flip(store, offset + 10)
    ended = blpk("verify", store)
    assert ended.code == 3
    assert ended.out.startswith(
        f"{store}: clip 'c1': frame 3 (bytes {offset} to {offset + cbytes}): xxh3_64 is "
    )
    (entry,) = blpk("verify", "--json", store).json["files"]
    assert (entry["status"], entry["nchunks"], entry["trailer"]) == ("damaged", 12, "valid")
    (damage,) = entry["damage"]
    assert (damage["clip"], damage["frames"], damage["index"]) == ("c1", [3, 4], 3)
    assert (damage["offset"], damage["end"]) == (offset, offset + cbytes)


def test_verify_with_a_damaged_start(blpk: Blpk, store: Path) -> None:
    """The index at the end identifies the type of the file."""
    flip(store, 0)
    ended = blpk("verify", store)
    assert ended.code == 3
    assert "header: magic is" in ended.out
    assert blpk("info", store).code == 4


def test_names_from_files_are_printed_safely(blpk: Blpk, tmp_path: Path) -> None:
    with bp.frames.create("names.blp") as frames:
        frames.append("\x1b[2J\n", np.full((1, 30, 30), 3, "u1"))
        (offset, _) = frames["\x1b[2J\n"].chunk_extents()[0]
    flip(tmp_path / "names.blp", offset + 20)
    ended = blpk("verify", "names.blp")
    assert ended.code == 3
    assert "\x1b" not in ended.out
    assert ended.out.count("\n") == 1


def test_recover(blpk: Blpk, store: Path) -> None:
    with bp.frames.open(store) as frames:
        offset, _ = frames["c0"].chunk_extents()[2]
    flip(store, offset + 10)
    ended = blpk("recover", store, "saved.blp")
    assert ended.code == 3
    lines = ended.out.splitlines()
    assert lines[0] == f"{store}: 7 of 12 chunks saved"
    assert f"{store}: 2 of 3 clips saved" in lines
    assert any("clip 'c0': frame 2" in line for line in lines)
    assert blpk("verify", "saved.blp").code == 0
    with bp.frames.open("saved.blp") as frames:
        assert list(frames) == ["c1", "mixed"]
        assert frames.attrs == {"unit": "m"}
    document = blpk("-f", "recover", "--json", store, "saved.blp").json
    assert (document["saved"], document["damage"][0]["clip"]) == (7, "c0")


@pytest.mark.parametrize("command", ["decompress", "append"])
def test_commands_for_arrays_name_the_type_of_the_file(
    blpk: Blpk, store: Path, command: str
) -> None:
    more = {"decompress": ["out"], "append": [store.with_name("ramp")]}[command]
    store.with_name("ramp").write_bytes(bytes(100))
    before = store.read_bytes()
    ended = blpk(command, store, *more)
    assert ended.code == 4
    assert "a frame store" in ended.err
    assert store.read_bytes() == before
