"""``blpk convert``: both directions, messages, and files that it must not replace."""

import os
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from .clipfiles import CLIPS, write_gulp, write_store
from .conftest import Blpk

pytest.importorskip("simplejpeg", reason="a gulp directory holds JPEG")


def test_there_and_back(blpk: Blpk, tmp_path: Path) -> None:
    gulp = write_gulp(tmp_path / "gulp")
    ended = blpk("convert", "gulp", "clips.blp")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "clips.blp: 2 clips, 8 frames, 8 of them images copied byte for byte\n"
    ended = blpk("convert", "--json", "clips.blp", "back")
    assert ended.json == {
        "schema_version": 1,
        "command": "convert",
        "paths": ["clips.blp"],
        "target": "back",
        "kind": "gulp",
        "clips": 2,
        "frames": 8,
        "images": 8,
        "lossless": True,
    }
    for path in gulp.iterdir():
        assert (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()


def test_options(blpk: Blpk, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "a.blp") as store:
        for number in range(3):
            store.append(f"{number}", CLIPS["walk"])
    ended = blpk("convert", "a.blp", "gulp")
    assert (ended.code, ended.out) == (1, "")
    assert "give a quality" in ended.err
    ended = blpk("convert", "a.blp", "gulp", "--quality", "80", "--videos-per-chunk", "2")
    assert ended.out == (
        "gulp: 3 clips, 18 frames, 0 of them images copied byte for byte; "
        "others were encoded lossily\n"
    )
    assert sorted(os.listdir("gulp")) == [
        "data_0.gulp",
        "data_1.gulp",
        "meta_0.gmeta",
        "meta_1.gmeta",
    ]
    assert blpk("convert", "a.blp", "b", "--to", "frames", "--preset", "small").code == 0
    with bp.frames.open("b") as copy:
        assert copy.preset == "small"  # type: ignore[attr-defined]


def test_standard_input(blpk: Blpk, tmp_path: Path) -> None:
    store = write_store(tmp_path / "clips.blp")
    assert blpk("convert", "-", "copy.blp", stdin=store.read_bytes()).code == 0
    with bp.frames.open("copy.blp") as copy:
        assert list(copy) == list(CLIPS)


def test_existing_files_are_not_replaced(blpk: Blpk, tmp_path: Path) -> None:
    write_gulp(tmp_path / "gulp")
    (tmp_path / "x.blp").write_text("mine")
    ended = blpk("convert", "gulp", "x.blp")
    assert (ended.code, ended.out) == (1, "")
    assert "exists already" in ended.err
    assert (tmp_path / "x.blp").read_text() == "mine"
    assert blpk("convert", "gulp", "x.blp", "--force").code == 0
    assert blpk("convert", "gulp", "gulp", "--to", "gulp", "-f").code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing", "x.blp"], 1, "'nothing' does not exist"),
        (["text", "x.blp"], 4, "not a Bloscpack file"),
        (["gulp"], 2, "DST"),
        (["gulp", "x", "--to", "zip"], 2, "--to"),
        (["gulp", "x", "--quality", "90"], 1, "quality is for a Gulp directory"),
        (["gulp", "x", "--videos-per-chunk", "0"], 2, "must be at least 1"),
    ],
)
def test_errors(blpk: Blpk, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    write_gulp(tmp_path / "gulp")
    (tmp_path / "text").write_text("some text")
    ended = blpk("convert", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert sorted(os.listdir(tmp_path)) == ["gulp", "text"]


class TestArrays:
    def test_rounding(self, blpk: Blpk, tmp_path: Path) -> None:
        array = np.linspace(1, 2, 60).reshape(20, 3)
        np.save(tmp_path / "a.npy", array)
        ended = blpk("convert", "a.npy", "exact.blp", "--to", "array")
        assert (ended.code, ended.out) == (0, "exact.blp: array of 20 rows\n")
        assert np.array_equal(bp.load("exact.blp"), array)
        ended = blpk("convert", "--json", "exact.blp", "b.blp", "--keepbits", "5")
        assert ended.json == {
            "schema_version": 1,
            "command": "convert",
            "paths": ["exact.blp"],
            "target": "b.blp",
            "kind": "array",
            "clips": 1,
            "frames": 20,
            "images": 0,
            "lossless": False,
        }
        assert 0 < np.abs(bp.load("b.blp") - array).max() <= 2 / 2**6
        assert "'_QuantizeBitRoundNumberOfSignificantBits': 5" in blpk("info", "b.blp").out
        assert blpk("info", "--json", "b.blp").json["metadata"]["keepbits"] == 5

    def test_standard_input(self, blpk: Blpk, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.arange(5.0))
        ended = blpk(
            "convert", "-", "b.blp", "--keepbits", "1", stdin=(tmp_path / "a.npy").read_bytes()
        )
        assert ended.out == "b.blp: array of 5 rows, rounded to 1 mantissa bits\n"
        assert bp.load("b.blp").tolist() == [0, 1, 2, 3, 4]

    def test_errors(self, blpk: Blpk, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.arange(5))
        ended = blpk("convert", "a.npy", "b.blp", "--keepbits", "3")
        assert (ended.code, ended.out) == (1, "")
        assert "keepbits rounds float16" in ended.err
        ended = blpk("convert", "a.npy", "a.npy", "b.blp", "--to", "array")
        assert (ended.code, ended.out) == (2, "")
        assert "from one file" in ended.err
        assert sorted(os.listdir()) == ["a.npy"]
