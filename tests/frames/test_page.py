"""docs/formats/frames.md: its dump matches the file, its reader reads our stores."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

from ..pages import DOCS, dump_of, page_fixture
from .stores import Array, changed, clip, fill, made, tails

PAGE = DOCS / "formats" / "frames.md"

page = page_fixture(PAGE)


def test_the_dump_is_the_file(page: dict[str, Any]) -> None:
    assert dump_of(PAGE).hex(" ") == page["example"].hex(" ")


def moving(nframes: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Return smooth frames that move a little, so that all filters are used."""
    rng = np.random.default_rng(0)
    frame = np.add.outer(np.arange(shape[0]) * 3, np.arange(shape[1]) * 2)
    frame = frame[..., None] + np.arange(shape[2]) * 40 + rng.integers(0, 4, shape)
    frames = np.stack([frame + (k // 3) for k in range(nframes)])
    frames[:, :4, :4] = np.arange(nframes)[:, None, None, None] * 5
    return np.asarray(frames % 251).astype(dtype)


CLIPS: dict[str, Array] = {
    "rgb": moving(20, (40, 50, 3), "u1"),
    "rgba": moving(11, (30, 41, 4), "u1"),
    "depth": moving(18, (40, 50, 1), "<u2")[..., 0] * 7,
    "big": moving(9, (30, 40, 1), ">u2")[..., 0],
    "flow": moving(5, (30, 40, 2), "<f4") / 3,
    "noise": clip(0, 5),
    "small": np.arange(700).reshape(100, 7),
    "scalars": np.arange(300.0),
    "masks": moving(12, (64, 64, 1), "u1")[..., 0] > 100,
    "none": np.zeros((0, 3, 4), "i2"),
    "empty": np.zeros((4, 0, 3)),
    "times": np.arange(40).astype("<M8[ns]").reshape(4, 10),
    "\ud800": np.zeros((2, 600), "V3"),
    "": np.ones((3, 70, 70), "?"),
}  # fmt: skip


@pytest.mark.parametrize("preset", ["fast", "small", "raw"])
def test_the_reader_reads_every_kind_of_clip(
    page: dict[str, Any], tmp_path: Path, preset: str
) -> None:
    path = tmp_path / "a.blp"
    filters = 0
    with bp.frames.create(path, preset=preset) as store:
        for number, (name, frames) in enumerate(CLIPS.items()):
            store.append(name, frames, {"number": number})
            filters |= int(np.bitwise_or.reduce(np.frombuffer(store[name]._filters, "u1")))
            if number % 3 == 0:
                store.flush()
    found = page["read_store"](path.read_bytes())
    assert list(found) == list(CLIPS)
    for number, (name, frames) in enumerate(CLIPS.items()):
        assert found[name][0].dtype == frames.dtype, name
        assert np.array_equal(found[name][0], frames), name
        assert found[name][1] == {"number": number}
    # Filters common to both presets, and the bit planes of the fast one.
    wanted = {"fast": 0x3B, "small": 0x13, "raw": 0}[preset]
    assert filters & wanted == wanted


def test_the_reader_reads_images(page: dict[str, Any], tmp_path: Path) -> None:
    image = pytest.importorskip("bloscpack.media.image")
    pytest.importorskip("simplejpeg")
    images = [image.encode_jpeg(frame) for frame in CLIPS["rgb"][:3]]
    with bp.frames.create(tmp_path / "a.blp") as store:
        store.append("a", images)
    assert page["read_store"]((tmp_path / "a.blp").read_bytes()) == {"a": (images, {})}


def test_the_reader_reads_large_indexes_and_torn_files(
    page: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "a.blp"
    data = made(path, 90, 20, 1)
    assert any(section.how for tail in tails(data) for section in tail.sections)
    assert len(page["read_store"](data)) == 111
    assert len(page["read_store"](data + b"BLPKFRMS" * 40)) == 111
    merged = tails(data)[-2]
    for tail in (tails(data)[-1], merged):
        assert len(page["read_store"](changed(data, tail.offset))) >= 110
    with bp.frames.open(path, "a") as store:
        fill(store, 111)
        data = path.read_bytes()
    assert len(page["read_store"](data)) == 112
    assert len(page["read_store"](data[:-1])) == 111


def test_the_reader_refuses_damage(page: dict[str, Any]) -> None:
    example = page["example"]
    for place in range(0x151, 0x171):
        with pytest.raises(ValueError, match="damaged"):
            page["read_store"](changed(example, place))
    for end in range(0x151):
        with pytest.raises(ValueError, match=r"no index|no frame store"):
            page["read_store"](example[:end])
    assert page["read_store"](example[:-1]) == {}
