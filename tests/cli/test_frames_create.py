import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.frames import listing
from bloscpack.parallel.progressbar import ProgressBar

from ..frames.imagefiles import image_folders
from ..videofiles import moving, write_video
from .conftest import Blpk

FIELDS = ["schema_version", "command", "path", "status", "paths", "nclips", "nframes", "cbytes"]
FIELDS += ["npresent", "nskipped", "remarks"]


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    image_folders(tmp_path / "images", 3, 2)
    return tmp_path / "images"


def ids(path: str | Path) -> list[str]:
    with bp.frames.open(path) as store:
        return list(store)


def test_created_and_continued(blpk: Blpk, folders: Path) -> None:
    ended = blpk("frames", "create", "images", "a.blp")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("a.blp: 3 clips of 6 frames added (")
    image_folders(folders, 5, 2)
    ended = blpk("frames", "create", "images", "a.blp")
    assert ended.out.startswith("a.blp: 2 clips of 4 frames added (")
    assert ended.out.endswith("), 3 already in the store\n")
    assert ids("a.blp") == [f"clip{k}" for k in range(5)]
    assert blpk("frames", "create", "--no-resume", "images", "a.blp").code == 1
    assert blpk("frames", "create", "-f", "images/clip1", "a.blp").code == 0
    assert ids("a.blp") == ["clip1"]


