"""Adapters for videos: they list the same as GulpIO2, and read with our decoder."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("av", reason="videos take PyAV")

from bloscpack.exceptions import FormatError
from bloscpack.gulp.adapters import (
    ActivitynetAdapter,
    Custom20BNCsvWebmAdapter,
    Custom20BNJsonVideoAdapter,
    KineticsAdapter,
    VideoFolderAdapter,
)
from bloscpack.gulp.gulperrors import DuplicateIdException
from bloscpack.gulp.utils import resize_by_short_edge
from tests.videofiles import moving, set_matrix, write_video

from .conftest import write

Same = Callable[..., Any]

LISTED = """
import importlib
adapters = importlib.import_module(gulp.__name__ + ".adapters")
adapter = getattr(adapters, name)(*args, **options)
labels = "labels2idx" if name.startswith("Custom") else "label2idx"
len(adapter), adapter.all_meta, getattr(adapter, labels)
"""


def video(path: Path, count: int = 4, **options: Any) -> Path:
    """Write a lossless video; the suffix does not select the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = write_video(path.with_name("made.mov"), moving(count), **options)
    made.rename(path)
    return path


def listing(path: Path, *ids: object) -> Path:
    path.write_text(json.dumps([{"id": id_, "template": f"do {id_}"} for id_ in ids]))
    return path


def test_json_lists_are_as_in_gulpio2(same: Same, tmp_path: Path) -> None:
    path = str(listing(tmp_path / "list.json", 5, "b", "a"))
    packed = tmp_path / "list.json.gz"
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    (tmp_path / "label2idx.json").write_text('{"do b": 0, "more": 1}')
    for name in (path, str(packed)):
        same(
            LISTED,
            name="Custom20BNJsonVideoAdapter",
            args=(name, "videos", str(tmp_path)),
            options={"frame_size": "20"},
        )
    same(
        LISTED,
        name="Custom20BNJsonVideoAdapter",
        args=(str(tmp_path / "list.txt"), "videos", str(tmp_path)),
        options={},
    )


