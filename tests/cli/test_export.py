"""``blpk export``: references for Zarr readers."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from .conftest import Blpk, flip


def test_references_are_written(blpk: Blpk, ramp: Path, tmp_path: Path) -> None:
    ended = blpk("export", "--kerchunk", ramp, "-o", "ramp.json")
    assert (ended.code, ended.raw, ended.err) == (0, b"", "")
    written = (tmp_path / "ramp.json").read_text("ascii")
    assert json.loads(written) == bp.kerchunk_references(ramp)
    # One line per reference.
    assert written.count("\n") == len(json.loads(written)["refs"]) + 2


def test_to_standard_output(blpk: Blpk, ramp: Path) -> None:
    ended = blpk("export", "--kerchunk", "ramp.blp")
    assert ended.json == bp.kerchunk_references(ramp)
    assert ended.json["refs"]["data/0.0"][0] == os.fspath(ramp)


def test_options(blpk: Blpk, ramp: Path) -> None:
    options = ("--url", "s3://box/a.blp", "--name", "x", "--dims", "time,y", "--no-verify")
    expected = bp.kerchunk_references(ramp, url="s3://box/a.blp", name="x", dims=["time", "y"])
    assert blpk("export", "--kerchunk", ramp, *options).json == expected


def test_from_standard_input(blpk: Blpk, ramp: Path) -> None:
    data = ramp.read_bytes()
    ended = blpk("export", "--kerchunk", "-", "--url", "https://host/ramp.blp", stdin=data)
    assert ended.json == bp.kerchunk_references(ramp, url="https://host/ramp.blp")
    ended = blpk("export", "--kerchunk", "-", stdin=data)
    assert ended.code == 2
    assert "--url" in ended.err


def test_of_a_url(blpk: Blpk, ramp: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe_file("/export/ramp.blp", ramp.read_bytes())
    ended = blpk("export", "--kerchunk", "memory://export/ramp.blp")
    assert ended.json == bp.kerchunk_references(ramp, url="memory://export/ramp.blp")


def test_a_form_is_needed(blpk: Blpk, ramp: Path) -> None:
    ended = blpk("export", ramp)
    assert ended.code == 2
    assert "--kerchunk" in ended.err


def test_files_are_not_overwritten(blpk: Blpk, ramp: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine")
    ended = blpk("export", "--kerchunk", ramp, "-o", "a.json")
    assert ended.code == 1
    assert "exists" in ended.err
    assert (tmp_path / "a.json").read_text() == "mine"
    assert blpk("-f", "export", "--kerchunk", ramp, "-o", "a.json").code == 0
    assert blpk("-f", "export", "--kerchunk", ramp, "-o", ramp).code == 1
    assert np.array_equal(bp.load(ramp), np.arange(120.0).reshape(30, 4))


def test_damage(blpk: Blpk, ramp: Path, tmp_path: Path) -> None:
    with bp.open(ramp) as array:
        flip(ramp, array.chunk_offset(2) + 30)
    ended = blpk("export", "--kerchunk", ramp, "-o", "a.json")
    assert ended.code == 3
    assert "chunk 2" in ended.err
    assert not (tmp_path / "a.json").exists()


def test_files_without_references(blpk: Blpk, tmp_path: Path) -> None:
    bp.pack_ndarray_to_file(np.arange(300.0).reshape(30, 10), "cut.blp", chunk_size=800 - 8)
    ended = blpk("export", "--kerchunk", "cut.blp", "-o", "a.json")
    assert ended.code == 1
    assert "not whole rows" in ended.err
    assert "bloscpack.as_zarr" in ended.err
    assert not (tmp_path / "a.json").exists()
    (tmp_path / "text").write_text("something else")
    assert blpk("export", "--kerchunk", "text").code == 4
    assert blpk("export", "--kerchunk", "none.blp").code == 1


def test_an_array_of_an_archive(blpk: Blpk, tmp_path: Path) -> None:
    """References lead to the archive: a reader takes a file that is missing for fill values."""
    bp.savez("ar.blp", {"x": np.arange(5), "y": np.arange(6.0)})
    refs = blpk("export", "--kerchunk", "ar.blp::/x").json["refs"]
    assert refs == bp.kerchunk_references("ar.blp::/x")["refs"]
    assert refs["data/0"][0] == os.fspath(tmp_path / "ar.blp")
