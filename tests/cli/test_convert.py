"""``blpk convert``: options, messages, and files that it must not replace."""

import os
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from .clipfiles import CLIPS, write_store
from .conftest import Blpk


def test_preset(blpk: Blpk, tmp_path: Path) -> None:
    write_store(tmp_path / "a.blp")
    assert blpk("convert", "a.blp", "b", "--to", "frames", "--preset", "small").code == 0
    with bp.frames.open("b") as copy:
        assert copy.preset == "small"  # type: ignore[attr-defined]


def test_standard_input(blpk: Blpk, tmp_path: Path) -> None:
    store = write_store(tmp_path / "clips.blp")
    assert blpk("convert", "-", "copy.blp", stdin=store.read_bytes()).code == 0
    with bp.frames.open("copy.blp") as copy:
        assert list(copy) == list(CLIPS)


def test_existing_files_are_not_replaced(blpk: Blpk, tmp_path: Path) -> None:
    write_store(tmp_path / "clips.blp")
    check_not_replaced(blpk, "clips.blp", tmp_path / "x.blp")


def check_not_replaced(blpk: Blpk, source: str, target: Path) -> None:
    """Convert to a file that exists, without and with --force."""
    target.write_text("mine")
    ended = blpk("convert", source, target.name)
    assert (ended.code, ended.out) == (1, "")
    assert "exists already" in ended.err
    assert target.read_text() == "mine"
    assert blpk("convert", source, target.name, "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing", "x.blp"], 1, "'nothing' does not exist"),
        (["text", "x.blp"], 4, "not a Bloscpack file"),
        (["clips.blp"], 2, "DST"),
        (["clips.blp", "x", "--to", "zip"], 2, "--to"),
    ],
)
def test_errors(blpk: Blpk, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    write_store(tmp_path / "clips.blp")
    (tmp_path / "text").write_text("some text")
    ended = blpk("convert", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert sorted(os.listdir(tmp_path)) == ["clips.blp", "text"]


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
            "left_out": [],
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

    def test_chunks(self, blpk: Blpk, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.zeros((64, 300, 300), "u2"))
        assert blpk("convert", "a.npy", "b.blp", "--chunks", "16,100,100").code == 0
        assert bp.open("b.blp").chunks == (16, 100, 100)
        ended = blpk("convert", "b.blp", "c.blp", "--chunks", "auto", "--access", "series")
        assert ended.out == "c.blp: array of 64 rows\n"
        assert bp.open("c.blp").chunks[0] == 64
        assert blpk("convert", "c.blp", "d.blp", "--to", "v3", "--chunks", "8").code == 0
        with bp.open("d.blp") as copy:
            assert (copy.header.format_version, copy.chunks) == (3, (8, 300, 300))
        ended = blpk("convert", "c.blp", "e.blp", "--to", "v3", "--codec", "auto")
        assert (ended.code, ended.out) == (1, "")
        assert "version 3 has chunks of whole rows" in ended.err
        ended = blpk("convert", "c.blp", "e.blp", "--chunks", "8,,8")
        assert (ended.code, ended.out) == (2, "")
        assert not (tmp_path / "e.blp").exists()

    def test_level_and_filter(self, blpk: Blpk, tmp_path: Path) -> None:
        array = np.arange(60_000, dtype="u2").reshape(200, 300)
        np.save(tmp_path / "a.npy", array)
        assert blpk("convert", "a.npy", "b.blp", "--clevel", "9", "--shuffle", "bit").code == 0
        bp.save(tmp_path / "saved.blp", array, clevel=9, shuffle="bit")
        assert Path("b.blp").read_bytes() == Path("saved.blp").read_bytes()
        assert blpk("convert", "a.npy", "c.blp", "--clevel", "10").code == 2

    def test_errors(self, blpk: Blpk, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.arange(5))
        ended = blpk("convert", "a.npy", "b.blp", "--keepbits", "3")
        assert (ended.code, ended.out) == (1, "")
        assert "keepbits rounds float16" in ended.err
        ended = blpk("convert", "a.npy", "a.npy", "b.blp", "--to", "array")
        assert (ended.code, ended.out) == (2, "")
        assert "from one file" in ended.err
        assert sorted(os.listdir()) == ["a.npy"]


def test_a_pattern_stands_for_several_stores(blpk: Blpk, tmp_path: Path) -> None:
    for name in "ba":
        with bp.frames.create(tmp_path / f"part-{name}.blp") as store:
            store.append(name, np.zeros((2, 8, 8), "u1"))
    assert blpk("convert", "part-*.blp", "all.blp").code == 0
    with bp.frames.open(tmp_path / "all.blp") as store:
        assert [*store] == ["a", "b"]


def test_a_part_does_not_replace_its_file(blpk: Blpk, tmp_path: Path) -> None:
    bp.savez("ar.blp", {"x": np.arange(5), "y": np.arange(6.0)})
    os.symlink("ar.blp", "link.blp")
    for target in ("ar.blp", "link.blp"):
        ended = blpk("convert", "ar.blp::/x", target, "--to", "array", "--force")
        assert ended.code == 1
        assert "replace the whole file" in ended.err
    with bp.open("ar.blp") as archive:
        assert list(archive) == ["x", "y"]
    assert blpk("convert", "ar.blp::/x", "x.blp", "--force").code == 0


def test_not_to_standard_output(blpk: Blpk, tmp_path: Path) -> None:
    bp.save("a.blp", np.arange(5))
    for command in (["convert", "a.blp", "-"], ["frames", "create", "a.blp", "-"]):
        ended = blpk(*command)
        assert (ended.code, ended.out) == (2, "")
        assert "must be the name of a file" in ended.err
    assert os.listdir(tmp_path) == ["a.blp"]