def test_the_former_order(blpk: Blpk, folders: Path) -> None:
    assert blpk("frames", "create", "a.blp", "images/clip0", "images/clip2").code == 0
    assert blpk("frames", "create", "a.blp", "images").code == 0
    assert ids("a.blp") == ["clip0", "clip2", "clip1"]
    assert blpk("frames", "create", "-f", "a.blp", "images/clip1").code == 0
    assert ids("a.blp") == ["clip1"]


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize(
    "names",
    [
        ["images", "x.npy"],
        ["x.npy", "x.npy"],
        ["x.npy", "images"],
        ["new.npy", "x.npy"],  # a typing error, rather than a store
        ["new", "images"],
        ["--from", "gulp", "a.blp", "b.blp"],
        ["--from", "gulp", "a.blp", "images", "b.blp"],
    ],
    ids=" ".join,
)
def test_no_guess_writes_to_an_input(
    blpk: Blpk, folders: Path, names: list[str], force: list[str]
) -> None:
    np.save("x.npy", np.zeros((2, 3, 4)))
    for name in "ab":
        bp.frames.create(f"{name}.blp").close()
    before = {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")}
    ended = blpk("frames", "create", *force, *names)
    assert ended.code == 2
    assert "OUT stands last" in ended.err or "both Bloscpack files" in ended.err
    assert {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")} == before


def test_skipped_items(blpk: Blpk, folders: Path) -> None:
    (folders / "clip1" / "f0.jpg").write_bytes(b"\x1b[31m")
    ended = blpk("frames", "create", "--log", "log", "images", "a.blp")
    assert ended.code == 1
    assert ended.out.endswith(", 1 skipped\n")
    assert ended.err.startswith("blpk: clip1 (images/clip1): skipped: f0.jpg: neither a JPEG nor")
    (line,) = Path("log").read_text().splitlines()
    entry = json.loads(line)
    assert (entry["id"], entry["source"], entry["skipped"]) == ("clip1", "images/clip1", True)
    ended = blpk("frames", "create", "--json", "--allow-skipped", "images", "a.blp")
    assert (ended.code, list(ended.json)) == (0, FIELDS)
    assert (ended.json["status"], ended.json["npresent"], ended.json["nskipped"]) == ("ok", 2, 1)
    assert ended.json["remarks"] == [entry]


def test_inputs_of_all_kinds(blpk: Blpk, folders: Path, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    write_video(tmp_path / "videos" / "v.mov", moving(4))
    np.save(tmp_path / "array.npy", np.arange(6).reshape(2, 3))
    rows = [{"path": "clip1", "id": "listed", "label": 3}]
    (folders / "list.json").write_text(json.dumps(rows))
    ended = blpk(
        "frames", "create", "videos", "array.npy", "images/list.json",
        "images/clip0/f1.jpg", "images", "a.blp", "--workers", "1",
    )  # fmt: skip
    assert (ended.code, ended.err) == (0, "blpk: list.json (images/list.json): left out: file\n")
    assert ids("a.blp") == ["v", "array", "listed", "f1", "clip0", "clip1", "clip2"]
    with bp.frames.open("a.blp") as store:
        assert store["listed"].meta == {"label": 3}
        np.testing.assert_array_equal(store["v"][:], moving(4))


def test_videos_that_are_decoded(blpk: Blpk, tmp_path: Path) -> None:
    write_video(tmp_path / "v.mp4", moving(20), codec="libx264")
    ended = blpk("frames", "create", "v.mp4", "a.blp", "--workers", "1")
    assert ended.code == 0
    assert "of frames were decoded from" in ended.err
    assert "--video copy keeps the packets" in ended.err
    for options in (["--video", "recode"], ["-q"], []):  # the last time they are present
        target = "a.blp" if not options else f"{options[0]}.blp"
        assert blpk("frames", "create", *options, "-w", "1", "v.mp4", f"./{target}").err == ""


def test_each_image_a_clip(blpk: Blpk, folders: Path) -> None:
    assert blpk("frames", "create", "--from", "images", "images", "a.blp").code == 0
    assert ids("a.blp") == [f"clip{k}/f{n}" for k in range(3) for n in range(2)]


def test_store_options(blpk: Blpk, folders: Path) -> None:
    ended = blpk(
        "frames", "create", "-c", "lossless", "--preset", "small", "--size", "6", "-w", "2",
        "--max-bytes", "100B", "--json", "images", "set.blp",
    )  # fmt: skip
    assert ended.json["paths"] == [f"set-{k:05d}.blp" for k in range(3)]
    with bp.frames.open("set-00002.blp") as store:
        assert (store.preset, store["clip2"].shape) == ("small", (2, 6, 8, 3))
    assert blpk("frames", "create", "-c", "jpeg", "--quality", "10", "images", "j.blp").code == 0
    with bp.frames.open("j.blp") as store:
        assert store.quality == 10


def test_list_options(blpk: Blpk, folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders, tmp_path / "elsewhere")
    Path("list.csv").write_text("folder;name\nclip2;two\n../images/clip1;one\n")
    command = ["frames", "create", "--root", "elsewhere", "--path-column", "folder"]
    command += ["--id-column", "name", "list.csv", "a.blp"]
    ended = blpk(*command)
    assert ended.code == 1
    assert "one (row 3): skipped: 'elsewhere/../images/clip1' leads out of 'elsewhere'" in ended.err
    assert ids("a.blp") == ["two"]
    assert blpk("--quiet", *command, "--outside").code == 0
    assert ids("a.blp") == ["two", "one"]


@pytest.mark.parametrize(
    "argv",
    [
        ["a.blp"],
        ["--from", "films", "images", "a.blp"],
        ["--quality", "50", "images", "a.blp"],
        ["--size", "50", "images", "a.blp"],
        ["--codec", "png", "images", "a.blp"],
        ["--workers", "0", "images", "a.blp"],
        ["--max-bytes", "0", "images", "a.blp"],
        ["--max-bytes", "many", "images", "a.blp"],
    ],
)
def test_usage(blpk: Blpk, folders: Path, argv: list[str]) -> None:
    assert blpk("frames", "create", *argv).code == 2
    assert not Path("a.blp").exists()


@pytest.mark.parametrize(
    ("option", "value", "needed"),
    [
        ("--quality", "5", "--codec jpeg"),
        ("--size", "5", "--codec"),
        ("--crf", "5", "--codec video"),
    ],
)
def test_an_option_of_another_codec_names_the_option_it_needs(
    blpk: Blpk, folders: Path, option: str, value: str, needed: str
) -> None:
    ended = blpk("frames", "create", option, value, "images", "a.blp")
    assert (ended.code, needed in ended.err, option[2:] in ended.err) == (2, True, True)


def test_errors(blpk: Blpk, folders: Path) -> None:
    assert blpk("frames").code == 2
    assert "No such file" in blpk("frames", "create", "nothing", "a.blp").err
    Path("text.txt").touch()
    ended = blpk("frames", "create", "text.txt", "a.blp")
    assert (ended.code, "nothing to ingest" in ended.err) == (1, True)
    Path("a.csv").write_text("name\n1\n")
    assert blpk("frames", "create", "a.csv", "a.blp").code == 3
    assert not Path("a.blp").exists()


def test_kinds_are_those_of_the_package(blpk: Blpk) -> None:
    help_text = blpk("frames", "create", "--help").out
    assert "{" + ",".join(listing.KINDS) + "}" in help_text


def test_progress_counts_clips() -> None:
    assert ProgressBar.render(30, -1, 2.0, 60, unit="clips") == "30 clips"
    now = [0.0]
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    with ProgressBar(stream, unit="clips", clock=lambda: now[0]) as progress:
        now[0] = 5.0
        progress(3, -1)
        assert stream.getvalue() == "\r3 clips"
        progress.wipe()
        assert stream.getvalue().endswith("\r")


def test_a_log_replaces_only_a_log(blpk: Blpk, folders: Path, tmp_path: Path) -> None:
    """An earlier log, but neither an input, such as a list in JSON lines, nor another file."""
    np.save("x.npy", np.zeros((2, 3, 3), "u1"))
    Path("list.jsonl").write_text(json.dumps({"path": "images/clip1", "id": "a"}) + "\n")
    for name in ("x.npy", "list.jsonl", "images/clip0/f0.jpg"):
        before = Path(name).read_bytes()
        ended = blpk("frames", "create", "--log", name, "x.npy", "list.jsonl", "a.blp")
        assert (ended.code, ended.out) == (1, "")
        assert f"'{name}' exists and is not a log" in ended.err
        assert Path(name).read_bytes() == before
    assert not Path("a.blp").exists()
    (folders / "clip1" / "f0.jpg").write_bytes(b"no image")
    Path("log").touch()
    for _ in range(2):
        assert blpk("frames", "create", "--log", "log", "images", "a.blp").code == 1
        assert len(Path("log").read_text().splitlines()) == 1


@pytest.mark.parametrize("log", ["-", "a.blp", "./a.blp"])
def test_a_log_is_a_file_of_its_own(log: str, blpk: Blpk, folders: Path) -> None:
    ended = blpk("frames", "create", "--log", log, "images", "a.blp")
    assert (ended.code, ended.out) == (2, "")
    assert "--log" in ended.err
    assert sorted(os.listdir()) == ["images"]


@pytest.mark.parametrize("option", ["--root", "--path-column", "--id-column", "--frame-rate"])
def test_options_of_other_inputs_are_refused(blpk: Blpk, folders: Path, option: str) -> None:
    ended = blpk("frames", "create", option, "5", "images", "a.blp")
    assert (ended.code, ended.out) == (2, "")
    assert f"{option} is for inputs of type list" in ended.err
    assert not Path("a.blp").exists()
