"""The functions of gulpio2.utils."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from bloscpack.gulp import utils
from bloscpack.gulp.utils import (
    DuplicateIdException,
    FFMPEGNotFound,
    ImageNotFound,
    burst_video_into_frames,
    check_ffmpeg_exists,
    find_images_in_folder,
    get_single_video_path,
    remove_entries_with_duplicate_ids,
    resize_by_short_edge,
    resize_images,
    temp_dir_for_bursting,
)

from .conftest import write
from .imagefiles import pixels, save

Same = Callable[..., Any]

RESIZED = """
import importlib
utils = importlib.import_module(gulp.__name__ + ".utils")
[utils.resize_by_short_edge(image, size).tolist() for image in images for size in sizes]
"""
NAMES = """
import importlib
utils = importlib.import_module(gulp.__name__ + ".utils")
[{call} for _ in [0]]
"""


def test_every_public_name_is_there(oracle: Callable[..., Any]) -> None:
    theirs = oracle(
        "from gulpio2 import utils, adapters, sanity_utils\n"
        "{m.__name__.split('.')[1]: [n for n, v in vars(m).items() if getattr(v, '__module__', '') "
        "== m.__name__ and not n.startswith('_')] for m in (utils, adapters, sanity_utils)}"
    )
    for module, names in theirs.items():
        ours = __import__(f"bloscpack.gulp.{module}", fromlist=["x"])
        assert set(names) <= set(ours.__all__)
        assert all(hasattr(ours, name) for name in ours.__all__)


def test_resizing_is_gulpio2s(same: Same) -> None:
    images = [pixels(1, 24, 32), pixels(2, 40, 15), pixels(3, 20, 20), pixels(4, 24, 32)[..., 0]]
    same(
        RESIZED,
        images=[np.ascontiguousarray(image) for image in images],
        sizes=[-1, 0, 1, 7, 15, 24, 50],
    )


def test_images_are_read_and_resized(tmp_path: Path) -> None:
    paths = [save(tmp_path / f"{n}.png", seed=n) for n in range(3)]
    assert np.array_equal(list(resize_images(paths)), [pixels(n) for n in range(3)])
    small = list(resize_images(map(str, paths), img_size=12))
    assert [image.shape for image in small] == [(12, 16, 3)] * 3
    assert np.array_equal(small[1], resize_by_short_edge(PIL.Image.fromarray(pixels(1)), 12))
    assert np.array_equal(small[2], resize_by_short_edge(paths[2], 12))
    deep = save(tmp_path / "deep.png", mode="I;16")
    assert next(resize_images([deep])).dtype == np.uint16


@pytest.mark.parametrize("content", [None, b"", b"no image", b"\xff\xd8\xff"])
def test_errors_name_files_that_are_not_images(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.jpg"
    if content is not None:
        path.write_bytes(content)
    for call in (lambda: next(resize_images([path])), lambda: resize_by_short_edge(str(path), 5)):
        with pytest.raises(ImageNotFound, match=r"x\.jpg"):
            call()


def test_a_temporary_folder_is_always_removed(tmp_path: Path) -> None:
    with temp_dir_for_bursting(str(tmp_path / "new")) as folder:
        Path(folder, "x").touch()
    assert os.listdir(tmp_path / "new") == []
    with pytest.raises(KeyError), temp_dir_for_bursting(tmp_path) as folder:
        raise KeyError
    assert not os.path.exists(folder)
    with temp_dir_for_bursting() as folder:
        assert os.path.isdir(folder)


@pytest.mark.parametrize("folder", ["plain", "[", "a*b", "?"])
def test_files_are_found_in_folders_of_any_name(tmp_path: Path, folder: str) -> None:
    root = tmp_path / folder
    root.mkdir()
    for name in ("b.jpg", "a.jpg", "c.png", ".hidden.jpg", "jpg", "v.mp4"):
        (root / name).touch()
    assert find_images_in_folder(str(root)) == [f"{root}/a.jpg", f"{root}/b.jpg"]
    assert len(find_images_in_folder(root, formats=["jpg", "png"])) == 3
    assert get_single_video_path(str(root)) == f"{root}/v.mp4"
    with pytest.raises(AssertionError, match="2 files"):
        get_single_video_path(root, format_="jpg")
    assert find_images_in_folder(tmp_path / "absent") == []


def test_files_are_found_as_in_gulpio2(same: Same, tmp_path: Path) -> None:
    for name in ("b.jpg", "a.jpg", "c.png", ".hidden.jpg", "jpg"):
        (tmp_path / name).touch()
    for call in (
        "utils.find_images_in_folder(folder)",
        "utils.find_images_in_folder(folder, ['png', 'jpg'])",
        "utils.get_single_video_path(folder, 'png')",
        "utils.get_single_video_path(folder, 'jpg')",
    ):
        same(NAMES.format(call=call), folder=str(tmp_path))


def test_entries_that_are_there_are_removed(tmp_path: Path) -> None:
    write(tmp_path, 0, {"1": [pixels(1)], "x": [pixels(2)]})
    entries = [{"id": id_, "n": n} for n, id_ in enumerate([1, "x", "y", 2, "2", "y"])]
    assert remove_entries_with_duplicate_ids(tmp_path, entries) == [entries[2], entries[3]]
    with pytest.raises(DuplicateIdException):
        remove_entries_with_duplicate_ids(tmp_path, entries[:2])
    assert remove_entries_with_duplicate_ids(tmp_path / "absent", entries[:2]) == entries[:2]


def test_bursting_writes_the_frames(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="videos take PyAV")
    from tests.videofiles import moving, write_video

    video = write_video(tmp_path / "clip.mov", moving(30))
    with temp_dir_for_bursting(tmp_path / "burst") as folder:
        paths = burst_video_into_frames(video, folder)
        assert [os.path.basename(path) for path in paths[:2]] == [
            "0000000001.jpg",
            "0000000002.jpg",
        ]
        assert len(paths) == 30
        frames = np.array(list(resize_images(paths)), np.int16)
        assert np.abs(frames - moving(30)).mean() < 1
    with temp_dir_for_bursting(tmp_path / "burst") as folder:
        assert len(burst_video_into_frames(str(video), folder, frame_rate=8)) == 10
        data = video.read_bytes()
        (tmp_path / "bad.mov").write_bytes(data[:100])
    with temp_dir_for_bursting(tmp_path / "burst") as folder:
        with pytest.warns(RuntimeWarning, match=r"bad\.mov"):
            assert burst_video_into_frames(tmp_path / "bad.mov", folder) == []
        with pytest.warns(RuntimeWarning, match=r"absent\.mov"):
            assert burst_video_into_frames(tmp_path / "absent.mov", folder) == []


def test_without_pyav_ffmpeg_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    assert not check_ffmpeg_exists()
    with pytest.raises(FFMPEGNotFound, match="bloscpack"):
        burst_video_into_frames(tmp_path / "x.mp4", tmp_path)


def test_no_program_is_run() -> None:
    source = Path(utils.__file__).parent
    text = "".join(path.read_text() for path in source.glob("*.py"))
    assert not [word for word in ("subprocess", "os.system", "popen", "shell=") if word in text]
