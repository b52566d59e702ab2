"""Conversion between Gulp directories and Benzina datasets."""

from pathlib import Path

import pytest

pytest.importorskip("av", reason="pictures are coded by PyAV")
pytest.importorskip("PIL", reason="pictures are read and written by Pillow")
pytest.importorskip("simplejpeg", reason="JPEG is coded by simplejpeg")

import bloscpack as bp
from bloscpack import benzina
from bloscpack.media import image

from ..benzina.codedfiles import write_dataset
from ..benzina.pictures import photo


def test_labels_of_a_gulp_directory_are_targets(tmp_path: Path) -> None:
    jpeg = image.encode_jpeg(photo(20, 30, 0), quality=90)
    with bp.frames.create(tmp_path / "s.blp", attrs={"label2idx": {"cat": 4}}) as store:
        store.append("one", [jpeg], {"label": "cat"})
        store.append("two", [jpeg], {"label": "bird"})
        store.append("three", [jpeg], {"label": True})
    bp.convert(tmp_path / "s.blp", tmp_path / "gulp")
    bp.convert(tmp_path / "gulp", tmp_path / "a.bzna", tile=64, crf=40)
    with benzina.open(tmp_path / "a.bzna") as opened:
        found = [(each.name_bytes, each.target) for each in opened.samples()]
    assert found == [(b"one", 4), (b"two", -1), (b"three", -1)]


def test_dataset_to_gulp_needs_a_quality(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "a.bzna", [b"1\0", b"2\0", b"3\0", b"4\0"])
    with pytest.raises(ValueError, match="give a quality"):
        bp.convert(dataset, tmp_path / "gulp", to="gulp")
    found = bp.convert(dataset, tmp_path / "gulp", to="gulp", quality=90)
    assert found == bp.Conversion("gulp", 4, 4, 0, lossless=False)
    with pytest.raises(ValueError, match="crf is for a copy of type 'benzina' or of type 'mp4'"):
        bp.convert(dataset, tmp_path / "x", to="gulp", crf=20)
    with pytest.raises(ValueError, match="quality is for a copy of type 'gulp'"):
        bp.convert(dataset, tmp_path / "x.bzna", quality=90)
