"""Pictures with one of each thing that they hold beside pixels, alone, in folders and in tars."""

import io
import os
import sys
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, UnsupportedError
from bloscpack.filetypes import picturefolder

from .conversions import assert_same

Image = pytest.importorskip("PIL.Image")
PngImagePlugin = pytest.importorskip("PIL.PngImagePlugin")

pytestmark = pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")

PICTURES = [Image.fromarray(np.full((8, 9, 3), each, "u1")) for each in (10, 20, 30)]


def encoded(kind: str, picture: Any = PICTURES[0], **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def animated() -> bytes:
    return encoded("PNG", save_all=True, append_images=PICTURES[1:])


def several_jpegs() -> bytes:
    return encoded("MPO", save_all=True, append_images=PICTURES[1:])


def folder_of(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("data", "count"),
    [(animated(), 2), (several_jpegs(), 2), (encoded("JPEG") + encoded("JPEG"), 1)],
)
def test_further_pictures_are_listed(data: bytes, count: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(data)
    folder_of(tmp_path / "folder", {"a.png": data, "b.png": encoded("PNG")})
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "folder" / "a.png", "a.png")
    for source, name in (("a", "a"), ("folder", "a.png"), ("a.tar", "a")):
        done = bp.convert(tmp_path / source, tmp_path / f"{source}.blp")
        assert done.left_out == (f"{name!r}: {count} more pages, which are kept in its bytes only",)
        with pytest.raises(UnsupportedError, match=r"strict: .* more pages"):
            bp.convert(tmp_path / source, tmp_path / "b.blp", strict=True)
        assert not (tmp_path / "b.blp").exists()
    found = bp.convert(tmp_path / "a", tmp_path / "a.npy").left_out
    assert f"'a': {count} more pages, which are kept in its bytes only" in found


def test_bytes_are_kept_and_what_decoding_loses_is_listed(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    text = PngImagePlugin.PngInfo()
    text.add_text("note", "text")
    palette = PICTURES[0].quantize(4)
    for name, data, lost in (
        ("a.jpg", encoded("JPEG", exif=exif, icc_profile=b"x" * 200, dpi=(300, 300)),
         {"EXIF data of a picture", "colour profile of a picture", "metadata 'dpi' of a picture"}),
        ("b.png", encoded("PNG", palette, transparency=0, pnginfo=text),
         {"palette of a picture", "transparency of a picture", "metadata 'note' of a picture"}),
        ("c.png", encoded("PNG"), set()),
        ("d.jpg", encoded("JPEG"), set()),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(data)
        done = bp.convert(tmp_path / name, tmp_path / f"{name}.blp", strict=True)
        assert (done.left_out, done.images) == ((), 1)
        with bp.frames.open(tmp_path / f"{name}.blp") as store:
            (clip,) = store.values()
            assert clip.read_images() == [data]
        done = bp.convert(tmp_path / f"{name}.blp", tmp_path / f"{name}.npy")
        assert set(done.left_out) == lost


def chunk(name: bytes, data: bytes) -> bytes:
    check = zlib.crc32(name + data).to_bytes(4, "big")
    return len(data).to_bytes(4, "big") + name + data + check


def segment(number: int, data: bytes) -> bytes:
    return bytes((0xFF, 0xE0 + number)) + (len(data) + 2).to_bytes(2, "big") + data


PNG_CHUNKS = [(b"sBIT", 3), (b"bKGD", 6), (b"tIME", 7), (b"cICP", 4), (b"prVt", 5)]
JPEG_SEGMENTS = [(9, b"private"), (1, b"http://ns.adobe.com/xmp/extension/"), (12, b"Ducky")]


@pytest.mark.parametrize(
    ("data", "lost"),
    [
        *(
            (encoded("PNG")[:33] + chunk(name, bytes(size)) + encoded("PNG")[33:],
             f"chunk {name.decode()!r} of a picture")
            for name, size in PNG_CHUNKS
        ),
        *(
            (b"\xff\xd8" + segment(number, data) + encoded("JPEG")[2:],
             f"segment APP{number} of a picture")
            for number, data in JPEG_SEGMENTS
        ),
        (encoded("PNG") + b"more", "4 bytes behind the end of a picture"),
        (encoded("JPEG") + b"more", "4 bytes behind the end of a picture"),
    ],
)  # fmt: skip
def test_parts_that_pillow_does_not_know(data: bytes, lost: str, tmp_path: Path) -> None:
    path = tmp_path / "a" / ("b.png" if data[1:4] == b"PNG" else "b.jpg")
    path.parent.mkdir()
    path.write_bytes(data)
    bp.convert(path, tmp_path / "a.blp", strict=True)  # its bytes are kept
    for source, target in ((path, "a.npy"), (tmp_path / "a.blp", "b.npy"), (path.parent, "a.bzna")):
        assert bp.convert(source, tmp_path / target).left_out == (lost,)


NOISE = Image.fromarray(np.random.default_rng(1).integers(0, 255, (32, 40, 3), "u1"))


def damaged(kind: str) -> bytes:
    """Return a picture whose damage Pillow passes over."""
    if kind == "jpg":
        data = encoded("JPEG", NOISE)
        return data[:-300] + bytes(298) + data[-2:]
    text = chunk(b"tEXt", b"a\0b")
    data = encoded("PNG", NOISE)
    if kind == "pixels.png":  # the checksum of the pixels, and not the pixels
        at = data.index(b"IEND") - 8
        return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
    return data[:33] + text[:-1] + bytes((text[-1] ^ 1,)) + data[33:]


@pytest.mark.parametrize("kind", ["jpg", "pixels.png", "text.png"])
def test_damage_is_refused_at_every_door(kind: str, tmp_path: Path) -> None:
    name, data = f"bad.{kind}", damaged(kind)
    good = encoded("JPEG" if kind == "jpg" else "PNG", NOISE)
    folder = folder_of(tmp_path / "in", {name: data, f"ok.{kind}": good})
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(folder / name, f"bad.{kind[-3:]}")
    words = "JPEG: Corrupt" if kind == "jpg" else r"PNG: wrong checksum|cannot identify image"
    for source in (folder / name, folder, tmp_path / "a.tar"):
        for target in ("x.blp", "x.npz", "x.tar", "x.bzna", "x"):
            options = {"to": "images"} if target == "x" else {}
            with pytest.raises(BloscpackError, match=words):
                bp.convert(source, tmp_path / target, **options)
            assert not (tmp_path / target).exists()
    items = bp.frames.listing.images(folder)
    report = bp.frames.ingest(items, tmp_path / "x.blp", check=True, workers=1)
    assert [each.id for each in report.skipped] == [name[:-4]]
    if kind != "jpg":
        report = bp.frames.ingest(
            bp.frames.listing.images(folder), tmp_path / "x.blp", overwrite=True, workers=1
        )
        assert [each.id for each in report.skipped] == [name[:-4]]
        with (
            bp.frames.open(tmp_path / "x.blp", "a") as store,
            pytest.raises(BloscpackError, match="frame 1: PNG: wrong checksum"),
        ):
            store.append("a", [good, data])
    with bp.benzina.Writer(tmp_path / "x.bzna") as writer:
        with pytest.raises(BloscpackError, match=words):
            writer.add(folder / name)
        writer.add(folder / f"ok.{kind}")


def test_bytes_behind_pictures_of_a_dataset(tmp_path: Path) -> None:
    files = {
        "a.gif": encoded("GIF") + b"junk",
        "b.webp": encoded("WEBP") + b"more!",
        "c.gif": encoded("GIF")[:-1],
    }
    done = bp.convert(folder_of(tmp_path / "in", files), tmp_path / "a.bzna")
    assert done.left_out == (
        "palette of a picture",
        "4 bytes behind the end of a picture",
        "5 bytes behind the end of a picture",
        "end of the file, which is cut off of a picture",
    )


def test_deep_gray(tmp_path: Path) -> None:
    pixels = np.arange(72, dtype="<u2").reshape(8, 9) * 900
    (tmp_path / "a.png").write_bytes(encoded("PNG", Image.fromarray(pixels)))
    bp.convert(tmp_path / "a.png", tmp_path / "a.blp", strict=True)
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert_same(store["a"][0], pixels)


FILES = {
    "top.png": encoded("PNG"),
    "cat/1.jpg": encoded("JPEG"),
    "cat/deep/2.png": encoded("PNG", PICTURES[1]),
    "cat/notes.txt": b"text",
    "cat/movie.mp4": b"video",
    ".hidden/3.png": encoded("PNG"),
    ".DS_Store": b"",
    "samples.json": b"[]",
}


def test_other_files_of_a_folder_are_listed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "folder", FILES)
    left = ("cat/movie.mp4", "cat/notes.txt", ".hidden", ".DS_Store", "samples.json")
    for target in ("a.blp", "a.bzna", "a.tar"):
        done = bp.convert(folder, tmp_path / target)
        assert {f"file {name!r}" for name in left} <= set(done.left_out)
    done = bp.convert(folder, tmp_path / "b.blp")
    assert len(done.left_out) == len(left)
    with bp.frames.open(tmp_path / "b.blp") as store:
        assert {id_: clip.read_images()[0] for id_, clip in store.items()} == {
            name: data for name, data in FILES.items() if f"file {name!r}" not in done.left_out
            and not name.startswith(".hidden")
        }  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text")
def test_names_that_are_not_text_and_classes_without_pictures(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "folder", {"a.png": encoded("PNG"), "dog/.keep": b""})
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.png")).write_bytes(encoded("PNG"))
    left = {
        "file 'dog/.keep'",
        "folder 'dog', which has no pictures",
        "bytes of the name of '\\\\xff.png', which is not text",
    }
    assert set(bp.convert(folder, tmp_path / "a.blp").left_out) == left


def test_files_that_are_not_read_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "folder", {"a.png": encoded("PNG"), "b.bmp": encoded("BMP")})
    with pytest.raises(BloscpackError, match="neither a JPEG nor a PNG image"):
        bp.convert(folder, tmp_path / "a.blp")
    assert not (tmp_path / "a.blp").exists()


def test_pages_of_other_pictures_in_a_dataset(tmp_path: Path) -> None:
    pages = encoded("GIF", save_all=True, append_images=PICTURES[1:])
    folder = folder_of(tmp_path / "folder", {"a.gif": pages})
    done = bp.convert(folder, tmp_path / "a.bzna")
    assert "further frames or pages of a picture" in done.left_out


def test_a_source_that_forgets_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "folder", {"a.png": animated()})
    inspect = picturefolder.image.inspect
    monkeypatch.setattr(picturefolder.image, "inspect", lambda data: (inspect(data)[0], ""))
    assert bp.convert(folder, tmp_path / "a.blp").left_out == ()
