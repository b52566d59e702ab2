"""``blpk gulp``: ingest of each kind, check, info."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("simplejpeg", reason="frames are JPEGs")
pytest.importorskip("PIL", reason="images are read by Pillow")

from bloscpack.gulp import GulpDirectory
from bloscpack.gulp.adapters import ImageFolderAdapter, ImageListAdapter
from bloscpack.gulp.ingest.ingestor import GulpIngestor

from ..cli.conftest import Blpk
from .imagefiles import image_tree, save


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Eight images in three folders."""
    return image_tree(tmp_path / "images")


@pytest.fixture
def gulp(tmp_path: Path, images: Path) -> Path:
    """A gulp directory of these images in three chunks."""
    out = tmp_path / "gulp"
    GulpIngestor(ImageFolderAdapter(images, out), out, 3, 1)()
    return out


def ids(folder: Path | str) -> list[str]:
    return list(GulpDirectory(folder).chunk_lookup)


def test_images_in_folders(blpk: Blpk, images: Path, gulp: Path) -> None:
    ended = blpk("gulp", "ingest", "image-folder", "images", "out", "--per-chunk", "3")
    assert (ended.code, ended.out, ended.err) == (0, "out: 8 items, 8 frames in 3 chunks\n", "")
    for name in os.listdir(gulp):
        ours = Path("out", name).read_text("latin-1").replace('"images/', f'"{images}/')
        assert ours == (gulp / name).read_text("latin-1")


def test_options_reach_the_adapter(blpk: Blpk, images: Path) -> None:
    ended = blpk("gulp", "ingest", "image-folder", images, "out", "--size", "10", "--extension",
                 ".png", "--workers", "2", "--keep-jpegs")  # fmt: skip
    assert ended.code == 0
    assert ids("out") == ["cat-a.png", "dog-a.png"]
    assert GulpDirectory("out")["cat-a.png"][0][0].shape == (10, 13, 3)
    assert blpk("gulp", "ingest", "image-folder", images, "kept", "--keep-jpegs").code == 0
    data = (images / "cat" / "b.jpg").read_bytes()
    assert data in Path("kept", "data_0.gulp").read_bytes()


def test_shuffling_has_a_seed(blpk: Blpk, images: Path) -> None:
    orders = []
    for number, seed in enumerate(("0", "0", "7")):
        name = f"out{number}"
        arguments = ("gulp", "ingest", "image-folder", images, name, "--shuffle", "--seed", seed)
        assert blpk(*arguments).code == 0
        orders.append(ids(name))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    assert orders[0] != sorted(orders[0])


