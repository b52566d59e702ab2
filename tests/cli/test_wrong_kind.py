"""Commands with a file or folder of the wrong type, or an output that they cannot write."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import bloscpack as bp
from bloscpack.cli.commands import COMMANDS, Group
from bloscpack.format.filekind import GULP_DIRECTORY

from .conftest import Blpk


@pytest.fixture
def clips(tmp_path: Path) -> str:
    with bp.frames.create(tmp_path / "clips.blp") as store:
        store.append("walk", np.arange(2 * 4 * 6, dtype="u1").reshape(2, 4, 6))
        store.append("depth", np.zeros((2, 4, 6), "f4"))
    return str(tmp_path / "clips.blp")


def jpeg() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 10, 10)).save(file, "JPEG")
    return file.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "vids", "out.blp"),
        ("frames", "verify", "vids"),
        ("frames", "info", "vids"),
    ],
)
def test_a_folder_of_videos_is_not_an_empty_gulp_directory(
    blpk: Blpk, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "vids").mkdir()
    (tmp_path / "vids" / "a.mp4").write_bytes(b"")
    ended = blpk(*arguments)
    assert (ended.code, ended.out) == (4, "")
    assert "it holds videos (.mp4); 'blpk frames create FOLDER OUT.blp'" in ended.err
    assert not (tmp_path / "out.blp").exists()


def test_a_folder_instead_of_a_file_is_not_a_bare_system_error(blpk: Blpk, tmp_path: Path) -> None:
    (tmp_path / "gulped").mkdir()
    for name in ("data_0.gulp", "meta_0.gmeta"):
        (tmp_path / "gulped" / name).write_bytes(b"")
    groups = {each.name for each in COMMANDS if isinstance(each, Group)}
    for command in ("decompress -e", *(f"{name} info" for name in groups & {"vrs", "bzna"})):
        ended = blpk(*command.split(), "gulped", *(["out"] if "-e" in command else []))
        assert (command, ended.code) == (command, 4)
        assert ended.err == (
            f"blpk: error: gulped: a Gulp directory, not a file: {GULP_DIRECTORY.advice}\n"
        )


def test_an_array_is_not_a_damaged_store(blpk: Blpk, tmp_path: Path) -> None:
    bp.save(tmp_path / "array.blp", np.arange(9))
    ended = blpk("frames", "info", "array.blp")
    assert ended.code == 4
    assert "not a frame store: open it with bloscpack.open" in ended.err
    ended = blpk("convert", "array.blp", "x", "--to", "images")
    assert ended.code == 1
    assert "an array of shape (9,) is not a clip of frames" in ended.err


def test_creating_a_store_of_nothing_fails(blpk: Blpk, tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    np.save(tmp_path / "some" / "x.npy", np.zeros((2, 3)))
    (tmp_path / "none").mkdir()
    create = ("frames", "create", "--from", "videos")
    ended = blpk(*create, "none", "out.blp")
    assert ended.code == 1
    assert "none: nothing to ingest" in ended.err
    assert not (tmp_path / "out.blp").exists()
    assert blpk(*create, "none", "out.blp", "--allow-empty").code == 0
    # An empty input is an error even if another input has items.
    ended = blpk("frames", "create", "--from", "arrays", "some", "none", "two.blp", "-w", "1")
    assert ended.code == 1
    assert "none: nothing to ingest" in ended.err
    assert not (tmp_path / "two.blp").exists()


def test_an_empty_store_is_converted_only_if_that_is_allowed(blpk: Blpk, tmp_path: Path) -> None:
    bp.frames.create(tmp_path / "empty.blp").close()
    ended = blpk("convert", "empty.blp", "out")
    assert ended.code == 1
    assert "empty.blp: no clips to convert; --allow-empty" in ended.err
    assert not (tmp_path / "out").exists()
    assert blpk("convert", "--allow-empty", "empty.blp", "out").code == 0
    assert (tmp_path / "out").exists()


def test_cat_writes_the_format_of_the_suffix(blpk: Blpk, tmp_path: Path, clips: str) -> None:
    cat = ("frames", "cat", clips, "walk", "--select", "1", "-o")
    assert blpk(*cat, "x.png").code == 0
    pixels = np.arange(24, 48, dtype="u1").reshape(4, 6)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "x.png")), pixels)
    assert blpk(*cat, "x.jpg").code == 0
    assert (tmp_path / "x.jpg").read_bytes()[:3] == b"\xff\xd8\xff"
    assert blpk(*cat, "x.raw").code == 0
    assert (tmp_path / "x.raw").read_bytes() == pixels.tobytes()
    assert blpk(*cat, "x.txt").code == 0
    assert (tmp_path / "x.txt").read_text().startswith("[[24 25")
    for name in ("x.tif", "x.npz", "x.mp4"):
        ended = blpk(*cat, name)
        assert (ended.code, (tmp_path / name).exists()) == (2, False)
        assert "cannot write" in ended.err
    ended = blpk("frames", "cat", clips, "walk", "-o", "all.png")
    assert ended.code == 2
    assert "select it by its number" in ended.err
    ended = blpk("frames", "cat", clips, "depth", "--select", "0", "-o", "depth.png")
    assert ended.code == 1
    assert "PNG stores uint8" in ended.err
    assert not (tmp_path / "depth.png").exists()
    ended = blpk("frames", "sheet", clips, "walk", "sheet.jpg")
    assert (ended.code, "name the file *.png" in ended.err) == (2, True)


def test_cat_keeps_a_jpeg_as_it_is(blpk: Blpk, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "kept.blp") as store:
        store.append("a", [jpeg()])
    assert blpk("frames", "cat", "kept.blp", "a", "--select", "0", "-o", "x.jpg").code == 0
    assert (tmp_path / "x.jpg").read_bytes() == jpeg()
    ended = blpk("frames", "cat", "kept.blp", "a", "--select", "0", "--image", "-o", "x.png")
    assert (ended.code, "name the file *.jpeg" in ended.err) == (2, True)


def test_cat_of_an_array_writes_a_picture(blpk: Blpk, tmp_path: Path) -> None:
    pixels = np.arange(24, dtype="u1").reshape(4, 6)
    bp.save(tmp_path / "array.blp", pixels)
    assert blpk("cat", "array.blp", "-o", "x.png").code == 0
    assert np.array_equal(np.asarray(Image.open(tmp_path / "x.png")), pixels)


@pytest.mark.parametrize(
    "verb",
    [["info"], ["ls"], ["verify"], ["cat"], ["show", "--plain"], ["recover", "@", "out"]],
    ids=lambda verb: verb[0],
)
def test_verbs_agree_on_a_wrong_input(
    blpk: Blpk, tmp_path: Path, clips: str, verb: list[str]
) -> None:
    """Each verb gives one line, and the same exit code, for an input that none can read."""
    bp.save(tmp_path / "arr.blp", np.arange(5))
    bp.savez(tmp_path / "ar.blp", {"a": np.arange(5)})
    (tmp_path / "not.zip").write_bytes(b"text")
    (tmp_path / "x.fits").write_bytes(b"SIMPLE  =" + bytes(600))
    (tmp_path / "dir").mkdir()
    for name, code, words in (
        ("", 1, "file '' does not exist"),
        ("missing", 1, "does not exist"),
        ("missing::/x", 1, "does not exist"),
        ("arr.blp::/x", 4, "has no array 'x'"),
        ("ar.blp::/x", 1, "no array 'x'"),
        ("clips.blp::/x", 1, "clip"),
        ("x.fits", 4, "a FITS file"),
        ("dir", 4, "a folder"),
        ("memory://missing", 1, "no such object"),
        ("zip://m::not.zip", 1, "not a zip file"),
    ):
        given = [name if word == "@" else word for word in verb]
        ended = blpk(*given, *([name] if "@" not in verb else []))
        assert (ended.code, ended.out) == (code, ""), name
        assert ended.err.startswith("blpk: error: "), name
        assert ended.err.count("\n") == 1, ended.err
        assert words in ended.err, name


def test_an_empty_name_behind_a_file_is_the_file(blpk: Blpk, clips: str) -> None:
    for verb in ("info", "ls", "verify"):
        assert blpk(verb, "clips.blp::/").out.replace("::/", "") == blpk(verb, "clips.blp").out
