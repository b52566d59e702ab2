"""Every function that takes arrays refuses what `bloscpack.save` refuses, with the same advice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import benzina, gulp
from bloscpack.gulp.utils import img_to_jpeg_bytes

SHAPE = (2, 4, 6, 3)


def masked() -> Any:
    return np.ma.masked_equal(np.arange(144, dtype="u1").reshape(SHAPE), 3)


class Scaled(np.ndarray[Any, Any]):
    """Array whose items are stored numbers times a factor."""

    def __array_finalize__(self, source: Any) -> None:
        self.scale = getattr(source, "scale", None)


def scaled() -> Any:
    array = np.zeros(SHAPE, "u1").view(Scaled)
    array.scale = 0.5
    return array


class Series:
    """Stand-in for a column of pandas."""

    __module__ = "pandas.core"
    dtype, shape, nbytes = np.dtype("u1"), SHAPE, 144

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.zeros(SHAPE, "u1")

    def __getitem__(self, index: int) -> Any:
        raise IndexError


VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "masked": (masked, r"x\.filled\(fill_value\)"),
    "scaled": (scaled, "its 'scale' is not stored"),
    "column": (Series, r"use x\.to_numpy\(\)"),
}


def write_rows(path: Path, value: Any) -> None:
    with bp.Writer(path, dtype="u1", shape=(None, *SHAPE[1:])) as writer:
        writer.append(value)


def append_rows(path: Path, value: Any) -> None:
    bp.save(path, np.zeros(SHAPE, "u1"))
    try:
        with bp.open(path, "a") as array:
            array.append(value)
        assert not np.array_equal(bp.load(path), np.zeros(SHAPE, "u1"))
    finally:
        path.unlink()


def write_part(path: Path, value: Any) -> None:
    with bp.parts(path, shape=SHAPE, dtype="u1") as job:
        job.commit([job.write(0, value)])


def append_frames(path: Path, value: Any, **options: Any) -> None:
    try:
        with bp.frames.create(path, **options) as store:
            store.append("a", value)
    finally:
        path.unlink()


def append_jpegs(path: Path, value: Any) -> None:
    append_frames(path, value, codec="jpeg")


def append_list(path: Path, value: Any) -> None:
    append_frames(path, [np.zeros(SHAPE, "u1"), value])


def append_generator(path: Path, value: Any) -> None:
    append_frames(path, (each for each in [value, value]))


def ingest(path: Path, value: Any) -> None:
    try:
        bp.frames.ingest({"a": value}, path, on_error="raise")
    finally:
        path.unlink(missing_ok=True)


def ingest_list(path: Path, value: Any) -> None:
    ingest(path, [value])


def add_picture(path: Path, value: Any) -> None:
    with benzina.Writer(path) as writer:
        writer.add(_picture(value))


def gulp_frames(path: Path, value: Any) -> None:
    path.mkdir()
    chunk = gulp.GulpChunk(path / "data_0.gulp", path / "meta_0.gmeta")
    try:
        with chunk.open("wb"):
            chunk.append("a", {}, [_picture(value)])
    finally:
        for each in path.iterdir():
            each.unlink()
        path.rmdir()


def _picture(value: Any) -> Any:
    return value[0] if isinstance(value, np.ndarray) else value


DOORS: dict[str, Callable[[Path, Any], object]] = {
    "save": bp.save,
    "save a list": lambda path, value: bp.save(path, [value, value]),
    "savez": bp.savez,
    "savez by name": lambda path, value: bp.savez(path, a=value),
    "savez of a mapping": lambda path, value: bp.savez(path, {"a": value}),
    "savez of pairs": lambda path, value: bp.savez(path, iter([("a", value)])),
    "savez of a list": lambda path, value: bp.savez(path, a=[value]),
    "Writer": write_rows,
    "Writer with a list": lambda path, value: write_rows(path, list(map(_picture, [value]))),
    "append": append_rows,
    "parts": write_part,
    "pack_ndarray_to_file": lambda path, value: bp.pack_ndarray_to_file(value, path),
    "pack_ndarray_to_bytes": lambda path, value: bp.pack_ndarray_to_bytes(value),
    "frames": append_frames,
    "frames as JPEG": append_jpegs,
    "list of frames": append_list,
    "generator of frames": append_generator,
    "ingest": ingest,
    "ingest of a list": ingest_list,
    "benzina": add_picture,
    "gulp": gulp_frames,
    "gulp's encoder": lambda path, value: img_to_jpeg_bytes(_picture(value)),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("door", DOORS)
def test_parts_that_are_not_stored_are_refused(door: str, value: str, tmp_path: Path) -> None:
    if door == "benzina":
        pytest.importorskip("av")
    make, advice = VALUES[value]
    path = tmp_path / "x.blp"
    if (door, value) == ("benzina", "column"):
        advice = "a picture must be"
    with pytest.raises((TypeError, bp.exceptions.BloscpackError), match=advice):
        DOORS[door](path, make())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["U3", "S3", "O", "T"])
@pytest.mark.parametrize("as_list", [False, True])
def test_text_is_not_frames(kind: str, as_list: bool, tmp_path: Path) -> None:
    if kind == "T" and not hasattr(np.dtypes, "StringDType"):
        pytest.skip("numpy 2")
    frames = np.array([["a"], ["b"]]).astype(kind)
    with (
        bp.frames.create(tmp_path / "x.blp") as store,
        pytest.raises(TypeError, match=r"frames must be numbers.*bloscpack\.frames\.ingest"),
    ):
        store.append("a", list(frames) if as_list else frames)