def test_images_in_a_list(blpk: Blpk, images: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("dog/b.jpg, dog\ncat/c.jpg, cat\n")
    ended = blpk("gulp", "ingest", "image-list", "list.txt", "out", "--root-path", "images")
    assert ended.code == 0
    assert ids("out") == ["b.jpg", "c.jpg"]
    # Relative paths start from the current folder by default.
    (tmp_path / "here.txt").write_text("images/dog/b.jpg,dog\n")
    assert blpk("gulp", "ingest", "image-list", "here.txt", "here").code == 0
    adapter = ImageListAdapter("here.txt", "here")
    assert ids("here") == adapter.item_ids()


def test_clips_in_a_list(blpk: Blpk, tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path / "clips" / "one" / f"{number}.jpg", seed=number)
    (tmp_path / "list.csv").write_text("one;run\n")
    ended = blpk("gulp", "ingest", "csv-jpeg", "list.csv", "clips", "out")
    assert ended.out == "out: 1 items, 3 frames in 1 chunks\n"


def test_videos(blpk: Blpk, tmp_path: Path) -> None:
    pytest.importorskip("av", reason="videos take PyAV")
    from tests.videofiles import moving, write_video

    made = write_video(tmp_path / "made.mov", moving(30))
    for name in ("json/a/x.mp4", "csv/a.webm", "tree/run/a.mp4", "tree/run/b.webm",
                 "kinetics/run/a_000001_000002.mp4", "activity/a.mp4"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, tmp_path / name)
    (tmp_path / "list.json").write_text('[{"id": "a", "what": "run"}]')
    (tmp_path / "list.csv").write_text("a;run\n")
    (tmp_path / "meta.json").write_text('{"a": {"n": 1}}')
    (tmp_path / "database.json").write_text('{"database": {"a": {"subset": "training"}}}')
    for arguments, frames in (
        (("json-videos", "list.json", "json", "out1", "--label-name", "what"), 10),
        (("csv-webm", "list.csv", "csv", "out2", "--frame-rate", "0"), 30),
        (("csv-webm", "list.csv", "csv", "out3"), 14),
        (("video-folder", "tree", "out4"), 60),
        (("kinetics", "meta.json", "kinetics", "out5"), 30),
        (("activitynet", "database.json", "activity", "out6"), 30),
    ):
        ended = blpk("gulp", "ingest", *arguments, "--json", "--size", "16")
        assert (ended.code, ended.err) == (0, "")
        assert ended.json["frames"] == frames, arguments
    ended = blpk("gulp", "ingest", "activitynet", "database.json", "activity", "out7", "--phase",
                 "testing")  # fmt: skip
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("blpk: error: database.json: nothing to ingest; ")
    assert not Path("out7").exists()


def test_a_folder_without_images_is_a_failure(blpk: Blpk, images: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    for options in ((), ("--remove-duplicates",)):
        ended = blpk("gulp", "ingest", "image-folder", "none", "out", *options)
        assert (ended.code, ended.out) == (1, "")
        assert "none: nothing to ingest" in ended.err
    assert not Path("out").exists()
    ended = blpk("gulp", "ingest", "image-folder", "none", "out", "--allow-empty")
    assert (ended.code, ended.out) == (0, "out: 0 items, 0 frames in 0 chunks\n")
    assert blpk("gulp", "ingest", "image-folder", images, "out").code == 0
    ended = blpk("gulp", "ingest", "image-folder", images, "out", "--remove-duplicates")
    assert (ended.code, "nothing new to ingest" in ended.err) == (0, True)


def test_skipped_items_are_reported_logged_and_a_failure(blpk: Blpk, images: Path) -> None:
    (images / "dog" / "a.png").write_bytes(b"no\x1b image")
    ended = blpk("gulp", "ingest", "image-folder", images, "out", "--log", "log", "--json")
    assert ended.code == 1
    assert ended.json["items"] == 7
    (item,) = ended.json["skipped"]
    assert item["id"] == "dog-a.png"
    assert ended.err.startswith("blpk: skipped: dog-a.png: ")
    assert [json.loads(line) for line in Path("log").read_text().splitlines()] == [item]
    ended = blpk("gulp", "ingest", "image-folder", images, "more", "--allow-skipped")
    assert ended.code == 0
    assert "skipped: dog-a.png" in ended.err


def test_a_log_that_cannot_be_written_is_refused_before_the_work(blpk: Blpk, images: Path) -> None:
    ended = blpk("gulp", "ingest", "image-folder", images, "out", "--log", "missing/log")
    assert (ended.code, "missing/log" in ended.err) == (1, True)
    assert not Path("out").exists()


def test_existing_items_are_refused_or_skipped(blpk: Blpk, images: Path) -> None:
    command = ("gulp", "ingest", "image-folder", "images", "out")
    assert blpk(*command).code == 0
    before = sorted(os.listdir("out"))
    ended = blpk(*command)
    assert ended.code == 1
    assert "8 of 8 items are there already" in ended.err
    assert ended.out == ""
    save(images / "new" / "1.jpg")
    ended = blpk(*command, "--remove-duplicates")
    assert (ended.code, ended.out) == (0, "out: 1 items, 1 frames in 1 chunks\n")
    assert blpk(*command, "--remove-duplicates").code == 0
    assert sorted(os.listdir("out")) == sorted([*before, "data_1.gulp", "meta_1.gmeta"])


def test_an_interrupted_ingest_is_taken_up(
    blpk: Blpk, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("gulp", "ingest", "image-folder", images, "out", "--per-chunk", "3")
    read = ImageFolderAdapter._frames

    def fail(self: ImageFolderAdapter, meta: dict[str, Any]) -> Any:
        if meta["id"] == "dog-a.png":
            raise MemoryError
        return read(self, meta)

    with monkeypatch.context() as patch:
        patch.setattr(ImageFolderAdapter, "_frames", fail)
        ended = blpk(*command, "--workers", "1")
    assert ended.code == 1
    assert ended.err == (
        "blpk: while items 3 to 5 were ingested, after item 'cat-gray.jpg'\n"
        "blpk: error: not enough memory\n"
    )
    ended = blpk(*command)
    assert (ended.code, ended.out) == (0, "out: 8 items, 8 frames in 3 chunks\n")
    assert ended.err == "blpk: out: continued an ingest, interrupted after 1 chunks\n"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("ingest",), 2, "KIND"),
        ((), 2, "COMMAND"),
        (("ingest", "nothing"), 2, "invalid choice"),
        (("ingest", "image-folder", "images"), 2, "DIR"),
        (("ingest", "image-folder", "images", "out", "--per-chunk", "0"), 2, "at least 1"),
        (("ingest", "image-folder", "absent", "out"), 1, "absent: No such file"),
        (("ingest", "json-videos", "absent.json", "x", "out"), 1, "absent.json: No such file"),
        (("check", "absent"), 1, "'absent' does not exist"),
        (("check", "images"), 4, "not a Gulp directory"),
        (("info", "images"), 4, "not a Gulp directory"),
    ],
)
@pytest.mark.usefixtures("images")
def test_mistakes(blpk: Blpk, arguments: tuple[str, ...], code: int, text: str) -> None:
    ended = blpk("gulp", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert text in ended.err
    assert not os.path.exists("out")


def test_check(blpk: Blpk, gulp: Path) -> None:
    ended = blpk("gulp", "check", "gulp", "--decode")
    assert (ended.code, ended.out, ended.err) == (0, "gulp: ok\n", "")
    (gulp / "meta_1.gmeta").unlink()
    with (gulp / "data_0.gulp").open("ab") as file:
        file.write(b"tail")
    ended = blpk("gulp", "check", "gulp")
    assert ended.code == 3
    assert [line.split(": ")[:2] for line in ended.out.splitlines()] == [
        ["gulp", "data_1.gulp"],
        ["gulp", "data_0.gulp"],
    ]
    assert f" at {_size(gulp) - 4}" in ended.out
    assert blpk("gulp", "verify", "gulp").out == ended.out
    document = blpk("gulp", "check", "gulp", "--json").json
    assert document == blpk("verify", "gulp", "--json").json
    (found,) = document["files"]
    assert found["status"] == "damaged"
    assert [damage["file"] for damage in found["damage"]] == ["data_1.gulp", "data_0.gulp"]


def _size(gulp: Path) -> int:
    return (gulp / "data_0.gulp").stat().st_size


def test_check_decodes_only_if_asked_to(blpk: Blpk, gulp: Path) -> None:
    data = bytearray((gulp / "data_0.gulp").read_bytes())
    data[20:60] = bytes(40)
    (gulp / "data_0.gulp").write_bytes(data)
    assert blpk("gulp", "check", "gulp").code == 0
    ended = blpk("-n", "2", "gulp", "check", "--decode", "gulp")
    assert ended.code == 3
    assert "frame 0" in ended.out


def test_info(blpk: Blpk, gulp: Path) -> None:
    ended = blpk("gulp", "info", "gulp")
    assert ended.code == 0
    assert ended.out.splitlines()[:3] == ["kind: gulp directory", "items: 8", "frames: 8"]
    document = blpk("gulp", "info", "--json", "gulp").json
    assert document == blpk("info", "--json", "gulp").json
    assert document["cbytes"] == sum(p.stat().st_size for p in gulp.glob("*.g*"))
    (gulp / ".ingest").mkdir()
    ended = blpk("gulp", "info", "gulp")
    assert (ended.code, ended.err) == (
        0,
        "blpk: gulp: an ingest is at work here, or was interrupted\n",
    )
    (gulp / "meta_1.gmeta").write_bytes(b"{")
    ended = blpk("gulp", "info", "gulp")
    assert ended.code == 3
    assert "meta_1.gmeta" in ended.err
