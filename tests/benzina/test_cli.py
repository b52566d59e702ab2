"""``blpk bzna``: text, JSON and exit codes."""

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="pictures are coded by PyAV")
pytest.importorskip("PIL", reason="pictures are read and written by Pillow")

from bloscpack import benzina
from bloscpack.media import image

from ..cli.conftest import Blpk, flip
from .codedfiles import picture, sample, write_dataset
from .pictures import photo, save

NAMES = [b"0.png\0", b"1.png\0", b"2.png\0"]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "a.bzna", NAMES)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes with two pictures each, and one without any."""
    for number, name in enumerate(["cat/a.png", "cat/b.png", "dog/c.png", "dog/d.png", "top.png"]):
        save(tmp_path / "photos" / name, photo(20 + number, 30, number))
    return tmp_path / "photos"


def first_byte(path: Path, index: int) -> int:
    with benzina.open(path) as opened:
        return opened[index].location


def test_info(blpk: Blpk, dataset: Path) -> None:
    ended = blpk("bzna", "info", "a.bzna")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("kind: Benzina dataset\nsamples: 3\n")
    assert "targets: 3, 3 different, 0 to 2\nnames: 3\n" in ended.out
    assert "\npicture: 30x20 in a frame of 64x64, hvc1, " in ended.out
    assert "      3  hvc1                      64x64      bzna_thumb\n" in ended.out
    assert blpk("info", "a.bzna").out == ended.out
    document = blpk("info", "a.bzna", "--json").json
    assert blpk("bzna", "info", "--json", "a.bzna").json == document
    assert document["kind"] == "dataset"
    assert document["nsamples"] == 3
    assert document["cbytes"] == dataset.stat().st_size
    assert document["targets"] == {"count": 3, "distinct": 3, "min": 0, "max": 2}
    assert document["splits"] == {}
    first = document["first_sample"]["bzna_input"]
    assert (first["shape"], first["frame"]) == ([30, 20], [64, 64])
    assert document["errors"] == []
    assert [track["shape"] for track in document["tracks"]] == [None, None, None, [64, 64]]


def test_info_of_nothing_and_of_standard_input(blpk: Blpk, tmp_path: Path) -> None:
    write_dataset(tmp_path / "empty.bzna", count=0)
    text = blpk("bzna", "info", "empty.bzna").out
    assert "samples: 0\n" in text
    assert not {"targets:", "names:", "picture:"} & {*text.split()}
    assert blpk("bzna", "info", "-", stdin=(tmp_path / "empty.bzna").read_bytes()).out == text


def test_info_reports_damage_and_prints_the_rest(blpk: Blpk, tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.bzna", NAMES, targets=[b"seven.."] * 3)
    flip(path, first_byte(path, 0))
    ended = blpk("bzna", "info", "a.bzna")
    assert ended.code == 3
    assert "samples: 3" in ended.out
    assert ended.err.count("blpk: error: a.bzna: sample 0: ") == 2
    found = blpk("bzna", "info", "a.bzna", "--json").json
    assert (found["targets"], found["first_sample"], found["nnames"]) == (None, None, 3)
    assert len(found["errors"]) == 2


def test_ls(blpk: Blpk, dataset: Path) -> None:
    ended = blpk("bzna", "ls", "a.bzna")
    sizes = [len(sample(number)) for number in range(3)]
    assert ended.out.splitlines() == [
        f"{number:>8}  {number:>8}  {sizes[number]:>9}  {number}.png" for number in range(3)
    ]
    entries = blpk("bzna", "ls", "a.bzna", "--json", "--select", "1:").json["samples"]
    assert entries[0] == {
        "sample": 1,
        "name": "1.png",
        "target": 1,
        "offset": first_byte(dataset, 1),
        "cbytes": sizes[1],
    }
    assert [entry["sample"] for entry in entries] == [1, 2]
    assert "30x20" in blpk("bzna", "ls", "a.bzna", "--pictures", "--select", "0").out
    assert blpk("bzna", "ls", "a.bzna", "--select", "-1").out.split()[0] == "2"


def test_ls_reports_damaged_samples_and_lists_the_others(blpk: Blpk, dataset: Path) -> None:
    flip(dataset, first_byte(dataset, 1))
    ended = blpk("bzna", "ls", "a.bzna", "--pictures")
    assert ended.code == 3
    assert len(ended.out.splitlines()) == 3
    assert "error: a.bzna: sample 1: " in ended.err
    entry = blpk("bzna", "ls", "a.bzna", "--pictures", "--json").json["samples"][1]
    assert entry["bzna_input"] is None
    assert "sample 1: " in entry["error"]
    assert blpk("bzna", "ls", "a.bzna").code == 0


def test_names_are_escaped(blpk: Blpk, tmp_path: Path) -> None:
    write_dataset(tmp_path / "a.bzna", [b"\x1b[2J\nrm\0", b"\xff\0", "\u202e".encode()])
    ended = blpk("bzna", "ls", "a.bzna")
    assert ended.out.isprintable() or ended.out.replace("\n", "").isprintable()
    assert len(ended.out.splitlines()) == 3
    names = [entry["name"] for entry in blpk("bzna", "ls", "a.bzna", "--json").json["samples"]]
    assert names == ["\x1b[2J\nrm", "\\xff", "\u202e"]


def test_verify(blpk: Blpk, dataset: Path, tmp_path: Path) -> None:
    hurt = write_dataset(tmp_path / "hurt.bzna", NAMES)
    flip(hurt, first_byte(hurt, 2))
    ended = blpk("bzna", "verify", "a.bzna", "hurt.bzna", "--decode")
    assert ended.code == 3
    lines = ended.out.splitlines()
    assert lines[0] == "a.bzna: ok"
    assert lines[1].startswith("hurt.bzna: sample 2: ")
    assert blpk("verify", "hurt.bzna").out == lines[1] + "\n"
    assert blpk("verify", "hurt.bzna").code == 3
    sound, damaged = blpk("bzna", "verify", "a.bzna", "hurt.bzna", "--json").json["files"]
    assert (sound["status"], sound["nchunks"], sound["damage"]) == ("ok", 3, [])
    assert damaged["status"] == "damaged"
    assert [(each["index"], each["clip"]) for each in damaged["damage"]] == [(2, "2.png")]
    assert blpk("bzna", "verify", "-", stdin=dataset.read_bytes()).out == "-: ok\n"


@pytest.mark.parametrize("command", ["info", "ls", "verify"])
def test_files_that_are_not_datasets(blpk: Blpk, tmp_path: Path, command: str) -> None:
    (tmp_path / "text").write_text("some text without any box")
    (tmp_path / "empty").write_bytes(b"")
    save(tmp_path / "x.png", picture(0))
    for name in ("text", "empty", "x.png"):
        ended = blpk("bzna", command, name)
        assert (ended.code, ended.out) == (4, "")
        assert f"error: {name}: " in ended.err
        assert "not a Benzina dataset" in ended.err
    assert blpk("bzna", command, "missing").code == 1


@pytest.mark.parametrize("command", [["bzna", "info"], ["bzna", "verify"], ["info"], ["verify"]])
def test_a_damaged_dataset_is_still_a_dataset(
    blpk: Blpk, dataset: Path, tmp_path: Path, command: list[str]
) -> None:
    content = dataset.read_bytes()
    (tmp_path / "cut.mp4").write_bytes(content[:-5])
    (tmp_path / "cut.bzna").write_bytes(content[7:])
    for name in ("cut.mp4", "cut.bzna"):
        ended = blpk(*command, name)
        assert ended.code == 3, name
        assert name in ended.err + ended.out


def test_extract(blpk: Blpk, dataset: Path) -> None:
    ended = blpk("bzna", "extract", "a.bzna", "out", "--as", "png", "--select", "1:")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("out: 2 samples, ")
    assert sorted(os.listdir("out")) == ["1.png", "2.png", "samples.csv"]
    assert np.array_equal(image.decode(Path("out/1.png").read_bytes()), picture(1))
    again = blpk("bzna", "extract", "a.bzna", "out")
    assert (again.code, again.out) == (1, "")
    assert "is not empty" in again.err
    found = blpk("bzna", "extract", "a.bzna", "raw", "--list", "none", "--json").json
    nbytes = sum(len(sample(number)) for number in range(3))
    assert found == {
        "schema_version": 1,
        "command": "bzna extract",
        "path": "a.bzna",
        "target": "raw",
        "status": "ok",
        "nfiles": 3,
        "nbytes": nbytes,
        "nrenamed": 0,
        "damage": [],
    }
    assert Path("raw/0.mp4").read_bytes() == sample(0)
    assert blpk("bzna", "extract", "a.bzna", "out", "-f").code == 0


def test_extract_stays_in_the_folder(blpk: Blpk, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    write_dataset(tmp_path / "work/a.bzna", [b"../evil\0", b"/tmp/evil-bzna\0", b"ok\0"])
    ended = blpk("bzna", "extract", "work/a.bzna", "work/out")
    assert ended.code == 0
    assert "the names of 2 files differ from the stored names" in ended.err
    found = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.mp4")]
    assert sorted(found) == [
        "work/out/__/evil.mp4",
        "work/out/ok.mp4",
        "work/out/tmp/evil-bzna.mp4",
    ]
    assert not Path("/tmp/evil-bzna.mp4").exists()


def test_extract_of_a_damaged_dataset(blpk: Blpk, dataset: Path) -> None:
    flip(dataset, first_byte(dataset, 0))
    ended = blpk("bzna", "extract", "a.bzna", "out", "--as", "jpeg", "--list", "json")
    assert ended.code == 3
    assert "error: a.bzna: sample 0: " in ended.err
    assert sorted(os.listdir("out")) == ["1.jpg", "2.jpg", "samples.json"]


def test_pack(blpk: Blpk, photos: Path) -> None:
    ended = blpk(
        *("bzna", "pack", "photos", "p.bzna", "--tile", "64", "--preset", "ultrafast"),
        *("--lossless", "--split", "train=0:3", "--split", "val=3:5", "--json"),
    )
    assert ended.code == 0
    assert ended.json == {
        "schema_version": 1,
        "command": "bzna pack",
        "paths": ["photos"],
        "target": "p.bzna",
        "status": "ok",
        "nsamples": 5,
        "classes": ["cat", "dog"],
        "skipped": [],
    }
    with benzina.open("p.bzna") as packed:
        assert list(packed.names) == ["top.png", "cat/a.png", "cat/b.png", "dog/c.png", "dog/d.png"]
        assert packed.targets.tolist() == [-1, 0, 0, 1, 1]
        assert {name: len(span) for name, span in packed.splits.items()} == {"train": 3, "val": 2}
        assert np.array_equal(packed[1].decode("bzna_input"), photo(20, 30, 0))
    assert len(blpk("bzna", "ls", "p.bzna", "--split", "val").out.splitlines()) == 2
    again = blpk("bzna", "pack", "photos", "p.bzna")
    assert (again.code, again.out) == (1, "")
    assert "p.bzna" in again.err


def test_pack_of_files(blpk: Blpk, photos: Path) -> None:
    small = ("--tile", "64", "--preset", "ultrafast", "-c", "h264", "--crf", "30", "--no-thumb")
    ended = blpk("bzna", "pack", "photos/dog/c.png", "photos/top.png", "p.bzna", *small)
    assert ended.out == "p.bzna: 2 samples\n"
    with benzina.open("p.bzna") as packed:
        assert list(packed.names) == ["c.png", "top.png"]
        assert packed.targets.tolist() == [-1, -1]
        assert packed[0].layout.tracks["bzna_input"].entry_kind == b"avc1"


def test_pack_of_damaged_pictures(blpk: Blpk, photos: Path) -> None:
    (photos / "cat" / "aa.png").write_text("no picture")
    small = ("--tile", "64", "--preset", "ultrafast")
    ended = blpk("bzna", "pack", "photos", "p.bzna", *small)
    assert (ended.code, ended.out) == (3, "")
    assert "photos/cat/aa.png" in ended.err
    assert not Path("p.bzna").exists()
    ended = blpk("bzna", "pack", "photos", "p.bzna", *small, "--skip-damaged")
    assert ended.code == 1
    assert ended.out == "p.bzna: 5 samples, 2 classes (cat, dog), 1 skipped\n"
    assert "skipped: photos/cat/aa.png: " in ended.err
    done = blpk(
        *("bzna", "pack", "photos", "p.bzna", *small, "-f", "--skip-damaged", "--allow-skipped"),
        "--json",
    )
    assert (done.code, done.json["status"]) == (0, "ok")
    assert [each["position"] for each in done.json["skipped"]] == [2]


def test_sheet(blpk: Blpk, dataset: Path) -> None:
    ended = blpk("bzna", "sheet", "a.bzna", "s.png", "--columns", "2")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "blpk: 2 rows of 2 samples: 0, 1, 2\n"
    pixels = image.decode(Path("s.png").read_bytes())
    assert pixels.shape[1] == 2 * 244 + 4
    # Grey gaps, and the first picture enlarged.
    assert (pixels[:4] == 48).all()
    assert np.array_equal(pixels[4, 4], picture(0)[0, 0])
    ended = blpk("bzna", "sheet", "a.bzna", "t.png", "--select", "2", "--track", "input", "-q")
    assert (ended.code, ended.err) == (0, "")
    assert blpk("bzna", "sheet", "a.bzna", "1.png", "one.png").err.endswith("1 frames: 0\n")
    ended = blpk("bzna", "sheet", "a.bzna", "1.png", "two.png", "--track", "thumb")
    assert (ended.code, Path("two.png").exists()) == (2, False)
    assert blpk("bzna", "sheet", "a.bzna", "s.png").code == 1
    ended = blpk("-f", "bzna", "sheet", "a.bzna", "a.bzna")
    assert (ended.code, "name the file *.png" in ended.err) == (2, True)
    Path("a.png").symlink_to("a.bzna")
    assert "same file" in blpk("-f", "bzna", "sheet", "a.bzna", "a.png").err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ls", "a.bzna", "--select", "0,1"], 2, "a number or one range"),
        (["ls", "a.bzna", "--select", "9"], 1, "out of range: there are 3 samples"),
        (["ls", "a.bzna", "--split", "train"], 1, "no split 'train'"),
        (["ls", "a.bzna", "--splits", "imagenet"], 1, "needs 150000 samples"),
        (["extract", "a.bzna", "x", "--quality", "9"], 2, "--quality requires --as jpeg"),
        (["extract", "a.bzna", "x", "--track", "thumb"], 2, "--track requires"),
        (["extract", "a.bzna", "x", "--as", "jpeg", "--quality", "0"], 1, "1 to 100"),
        (["extract", "a.bzna"], 2, "FOLDER"),
        (["pack", "a.bzna"], 2, "OUT"),
        (["pack", "nothing", "x.bzna"], 1, "'nothing' does not exist"),
        (["pack", ".", "a.bzna", "x.bzna"], 2, "is a folder"),
        (["pack", "a.bzna", "x.bzna", "--split", "train"], 2, "train=0:100"),
        (["pack", "a.bzna", "x.bzna", "--split", "=1:2"], 2, "train=0:100"),
        (["pack", "a.bzna", "x.bzna", "--allow-skipped"], 2, "--skip-damaged"),
        (["pack", "a.bzna", "x.bzna", *2 * ("--split", "a=0:1")], 2, "given twice"),
        (["pack", "-f", "a.bzna", "a.bzna"], 1, "same file"),
        (["pack", "a.bzna", "-"], 2, "not '-'"),
        (["pack", "a.bzna", "x.bzna", "--tile", "7"], 1, "tile 7"),
        (["sheet", "a.bzna", "x.png", "--columns", "0"], 2, "at least 1"),
        (["sheet", "a.bzna", "x.png", "--select", "3:"], 1, "no frames"),
        ([], 2, "COMMAND"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_errors(
    blpk: Blpk, dataset: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    ended = blpk("bzna", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert os.listdir(tmp_path) == ["a.bzna"]


def test_codecs_are_those_of_the_writer() -> None:
    from bloscpack.benzina.cli import pack
    from bloscpack.benzina.codec.encoder import CODECS

    assert tuple(CODECS) == pack.CODECS


def test_clips_of_a_dataset(blpk: Blpk, dataset: Path) -> None:
    assert blpk("frames", "verify", "a.bzna").out == "a.bzna: ok\n"
    assert "kind: Benzina dataset\nsamples: 3\n" in blpk("frames", "info", "a.bzna").out
    assert blpk("frames", "ls", "a.bzna", "1.png").out.startswith("1x31x23x3")
    flip(dataset, first_byte(dataset, 1))
    ended = blpk("frames", "verify", "a.bzna")
    assert ended.code == 3
    assert "sample 1: " in ended.out


def test_pack_of_a_folder_without_pictures_is_a_failure(blpk: Blpk, tmp_path: Path) -> None:
    pytest.importorskip("av")
    (tmp_path / "none").mkdir()
    ended = blpk("bzna", "pack", "none", "out.bzna")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("blpk: error: none: no pictures to pack")
    assert not Path("out.bzna").exists()
    assert blpk("bzna", "pack", "none", "out.bzna", "--allow-empty").code == 0
    assert Path("out.bzna").exists()
