"""Adapters for images: the items of GulpIO2, without its bugs."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from bloscpack.exceptions import FormatError
from bloscpack.gulp.adapters import Custom20BNCsvJpegAdapter, ImageFolderAdapter, ImageListAdapter
from bloscpack.gulp.gulperrors import DuplicateIdException

from .imagefiles import image_tree, pixels, save

Same = Callable[..., Any]

ITEMS = """
import importlib, os, pathlib
adapters = importlib.import_module(gulp.__name__ + ".adapters")
os.makedirs(out, exist_ok=True)
adapter = getattr(adapters, name)(*args, **options)
items = [
    (item["id"], item["meta"], [(f.shape, str(f.dtype), f.tobytes()) for f in item["frames"]])
    for item in adapter.iter_data(*slices)
]
len(adapter), adapter.all_meta, items, pathlib.Path(out, "label2idx.json").read_text()
"""


def clips(root: Path) -> Path:
    for clip in ("one", "two"):
        for number in range(3):
            save(root / clip / f"{number:03d}.jpg", seed=ord(clip[0]) + number)
    return root


@pytest.mark.parametrize("size", [-1, 0, 16, 48])
@pytest.mark.parametrize("slices", [(), (slice(1, 4),)])
def test_folders_of_images_are_as_in_gulpio2(
    same: Same, tmp_path: Path, size: int, slices: tuple[slice, ...]
) -> None:
    folder = str(image_tree(tmp_path / "images")) + "/"
    out = str(tmp_path / "out")
    result = same(
        ITEMS,
        name="ImageFolderAdapter",
        args=(folder, out),
        options={"img_size": size},
        slices=slices,
        out=out,
    )
    assert result[0] == 8
    assert result[3] == '{"cat": 0, "deep": 1, "dog": 2}'


def test_a_list_of_images_is_as_in_gulpio2(same: Same, tmp_path: Path) -> None:
    root = image_tree(tmp_path / "images")
    listing = tmp_path / "list.txt"
    listing.write_text("dog/b.jpg,dog\ncat/gray.jpg,cat\ncat/deep/x.jpg,cat\n")
    out = str(tmp_path / "out")
    # `all_meta` is not compared afterwards, because GulpIO2 removes the paths from it.
    source = ITEMS.replace("adapter.all_meta, ", "")
    result = same(
        source,
        name="ImageListAdapter",
        args=(str(listing), out),
        options={"root_folder": str(root), "img_size": 20},
        slices=(),
        out=out,
    )
    # The id is the base name of label, dash and path, so a path with folders keeps its last part.
    assert [item[0] for item in result[1]] == ["b.jpg", "gray.jpg", "x.jpg"]


def test_clips_of_jpeg_files_are_as_in_gulpio2(same: Same, tmp_path: Path) -> None:
    listing = tmp_path / "list.csv"
    listing.write_text("two;walk\none;run\n")
    out = str(tmp_path / "out")
    same(
        ITEMS,
        name="Custom20BNCsvJpegAdapter",
        args=(str(listing), str(clips(tmp_path / "clips")), out),
        options={"frame_size": 12},
        slices=(),
        out=out,
    )


def test_a_slash_at_the_end_makes_no_difference(tmp_path: Path) -> None:
    root = image_tree(tmp_path / "images")
    save(tmp_path / "images2" / "dog" / "b.jpg")  # a sibling folder with the same name prefix
    plain = ImageFolderAdapter(str(root), tmp_path)
    slash = ImageFolderAdapter(f"{root}/", tmp_path)
    assert plain.all_meta == slash.all_meta
    assert len(plain) == 8
    assert ImageFolderAdapter(root, tmp_path).all_meta == plain.all_meta


@pytest.mark.parametrize("name", ["im[a]ges", "*", "a?b", "[", "ä b"])
def test_names_are_taken_literally(tmp_path: Path, name: str) -> None:
    root = image_tree(tmp_path / name)
    assert len(ImageFolderAdapter(root, tmp_path)) == 8
    os.rename(root / "dog", root / name)
    assert {meta["label"] for meta in ImageFolderAdapter(root, tmp_path).all_meta} == {
        name,
        "cat",
        "deep",
    }
    clips(tmp_path / "clips")
    os.rename(tmp_path / "clips" / "one", tmp_path / "clips" / name)
    (tmp_path / "list.csv").write_text(f"{name};run\n")
    (item,) = Custom20BNCsvJpegAdapter(
        tmp_path / "list.csv", tmp_path / "clips", tmp_path
    ).iter_data()
    assert len(item["frames"]) == 3


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    root = image_tree(tmp_path / "images")
    (root / "dog" / "loop").symlink_to(root)
    save(tmp_path / "other" / "y.jpg")
    (root / "linked").symlink_to(tmp_path / "other")
    ids = ImageFolderAdapter(root, tmp_path).item_ids()
    assert "linked-y.jpg" in ids
    assert len(ids) == 9


@pytest.mark.parametrize(
    ("mode", "shape"),
    [("P", (24, 32, 3)), ("RGBA", (24, 32, 3)), ("LA", (24, 32)), ("1", (24, 32))],
)
def test_colour_models_become_rgb_or_gray(
    tmp_path: Path, mode: str, shape: tuple[int, ...]
) -> None:
    path = save(tmp_path / "images" / "x.png", seed=3, mode=mode)
    (item,) = ImageFolderAdapter(tmp_path / "images", tmp_path / "out").iter_data()
    (frame,) = item["frames"]
    assert (frame.shape, frame.dtype) == (shape, np.uint8)
    expected = PIL.Image.open(path).convert("RGB" if len(shape) == 3 else "L")
    assert np.array_equal(frame, np.asarray(expected))


def test_unreadable_images_are_reported(tmp_path: Path) -> None:
    root = tmp_path / "images"
    good = save(root / "x" / "good.jpg", seed=1)
    (root / "x" / "bad.jpg").write_bytes(b"no image")
    (root / "x" / "cut.jpg").write_bytes(good.read_bytes()[:300])
    items = {item["id"]: item for item in ImageFolderAdapter(root, tmp_path / "out").iter_data()}
    assert len(items["x-good.jpg"]["frames"]) == 1
    assert "error" not in items["x-good.jpg"]
    for name in ("bad.jpg", "cut.jpg"):
        assert items[f"x-{name}"]["frames"] == []
        assert str(root / "x" / name) in items[f"x-{name}"]["error"]


def test_a_list_adapter_can_be_used_twice(tmp_path: Path) -> None:
    root = image_tree(tmp_path / "images")
    listing = tmp_path / "list.txt"
    listing.write_text("\ndog/b.jpg,  dog  \n  cat/c.jpg ,cat\n\n")
    adapter = ImageListAdapter(listing, tmp_path / "out", root_folder=root)
    assert [meta["label"] for meta in adapter.all_meta] == ["dog", "cat"]
    first = list(adapter.iter_data(slice(0, 1)))
    second = list(adapter.iter_data(slice(1, 2)))
    assert [item["id"] for item in first + second] == ["b.jpg", "c.jpg"]
    assert len(adapter) == 2
    assert [item["meta"] for item in adapter.iter_data()] == [
        {"id": "b.jpg", "label": "dog", "idx": 1},
        {"id": "c.jpg", "label": "cat", "idx": 0},
    ]


@pytest.mark.parametrize("path", ["../secret.jpg", "a/../../secret.jpg", "/etc/secret.jpg"])
def test_names_do_not_lead_out_of_the_folder(tmp_path: Path, path: str) -> None:
    save(tmp_path / "secret.jpg")
    listing = tmp_path / "list.txt"
    listing.write_text(f"{path},x\n")
    (item,) = ImageListAdapter(listing, tmp_path, root_folder=tmp_path / "images").iter_data()
    assert item["frames"] == []
    assert "out of the folder" in item["error"]
    save(tmp_path / "0.jpg")
    (tmp_path / "list.csv").write_text(f"{path.rpartition('/')[0]};x\n")
    (item,) = Custom20BNCsvJpegAdapter(
        tmp_path / "list.csv", tmp_path / "clips" / "inner", tmp_path
    ).iter_data()
    assert item["frames"] == []
    assert item["error"]


def test_ids_that_collide_are_refused(tmp_path: Path) -> None:
    for above in ("a", "b"):
        save(tmp_path / "images" / above / "same" / "1.jpg")
    with pytest.raises(DuplicateIdException, match=r"same-1\.jpg.*a/same/1\.jpg.*b/same/1\.jpg"):
        ImageFolderAdapter(tmp_path / "images", tmp_path)
    listing = tmp_path / "list.txt"
    listing.write_text("a/same/1.jpg,x\nb/same/1.jpg,x\n")
    with pytest.raises(DuplicateIdException, match=r"'1\.jpg'"):
        ImageListAdapter(listing, tmp_path)
    (tmp_path / "list.csv").write_text("one;x\none;y\n")
    with pytest.raises(DuplicateIdException, match="'one'"):
        Custom20BNCsvJpegAdapter(tmp_path / "list.csv", tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("adapter", "text", "match"),
    [
        (ImageListAdapter, b"a.jpg,x\nb.jpg,stra\xdfe\n", r"list\.txt: not UTF-8 text"),
        (Custom20BNCsvJpegAdapter, b"a;stra\xdfe\n", r"list\.txt: not UTF-8 text"),
        (Custom20BNCsvJpegAdapter, b"a;" + b"x" * 200_000, r"list\.txt: not CSV: field larger"),
    ],
)
def test_lists_that_cannot_be_read_are_named(
    tmp_path: Path, adapter: Any, text: bytes, match: str
) -> None:
    (tmp_path / "list.txt").write_bytes(text)
    with pytest.raises(FormatError, match=match):
        adapter(tmp_path / "list.txt", tmp_path, tmp_path)


def test_lines_without_a_label_are_named(tmp_path: Path) -> None:
    listing = tmp_path / "list.txt"
    listing.write_text("a.jpg,x\nb.jpg\n")
    with pytest.raises(FormatError, match=r"list\.txt, line 2"):
        ImageListAdapter(listing, tmp_path)
    listing.write_text("a;x\nb\n")
    with pytest.raises(FormatError, match=r"list\.txt, line 2"):
        Custom20BNCsvJpegAdapter(listing, tmp_path, tmp_path)


def test_numbers_of_labels_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    save(tmp_path / "first" / "m" / "1.jpg")
    list(ImageFolderAdapter(tmp_path / "first", out).iter_data())
    assert json.loads((out / "label2idx.json").read_text()) == {"m": 0}
    save(tmp_path / "second" / "a" / "2.jpg")
    save(tmp_path / "second" / "m" / "2.jpg")
    adapter = ImageFolderAdapter(tmp_path / "second", out)
    assert [(meta["label"], meta["idx"]) for meta in adapter.all_meta] == [("a", 1), ("m", 0)]
    before = (out / "label2idx.json").stat().st_ino
    list(adapter.iter_data())
    assert json.loads((out / "label2idx.json").read_text()) == {"m": 0, "a": 1}
    after = (out / "label2idx.json").stat().st_ino
    assert after != before
    list(adapter.iter_data(slice(0, 1)))
    assert (out / "label2idx.json").stat().st_ino == after
    assert os.listdir(out) == ["label2idx.json"]


@pytest.mark.parametrize("content", ["[]", '{"a": "b"}', '{"a": 0.5}', "{", ""])
def test_a_damaged_file_of_labels_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "label2idx.json").write_text(content)
    save(tmp_path / "images" / "m" / "1.jpg")
    with pytest.raises(FormatError, match=r"label2idx\.json"):
        ImageFolderAdapter(tmp_path / "images", tmp_path)


def test_jpegs_can_be_kept_as_they_are(tmp_path: Path) -> None:
    root = image_tree(tmp_path / "images")
    items = list(ImageFolderAdapter(root, tmp_path / "out", keep_jpegs=True).iter_data())
    for item in items:
        (frame,) = item["frames"]
        name = item["id"].split("-", 1)[1]
        if name.endswith(".jpg"):
            assert frame == Path(item["meta"]["path"], name).read_bytes()
        else:
            assert frame.shape == (24, 32, 3)
    resized = list(
        ImageFolderAdapter(root, tmp_path / "out", img_size=8, keep_jpegs=True).iter_data()
    )
    assert all(min(item["frames"][0].shape[:2]) == 8 for item in resized)


def test_shuffling_is_that_of_random(same: Same, tmp_path: Path) -> None:
    folder = str(image_tree(tmp_path / "images")) + "/"
    out = str(tmp_path / "out")
    shuffled = same(
        "import random; random.seed(7)\n" + ITEMS,
        name="ImageFolderAdapter",
        args=(folder, out),
        options={"shuffle": True},
        slices=(slice(0, 2),),
        out=out,
    )
    plain = ImageFolderAdapter(folder, out)
    assert shuffled[1] != plain.all_meta
    assert sorted(map(str, shuffled[1])) == sorted(map(str, plain.all_meta))


def test_adapters_travel(tmp_path: Path) -> None:
    adapter = ImageFolderAdapter(image_tree(tmp_path / "images"), tmp_path / "out")
    copy = pickle.loads(pickle.dumps(adapter))
    assert copy.item_ids() == adapter.item_ids()
    assert np.array_equal(
        next(iter(copy.iter_data()))["frames"][0], next(iter(adapter.iter_data()))["frames"][0]
    )
    assert pixels(1).shape == (24, 32, 3)
