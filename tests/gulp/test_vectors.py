"""All shared GulpIO2 cases: ids, order, metadata, frame locations, JPEG bytes, pixels."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.gulp import GulpChunk, GulpDirectory
from bloscpack.gulp.clipsource import GulpSource
from bloscpack.media import image
from tests.conftest import REPOSITORY

from .conftest import FILES


def digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def test_as_gulpio2_reads_it(case: dict[str, Any]) -> None:
    oracle = case["oracle"]
    directory = GulpDirectory(case["folder"])
    assert directory.num_chunks == oracle["num_chunks"]
    assert list(directory.chunk_objs_lookup) == oracle["chunk_order"]
    assert list(directory.merged_meta_dict) == [item["id"] for item in oracle["items"]]
    new = next(directory.new_chunks(1))
    assert Path(new.data_file_path).name == f"data_{oracle['next_chunk_id']}.gulp"
    for item in oracle["items"]:
        id_ = item["id"]
        assert directory.chunk_lookup[id_] == item["chunk"]
        entry = directory.merged_meta_dict[id_]
        assert [list(info) for info in entry["frame_info"]] == [
            frame["info"] for frame in item["frames"]
        ]
        assert len(entry["meta_data"]) == item["meta_data_entries"]
        frames, meta = directory[id_]
        assert json.dumps(meta) == item["meta_json"]
        assert [list(frame.shape) for frame in frames] == [
            frame["shape"] for frame in item["frames"]
        ]
        assert [digest(frame.tobytes()) for frame in frames] == [
            frame["pixels_sha256"] for frame in item["frames"]
        ]


def test_as_clips(case: dict[str, Any]) -> None:
    oracle = case["oracle"]
    with GulpSource(case["folder"]) as source:
        assert list(source) == [item["id"] for item in oracle["items"]]
        for item in oracle["items"]:
            clip = source[item["id"]]
            assert json.dumps(clip.meta) == item["meta_json"]
            assert len(clip) == item["num_frames"]
            images = clip.read_images()
            assert [digest(data) for data in images] == [
                frame["jpeg_sha256"] for frame in item["frames"]
            ]
            for number, frame in enumerate(item["frames"]):
                assert digest(clip[number].tobytes()) == frame["pixels_sha256"]
                exact = image.decode(images[number], fast=False)
                assert digest(exact.tobytes()) == frame["pixels_exact_sha256"]
            shapes = {tuple(frame["shape"]) for frame in item["frames"]}
            if len(shapes) == 1:
                assert clip.shape == (len(clip), *shapes.pop())
                assert clip[:].tobytes() == b"".join(clip[k].tobytes() for k in range(len(clip)))
            elif shapes:
                with pytest.raises(ValueError, match="differ"):
                    clip[:]
            else:
                assert clip.shape == (0,)


def test_iteration_order(case: dict[str, Any]) -> None:
    directory = GulpDirectory(case["folder"])
    metas = [meta for chunk in directory for _, meta in chunk]
    items = case["oracle"]["items"]
    assert [json.dumps(meta) for meta in metas] == [item["meta_json"] for item in items]


def test_the_example_of_the_format_page() -> None:
    recipe = FILES / "write_recipe"
    page = (REPOSITORY / "docs" / "formats" / "gulp.md").read_text("utf-8")
    data = (recipe / "data_0.gulp").read_bytes()
    assert f"{len(data)} bytes" in page
    [text] = re.findall(r"```json\n(.*)\n```", page)
    assert text == (recipe / "meta_0.gmeta").read_text()
    [dump] = re.findall(r"```hex\n(.*?)```", page, re.DOTALL)
    lines = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} )+) ", dump, re.MULTILINE)
    assert len(lines) == len(dump.splitlines())
    for offset, shown in lines:
        at, expected = int(offset, 16), bytes.fromhex(shown)
        assert data[at : at + len(expected)] == expected


def test_the_recipe_comes_out_byte_for_byte(tmp_path: Path) -> None:
    recipe = FILES / "write_recipe"
    sources = np.load(recipe / "sources.npz")
    chunk = GulpChunk(tmp_path / "data_0.gulp", tmp_path / "meta_0.gmeta")
    with chunk.open("wb"):
        chunk.append("rgb", {"label": "a", "idx": 0}, sources["rgb"])
        chunk.append(5, {"u": "\u00e9"}, sources["grey"])
    for name in ("data_0.gulp", "meta_0.gmeta"):
        assert (tmp_path / name).read_bytes() == (recipe / name).read_bytes()
