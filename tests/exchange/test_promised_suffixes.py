"""The suffix of a destination is a promise: what cannot be kept is refused, and leaves nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.filetypes.convert import _UNWRITTEN
from bloscpack.format.filekind import IMAGE_SUFFIXES, VIDEO_SUFFIXES

RECORDING = Path(__file__).parents[1] / "vectors" / "formats" / "recording.vrs"


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    folder = tmp_path / "sources"
    folder.mkdir()
    bp.save(folder / "array.blp", np.arange(6))
    bp.savez(folder / "archive.blp", a=np.arange(3), b=np.arange(4))
    with bp.frames.create(folder / "store.blp") as store:
        store.append("a", np.zeros((2, 8, 8), "u1"))
    return {path.stem: path for path in folder.iterdir()}


@pytest.mark.parametrize("source", ["array", "archive", "store"])
def test_formats_that_are_not_written(source: str, sources: Any, tmp_path: Path) -> None:
    for suffix in (*_UNWRITTEN, ".PNG", ".Csv"):
        with pytest.raises(ValueError, match=rf"x\{suffix}: "):
            bp.convert(sources[source], tmp_path / f"x{suffix}")
    assert list(tmp_path.iterdir()) == [sources[source].parent]


@pytest.mark.parametrize("source", ["array", "archive", "store"])
def test_types_that_do_not_take_the_source(source: str, sources: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"type 'vrs', which \.vrs names; name it \.blp"):
        bp.convert(sources[source], tmp_path / "x.vrs")
    for suffix in (".tar", ".mp4", ".gif", ".bzna"):
        with pytest.raises(ValueError, match=r"x\.|a clip of frames"):
            bp.convert(sources[source], tmp_path / f"x{suffix}", chunks=2)
    assert list(tmp_path.iterdir()) == [sources[source].parent]


def test_case_does_not_matter(sources: Any, tmp_path: Path) -> None:
    assert bp.convert(sources["array"], tmp_path / "X.NPY").kind == "npy"
    assert np.load(tmp_path / "X.NPY").tolist() == list(range(6))
    assert bp.convert(sources["store"], tmp_path / "X.Tar").kind == "webdataset"
    assert bp.convert(sources["store"], tmp_path / "X.BLP").kind == "frames"


def test_the_name_of_a_link_counts(sources: Any, tmp_path: Path) -> None:
    (tmp_path / "x.npy").symlink_to(tmp_path / "data")
    assert bp.convert(sources["array"], tmp_path / "x.npy", overwrite=True).kind == "npy"
    assert np.load(tmp_path / "data").tolist() == list(range(6))


def test_unknown_suffixes_and_types_that_are_given(sources: Any, tmp_path: Path) -> None:
    assert bp.convert(sources["array"], tmp_path / "x.data").kind == "array"
    assert bp.convert(sources["array"], tmp_path / "x.csv", to="array").kind == "array"
    assert bp.convert(sources["store"], tmp_path / "x.gulp", to="gulp", quality=90).kind == "gulp"


def test_recordings(tmp_path: Path) -> None:
    for suffix in (".jpg", ".gulp", ".mkv", ".parquet"):
        with pytest.raises(ValueError, match=rf"x\{suffix}: "):
            bp.convert(RECORDING, tmp_path / f"x{suffix}")
    with pytest.raises(ValueError, match=r"vrs\.copy makes another recording"):
        bp.convert(RECORDING, tmp_path / "x.vrs")
    assert list(tmp_path.iterdir()) == []


def test_every_suffix_that_is_read_is_known() -> None:
    assert {*VIDEO_SUFFIXES, *IMAGE_SUFFIXES} - {".mp4"} <= _UNWRITTEN.keys()