def test_csv_lists_are_as_in_gulpio2(same: Same, tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("b;walk\na;run\nc\n")
    same(
        LISTED,
        name="Custom20BNCsvWebmAdapter",
        args=(str(path), "videos", str(tmp_path)),
        options={},
    )


def test_folders_are_as_in_gulpio2(same: Same, tmp_path: Path) -> None:
    for name in ("run/b.webm", "run/a.webm", "walk/c.webm"):
        (tmp_path / "videos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "videos" / name).touch()
    same(
        LISTED,
        name="VideoFolderAdapter",
        args=(f"{tmp_path}/videos/", str(tmp_path)),
        options={"file_extensions": [".webm"]},
    )


def test_all_extensions_are_looked_at(tmp_path: Path) -> None:
    for name in ("run/b.webm", "run/a.mp4", "walk/c.mp4", "walk/d.avi"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert VideoFolderAdapter(tmp_path, tmp_path).item_ids() == [
        "run-a.mp4",
        "run-b.webm",
        "walk-c.mp4",
    ]


def test_frames_are_upright_resized_and_at_the_rate(tmp_path: Path) -> None:
    path = video(tmp_path / "videos" / "v[0]" / "x.mp4", 30)
    set_matrix(path, "clockwise")
    adapter = Custom20BNJsonVideoAdapter(
        listing(tmp_path / "list.json", "v[0]"), tmp_path / "videos", tmp_path, frame_size=24
    )
    (item,) = adapter.iter_data()
    assert item["id"] == "v[0]"
    assert item["meta"] == {"id": "v[0]", "label": "do v[0]", "idx": 0}
    assert len(item["frames"]) == 10
    upright = [np.rot90(frame, -1) for frame in moving(30)[[0, 1, 3, 7]]]
    assert np.array_equal(item["frames"][:4], [resize_by_short_edge(f, 24) for f in upright])
    assert item["frames"][0].shape == (32, 24, 3)
    every = Custom20BNJsonVideoAdapter(
        tmp_path / "list.json", tmp_path / "videos", tmp_path, frame_rate=0
    )
    assert len(next(iter(every.iter_data()))["frames"]) == 30


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    entries = [{"id": number, "template": str(number * 77_777)} for number in range(3000)]
    data = bytearray(gzip.compress(json.dumps(entries).encode(), mtime=0))
    data[2000:2100] = bytes(byte ^ 0x55 for byte in data[2000:2100])
    (tmp_path / "list.json.gz").write_bytes(data)
    with pytest.raises(FormatError, match=r"list\.json\.gz: not gzip"):
        Custom20BNJsonVideoAdapter(tmp_path / "list.json.gz", tmp_path, tmp_path)


def test_unreadable_videos_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    video(folder / "good" / "x.mp4")
    video(folder / "two" / "x.mp4")
    video(folder / "two" / "y.mp4")
    (folder / "none").mkdir()
    (folder / "bad").mkdir()
    (folder / "bad" / "x.mp4").write_bytes(b"no video")
    damaged = video(folder / "damaged" / "x.mp4", 6)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 3 : len(data) // 3 + 50] = bytes(50)
    damaged.write_bytes(data)
    video(tmp_path / "outside" / "x.mp4")
    ids = ["good", "two", "none", "bad", "damaged", "../outside", "absent"]
    args = (listing(tmp_path / "list.json", *ids), folder, tmp_path)
    items = {item["id"]: item for item in Custom20BNJsonVideoAdapter(*args).iter_data()}
    assert len(items) == 7
    assert "error" not in items["good"]
    for id_, text in {
        "two": "2 files",
        "none": "0 files",
        "bad": "not a video",
        "damaged": "1 damaged",
        "../outside": "out of the folder",
        "absent": "0 files",
    }.items():
        assert items[id_]["frames"] == []
        assert text in items[id_]["error"]
    adapter = Custom20BNJsonVideoAdapter(*args, frame_rate=0, keep_damaged=True)
    kept = {item["id"]: item for item in adapter.iter_data()}
    assert len(kept["damaged"]["frames"]) == 5


def test_videos_in_a_csv_list(tmp_path: Path) -> None:
    video(tmp_path / "videos" / "a*.webm", 3)
    video(tmp_path / "videos" / "ab.webm", 5)
    (tmp_path / "list.csv").write_text("a*;x\nmissing;x\n../list;x\n")
    first, second, third = Custom20BNCsvWebmAdapter(
        tmp_path / "list.csv", tmp_path / "videos", tmp_path, frame_rate=30
    ).iter_data()
    assert len(first["frames"]) == 3
    assert "no such file" in second["error"]
    assert "out of the folder" in third["error"]
    assert json.loads((tmp_path / "label2idx.json").read_text()) == {"x": 0}


def test_entries_that_are_there_already_are_left_out_if_asked_for(tmp_path: Path) -> None:
    write(tmp_path, 0, {"b": [np.zeros((4, 4, 3), "u1")]})
    path = listing(tmp_path / "list.json", "a", "b", "c", "a")
    with pytest.raises(DuplicateIdException, match="'a'"):
        Custom20BNJsonVideoAdapter(path, tmp_path, tmp_path)
    adapter = Custom20BNJsonVideoAdapter(path, tmp_path, tmp_path, remove_duplicate_ids=True)
    assert adapter.item_ids() == ["a", "c"]
    assert adapter.leave_out({"c"}) == 1
    assert adapter.item_ids() == ["a"]
    with pytest.raises(DuplicateIdException):
        Custom20BNJsonVideoAdapter(
            listing(path, "b"), tmp_path, tmp_path, remove_duplicate_ids=True
        )


@pytest.mark.parametrize("content", ["{", "{}", '[{"id": 1}]', '[["id"]]', ""])
def test_a_wrong_list_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "list.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=r"list\.json"):
        Custom20BNJsonVideoAdapter(path, tmp_path, tmp_path)


def test_kinetics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "b/id_00x_000010_000020.mp4",
        "a/other_000001_000011.mp4",
        "a/bare.mp4",
        "a/unknown_000001_000011.mp4",
    ):
        video(tmp_path / "videos" / name, 2)
    entries = {"id_00x": {"label": "b"}, "other": {"label": "a"}, "bare": {"n": 1}}
    (tmp_path / "list.json").write_text(json.dumps(entries))
    # A relative folder.
    monkeypatch.chdir(tmp_path)
    adapter = KineticsAdapter("list.json", "videos")
    items = list(adapter.iter_data())
    assert [(item["id"], item["meta"], len(item["frames"])) for item in items] == [
        ("bare", {"n": 1}, 2),
        ("other", {"label": "a"}, 2),
        ("unknown", {}, 0),
        ("id_00x", {"label": "b"}, 2),
    ]
    assert "unknown" in items[2]["error"]
    video(tmp_path / "videos" / "c" / "other_000021_000031.mp4", 2)
    with pytest.raises(DuplicateIdException, match=r"a/other_000001.*c/other_000021"):
        KineticsAdapter("list.json", "videos")


def test_activitynet(tmp_path: Path) -> None:
    for name in ("v_b.mp4", "v_a.mkv", "v_c.mp4", "v_d.mp4.part", "x.mp4"):
        video(tmp_path / "videos" / name, 2)
    database = {
        "v_a": {"subset": "training", "n": 1},
        "v_b": {"subset": "training", "n": 2},
        "v_c": {"subset": "validation"},
        "v_d": {"subset": "training"},
    }
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"database": database}))
    items = list(ActivitynetAdapter(path, tmp_path / "videos").iter_data())
    assert [(item["id"], item["meta"]["n"], len(item["frames"])) for item in items] == [
        ("v_a", 1, 2),
        ("v_b", 2, 2),
    ]
    assert ActivitynetAdapter(path, tmp_path / "videos", phase="validation").item_ids() == ["v_c"]
    assert ActivitynetAdapter(path, tmp_path / "videos").vid_storage == ["v_a.mkv", "v_b.mp4"]
    path.write_text("{}")
    with pytest.raises(FormatError, match="database"):
        ActivitynetAdapter(path, tmp_path / "videos")


def test_the_command_of_gulpio2_listed_the_same(tmp_path: Path) -> None:
    # Labels and ids of the shared case cli_json_videos, whose videos are not stored.
    path = tmp_path / "list.json"
    path.write_text(
        json.dumps([{"id": f"v{n}", "template": f"Doing [something] {n}"} for n in range(2)])
    )
    adapter = Custom20BNJsonVideoAdapter(path, tmp_path, tmp_path)
    assert adapter.all_meta == [
        {"id": "v0", "label": "Doing [something] 0", "idx": 0},
        {"id": "v1", "label": "Doing [something] 1", "idx": 1},
    ]
