"""``blpk frames info``, ``ls`` and ``verify``."""

import json
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from .clipfiles import write_store
from .conftest import Blpk, flip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "clips.blp")


def test_info(blpk: Blpk, store: Path) -> None:
    """It is the verb for every type, for these types."""
    ended = blpk("frames", "info", store)
    assert (ended.code, ended.err) == (0, "")
    assert ended == blpk("info", store)
    assert "kind: frame store\nclips: 4\nframes: 14\n" in ended.out


def test_info_of_a_clip(blpk: Blpk, store: Path) -> None:
    assert blpk("info", f"{store}::/depth").out.splitlines() == [
        "kind: clip",
        "shape: 3x4x6",
        "dtype: <u2",
        "decoded: 144B",
        "kept as: arrays",
        'meta: {"n": 1}',
    ]
    document = blpk("info", "--json", "-", stdin=store.read_bytes()).json
    assert (document["nclips"], document["attrs"]) == (4, {"camera": "left"})
    document = blpk("info", "--json", f"{store}::/depth").json
    assert document == {
        "schema_version": 1,
        "command": "info",
        "path": f"{store}::/depth",
        "kind": "clip",
        "shape": [3, 4, 6],
        "dtype": "<u2",
        "nbytes": 144,
        "kept_as": "arrays",
        "attrs": {"n": 1},
        "errors": [],
    }


def test_ls(blpk: Blpk, store: Path) -> None:
    ended = blpk("frames", "ls", store)
    assert (ended.code, ended.err) == (0, "")
    assert [line.split() for line in ended.out.splitlines()] == [
        ["6x16x12x3", "|u1", "arrays", "3456", "walk"],
        ["3x4x6", "<u2", "arrays", "144", "depth"],
        ["5x4x6", "|b1", "arrays", "120", "mask"],
        ["0x4x6", "<f4", "arrays", "0", "none"],
    ]


def test_ls_as_json(blpk: Blpk, store: Path) -> None:
    ended = blpk("frames", "ls", "--json", store, "depth", "zebra")
    assert ended.code == 1
    document = ended.json
    error = document["clips"][1]["error"]
    assert document["clips"] == [
        {
            "id": "depth",
            "status": "ok",
            "shape": [3, 4, 6],
            "dtype": "<u2",
            "kept_as": "arrays",
            "nbytes": 144,
            "meta": {"n": 1},
            "error": None,
        },
        {
            "id": "zebra",
            "status": "failed",
            "shape": None,
            "dtype": None,
            "kept_as": None,
            "nbytes": None,
            "meta": None,
            "error": error,
        },
    ]
    assert error.startswith(f"{store}: ")
    assert "'zebra' among 4" in error
    assert "zebra" in ended.err
    assert len(ended.out.splitlines()) == 9  # each clip on its own line


def test_ids_are_printed_harmlessly(blpk: Blpk, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "x.blp") as store:
        store.append("\x1b[2J\n\ud800", [])
    ended = blpk("frames", "ls", "x.blp")
    assert ended.out.endswith("\\x1b[2J\\n\\ud800\n")
    assert json.loads(blpk("frames", "ls", "--json", "x.blp").out)["clips"][0]["id"] == (
        "\x1b[2J\n\ud800"
    )


def test_verify_finds_nothing(blpk: Blpk, store: Path) -> None:
    ended = blpk("frames", "verify", store)
    assert (ended.code, ended.out, ended.err) == (0, f"{store}: ok\n", "")


def test_verify_names_clip_and_frame(blpk: Blpk, store: Path) -> None:
    with bp.frames.open(store) as opened:
        offset, nbytes = opened["walk"].chunk_extents()[4]  # type: ignore[attr-defined]
    flip(store, offset + nbytes // 2)
    ended = blpk("frames", "verify", store, "nothing")
    assert ended.code == 3
    assert ended.out.startswith(
        f"{store}: clip 'walk': frame 4 (bytes {offset} to {offset + nbytes})"
    )
    assert "'nothing' does not exist" in ended.err
    documents = blpk("frames", "verify", "--json", store, "nothing").json["files"]
    assert [each["status"] for each in documents] == ["damaged", "failed"]
    (damage,) = documents[0]["damage"]
    assert (damage["clip"], damage["frames"]) == ("walk", [4, 5])
    assert "does not exist" in documents[1]["error"]


def test_verify_looks_at_the_whole_file(blpk: Blpk, store: Path) -> None:
    flip(store, -1)
    ended = blpk("frames", "verify", store)
    assert ended.code == 3
    assert "index" in ended.out
    bp.save("array.blp", np.arange(10))
    ended = blpk("frames", "verify", "array.blp")
    assert (ended.code, ended.out) == (blpk("frames", "ls", "array.blp").code, "")
    assert ended.code != 0
    ended = blpk("frames", "verify", "-", stdin=store.read_bytes())
    assert ended.out.startswith("-: index")


def test_a_store_that_is_cut_short_is_damaged(blpk: Blpk, store: Path) -> None:
    store.write_bytes(store.read_bytes()[:50])
    for command in ("info", "ls", "verify", "cat"):
        ended = blpk("frames", command, store)
        assert ended.code == 3, command
        assert "not a frame store" not in ended.err


@pytest.mark.parametrize("command", ["info", "ls", "verify"])
def test_files_that_are_not_stores(blpk: Blpk, tmp_path: Path, command: str) -> None:
    (tmp_path / "text").write_text("some text")
    assert blpk("frames", command, "text").code == 4
    ended = blpk("frames", command, "nothing")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "blpk: error: file 'nothing' does not exist!\n"


def test_usage(blpk: Blpk) -> None:
    assert blpk("frames").code == 2
    assert blpk("frames", "paint").code == 2
