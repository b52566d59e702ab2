"""``blpk convert`` and ``blpk frames`` on gulp directories."""

import os
from pathlib import Path

import pytest

import bloscpack as bp
from bloscpack.gulp import GulpChunk
from bloscpack.media import image

from ..cli.clipfiles import CLIPS, pixels
from ..cli.conftest import Blpk, flip
from ..cli.test_convert import check_not_replaced
from ..servers import FileServer, running

pytest.importorskip("simplejpeg", reason="a gulp directory holds JPEG")


@pytest.fixture
def gulp(tmp_path: Path) -> Path:
    """A directory of two clips of images, one with images of two shapes."""
    path = tmp_path / "gulp"
    path.mkdir()
    chunk = GulpChunk(path / "data_0.gulp", path / "meta_0.gmeta")
    with chunk.open("wb"):
        chunk.append("walk", {"n": 0}, list(CLIPS["walk"]))
        chunk.append("mixed", {"n": 1}, [pixels(4, 8, 8, 3), pixels(5, 16, 8)])
    return path


def test_there_and_back(blpk: Blpk, tmp_path: Path, gulp: Path) -> None:
    ended = blpk("convert", "gulp", "clips.blp")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "clips.blp: 2 clips, 8 frames, 8 of them images copied byte for byte\n"
    ended = blpk("convert", "--json", "clips.blp", "back")
    assert ended.json == {
        "schema_version": 1,
        "command": "convert",
        "paths": ["clips.blp"],
        "target": "back",
        "kind": "gulp",
        "clips": 2,
        "frames": 8,
        "images": 8,
        "lossless": True,
        "left_out": [],
    }
    for path in gulp.iterdir():
        assert (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()


def test_options_of_convert(blpk: Blpk, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "a.blp") as store:
        for number in range(3):
            store.append(f"{number}", CLIPS["walk"])
    ended = blpk("convert", "a.blp", "gulp")
    assert (ended.code, ended.out) == (1, "")
    assert "give a quality" in ended.err
    ended = blpk("convert", "a.blp", "gulp", "--quality", "80", "--videos-per-chunk", "2")
    assert ended.out == (
        "gulp: 3 clips, 18 frames, 0 of them images copied byte for byte; others are not exact\n"
    )
    assert sorted(os.listdir("gulp")) == [
        "data_0.gulp",
        "data_1.gulp",
        "meta_0.gmeta",
        "meta_1.gmeta",
    ]


@pytest.mark.usefixtures("gulp")
def test_existing_files_are_not_replaced(blpk: Blpk, tmp_path: Path) -> None:
    check_not_replaced(blpk, "gulp", tmp_path / "x.blp")
    assert blpk("convert", "gulp", "gulp", "--to", "gulp", "-f").code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["gulp"], 2, "DST"),
        (["gulp", "x", "--to", "zip"], 2, "--to"),
        (["gulp", "x", "--quality", "90"], 1, "quality is for a copy of type 'gulp'"),
        (["gulp", "x", "--videos-per-chunk", "0"], 2, "must be at least 1"),
    ],
)
@pytest.mark.usefixtures("gulp")
def test_errors_of_convert(
    blpk: Blpk, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    ended = blpk("convert", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert os.listdir(tmp_path) == ["gulp"]


def test_a_stored_image_is_not_decoded(
    blpk: Blpk, gulp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bp.frames.open(gulp) as source:
        clip = source["mixed"]
        images = clip.read_images()
    assert images is not None
    monkeypatch.setattr(type(clip), "read", None)
    for command in (
        ["frames", "cat", gulp, "mixed", "--select", "1"],
        ["cat", f"{gulp}::/mixed", "1"],
    ):
        assert blpk(*command, "--image").raw == images[1]


def test_images_as_they_are_kept(blpk: Blpk, tmp_path: Path, gulp: Path) -> None:
    with bp.frames.open(gulp) as source:
        images = source["mixed"].read_images()
        assert images is not None
        for number in (0, 1):
            ended = blpk("frames", "cat", gulp, "mixed", "--select", f"{number}", "--image")
            assert (ended.code, ended.raw) == (0, images[number])
            ended = blpk("frames", "cat", gulp, "mixed", "--select", f"{number}")
            assert ended.raw == source["mixed"][number].tobytes()
            document = blpk("frames", "cat", gulp, "mixed", "--select", f"{number}", "--json").json
            assert document["shape"] == list(source["mixed"][number].shape)
    ended = blpk("frames", "cat", gulp, "mixed", "--select", "2", "--image")
    assert (ended.code, ended.out) == (1, "")
    assert "clip 'mixed': frame 2 of a clip of 2" in ended.err
    assert blpk("frames", "cat", gulp, "mixed", "--image").code == 2
    # Frames that differ in shape do not form an array.
    ended = blpk("frames", "cat", gulp, "mixed", "-o", "x.npy")
    assert ended.code == 1
    assert not (tmp_path / "x.npy").exists()


def test_info_as_json(blpk: Blpk, gulp: Path) -> None:
    ended = blpk("frames", "info", "--json", gulp)
    assert ended.code == 0
    assert ended.json == {
        "schema_version": 1,
        "command": "info",
        "path": os.fspath(gulp),
        "kind": "gulp",
        "cbytes": sum(each.stat().st_size for each in gulp.iterdir()),
        "nchunks": 1,
        "nclips": 2,
        "nframes": 8,
        "errors": [],
    }


def test_ls(blpk: Blpk, gulp: Path) -> None:
    ended = blpk("frames", "ls", gulp, "mixed", "--meta")
    assert ended.out.split(maxsplit=4) == ["2x8x8x3", "|u1", "images", "384", 'mixed  {"n": 1}\n']


def test_verify(blpk: Blpk, gulp: Path) -> None:
    ended = blpk("frames", "verify", gulp)
    assert (ended.code, ended.out, ended.err) == (0, f"{gulp}: ok\n", "")
    flip(gulp / "data_0.gulp", 0)
    ended = blpk("frames", "verify", gulp)
    assert ended.code == 3
    (line,) = ended.out.splitlines()
    assert line.startswith(f"{gulp}: data_0.gulp: item 'walk', frame 0: no JPEG")
    (document,) = blpk("frames", "verify", "--json", gulp).json["files"]
    assert document["status"] == "damaged"
    (damage,) = document["damage"]
    assert (damage["clip"], damage["frames"]) == ("walk", [0, 1])
    assert line.endswith(damage["what"])


def test_sheets(blpk: Blpk, gulp: Path) -> None:
    pytest.importorskip("PIL", reason="a sheet is written by Pillow")
    assert blpk("frames", "sheet", gulp, "mixed", "x.png").code == 0
    flip(gulp / "data_0.gulp", 0)
    ended = blpk("frames", "sheet", gulp, "walk", "y.png")
    assert ended.code == 3
    assert "frame 0" in ended.err


def test_create(blpk: Blpk, gulp: Path) -> None:
    assert blpk("frames", "create", "gulp", "a.blp").code == 0
    assert blpk("frames", "create", "--from", "gulp", "gulp", "a.blp", "b.blp").code == 1
    with bp.frames.open("a.blp") as store:
        assert store["walk"].meta == {"n": 0}
        assert store["walk"].read_images() == [image.encode_jpeg(each) for each in CLIPS["walk"]]
    with bp.frames.open("b.blp") as store:
        assert list(store) == ["walk", "mixed"]


def test_behind_a_web_server(blpk: Blpk, gulp: Path) -> None:
    with running(FileServer()) as server:
        for path in gulp.iterdir():
            server.files[f"/gulp/{path.name}"] = path.read_bytes()
        names = [path.name for path in gulp.iterdir()]
        server.files["/gulp/"] = "".join(f'<a href="{name}">x</a>' for name in names).encode()
        found = blpk("frames", "ls", server.url("gulp/"))
        assert found.code == 0
        assert found.raw == blpk("frames", "ls", gulp).raw
        assert blpk("convert", server.url("gulp/"), "copy.blp").code == 0


@pytest.mark.parametrize("command", ["check", "info"])
def test_a_folder_of_videos_is_not_an_empty_directory(
    blpk: Blpk, tmp_path: Path, command: str
) -> None:
    (tmp_path / "vids").mkdir()
    (tmp_path / "vids" / "a.mp4").write_bytes(b"")
    ended = blpk("gulp", command, "vids")
    assert (ended.code, ended.out) == (4, "")
    assert "it holds videos (.mp4); 'blpk frames create FOLDER OUT.blp'" in ended.err
