"""Clips copied to and from tar files, which webdataset and tarfile write and read."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, BloscpackWarning, FormatError
from bloscpack.media import image

from ..strategies import fill
from .conversions import assert_interrupted_run_leaves_nothing, assert_same

PICTURES = [image.encode_png(np.full((8, 9), each, "u1")) for each in range(12)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with bp.frames.create(tmp_path / "a.blp") as made:
        made.append("walk", PICTURES, {"label": 1})
        made.append("one", PICTURES[:1])
        made.append("run/depth.v2", fill(np.dtype("<u2"), (5, 6, 7), 1), {"id": "x"})
        made.append("run/depth_v2", fill(np.dtype("<f4"), (2, 6, 7, 3), 1))
        made.append("photo.png", PICTURES[2:3], {"nested": {"a": [None]}})
        made.append("empty", np.empty((0, 6, 7), "u1"))
    return tmp_path / "a.blp"


def test_both_ways(store: Path) -> None:
    folder = store.parent
    done = bp.convert(store, folder / "a.tar")
    assert (done.kind, done.clips, done.frames, done.images) == ("webdataset", 6, 21, 14)
    with tarfile.open(folder / "a.tar") as archive:
        names = archive.getnames()
    assert names[:3] == ["walk.000000.png", "walk.000001.png", "walk.000002.png"]
    assert names[12:17] == [
        *("walk.json", "one.png", "run/depth_v2.npy", "run/depth_v2.json", "run/depth_v2_2.npy")
    ]
    again = bp.convert(folder / "a.tar", folder / "b.blp")
    assert (again.kind, again.clips, again.images) == ("frames", 6, 14)
    with bp.frames.open(store) as one, bp.frames.open(folder / "b.blp") as two:
        assert list(one) == list(two)
        for id_ in one:
            assert one[id_].meta == two[id_].meta
            assert_same(one[id_][:], two[id_][:])


@pytest.mark.filterwarnings("ignore")  # of webdataset, about files it leaves open
def test_webdataset_reads_it(store: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    bp.convert(store, store.parent / "a.tar")
    samples = list(webdataset.WebDataset(str(store.parent / "a.tar"), shardshuffle=False))
    assert [each["__key__"] for each in samples][:3] == ["walk", "one", "run/depth_v2"]
    assert samples[0]["000003.png"] == PICTURES[3]
    decoded = list(webdataset.WebDataset(str(store.parent / "a.tar"), shardshuffle=False).decode())
    with bp.frames.open(store) as clips:
        assert_same(decoded[2]["npy"], clips["run/depth.v2"][:])
    assert decoded[0]["json"] == {"label": 1}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_wrote_it(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(tmp_path / "a.tar")) as writer:
        for number in range(3):
            writer.write(
                {
                    "__key__": f"train/{number:05d}",
                    "png": PICTURES[number],
                    "cls": number,
                    "txt": "a cat",
                    "mask.npy": np.zeros((8, 9), "u1"),
                }
            )
    with pytest.warns(BloscpackWarning, match=r"left out: member 'train/00000\.mask\.npy'"):
        done = bp.convert(tmp_path / "a.tar", tmp_path / "a.blp")
    assert (done.clips, done.images) == (3, 3)
    assert done.left_out == tuple(f"member 'train/0000{k}.mask.npy'" for k in range(3))
    with bp.frames.open(tmp_path / "a.blp") as clips:
        assert list(clips)[1] == "train/00001"
        assert clips["train/00001"].meta == {"cls": 1, "txt": "a cat"}
        assert clips["train/00001"].read_images() == [PICTURES[1]]


def test_one_clip(store: Path) -> None:
    folder = store.parent
    bp.convert(store, folder / "a.tar")
    bp.convert(f"{folder}/a.tar::/walk", folder / "walk.npy", to="npy", verify=False)
    assert np.load(folder / "walk.npy").shape == (12, 8, 9)
    assert bp.convert(f"{folder}/a.tar::/walk", folder / "walk.blp").clips == 1
    (folder / "photo").write_bytes(PICTURES[3])
    assert bp.convert(folder / "photo", folder / "photo.blp").images == 1


def test_no_trace_of_a_copy_that_fails(store: Path, monkeypatch: Any) -> None:
    assert_interrupted_run_leaves_nothing(store, "b.tar", monkeypatch)
    monkeypatch.setattr(json, "dumps", lambda value, **options: "{}")
    with pytest.raises(FormatError, match="the copy differs from its source"):
        bp.convert(store, store.parent / "b.tar")
    assert list(store.parent.iterdir()) == [store]


def test_attrs_are_reported_as_lost(tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "a.blp", attrs={"unit": 1}) as made:
        made.append("walk", PICTURES)
    with pytest.warns(BloscpackWarning, match="left out: attribute 'unit' of the file"):
        bp.convert(tmp_path / "a.blp", tmp_path / "a.tar")
    times = np.arange(24).astype("M8[s]").reshape(2, 3, 4)
    with bp.frames.create(tmp_path / "b.blp") as made:
        made.append("walk", times)
    bp.convert(tmp_path / "b.blp", tmp_path / "b.tar", strict=True)
    bp.convert(tmp_path / "b.tar", tmp_path / "c.blp", strict=True)
    with bp.frames.open(tmp_path / "c.blp") as clips:
        assert_same(clips["walk"][:], times)


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def test_ids_that_are_not_safe_to_extract(tmp_path: Path) -> None:
    ids = ["../a", "b/../../c", "./d", "/e", "f\0g", "..", "h/i"]
    with bp.frames.create(tmp_path / "a.blp") as made:
        for each in ids:
            made.append(each, np.zeros((2, 3, 4), "u1"))
    bp.convert(tmp_path / "a.blp", tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as archive:
        names = [name for name in archive.getnames() if name.endswith(".npy")]
    assert names == [
        *("_/a.npy", "b/_/_/c.npy", "_/d.npy", "e.npy", "f_g.npy", "__.npy", "h/i.npy")
    ]
    bp.convert(tmp_path / "a.tar", tmp_path / "b.blp", to="frames")
    with bp.frames.open(tmp_path / "b.blp") as store:
        assert list(store) == ids


def test_hostile(store: Path) -> None:
    folder = store.parent
    bp.convert(store, folder / "a.tar")
    content = (folder / "a.tar").read_bytes()
    for nbytes in (600, 5000, len(content) // 2, 9000):
        (folder / "b.tar").write_bytes(content[:nbytes])
        with pytest.raises(BloscpackError):
            bp.convert(folder / "b.tar", folder / "b.blp")
    for name, value in (("a.npy", b"junk"), ("a.jpg", b"junk"), ("a.npy", b"")):
        with tarfile.open(folder / "c.tar", "w") as archive:
            add(archive, name, value)
        with pytest.raises(BloscpackError):
            bp.convert(folder / "c.tar", folder / "c.blp")
    with tarfile.open(folder / "c.tar", "w") as archive:
        add(archive, "../../a.png", PICTURES[0])
        add(archive, "b.json", b'{"bloscpack_id": "../../a"}')
    with pytest.raises(BloscpackError, match="two samples have the same id"):
        bp.convert(folder / "c.tar", folder / "c.blp")
