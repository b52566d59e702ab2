"""Contract of every registered type and target, whichever folder declares it.

A type in `FILETYPES` is identified, opened, verified, described and recovered. Damage is
reported. A target in `TARGETS` is written, and what it can read comes back.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main
from bloscpack.exceptions import BloscpackError
from bloscpack.filetypes.identify import identify
from bloscpack.filetypes.table import FILETYPES, TARGETS, FileType, Target

from .filetypes.test_identify import FILES

LIBRARIES = {"gif": "av", "hdf5": "h5py", "mp4": "av", "netcdf": "h5netcdf", "tiff": "tifffile"}
LIBRARIES |= {"benzina": "av", "zarr": "zarr", "zarr2": "zarr"}
OPTIONS: dict[str, dict[str, Any]] = {"gulp": {"quality": 90}, "benzina": {"tile": 16}}
every_type = pytest.mark.parametrize("filetype", FILETYPES, ids=lambda each: each.name)


@pytest.fixture
def path(filetype: FileType, tmp_path: Path) -> Path:
    """Return a copy of a small file of the type."""
    source = FILES[filetype.name]
    copy = tmp_path / source.name
    (shutil.copytree if filetype.is_folder else shutil.copyfile)(source, copy)
    return copy


@every_type
def test_a_file_is_identified_and_opened(filetype: FileType, path: Path) -> None:
    found, source = identify(str(path))
    source.close()
    assert found is filetype
    with (bp.frames.open if filetype.open_frames else bp.open)(path) as opened:  # type: ignore[operator]
        assert len(opened) > 0


@every_type
def test_commands_describe_it(
    filetype: FileType, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("info", "ls", "verify"):
        assert main([verb, "--json", str(path)]) == 0
    assert path.name in capsys.readouterr().out


@every_type
def test_damage_is_found_and_the_rest_recovered(filetype: FileType, path: Path) -> None:
    assert bp.verify(path).ok
    part = max(path.glob("*.gulp"), default=path, key=lambda each: each.stat().st_size)
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    report = bp.verify(path)
    assert not report.ok or report.notices  # the end of a frame store may be an unfinished append
    try:
        recovered = bp.recover(path, path.with_name("saved" + path.suffix))
    except BloscpackError:
        return  # nothing of it can be saved
    assert recovered.saved <= recovered.nchunks


@pytest.mark.parametrize("target", TARGETS, ids=lambda each: each.name)
def test_a_copy_comes_back(target: Target, tmp_path: Path) -> None:
    if target.name in LIBRARIES:
        pytest.importorskip(LIBRARIES[target.name])
    if target.name == "vrs":
        source = FILES["vrs"].with_name("recording_store.blp")
    elif target.is_array:
        source = tmp_path / "a.blp"
        bp.save(source, np.arange(1024, dtype="f4").reshape(4, 16, 16))
    else:
        source = tmp_path / "a.blp"
        with bp.frames.create(source) as store:
            store.append("walk", np.arange(3072, dtype="u1").reshape(4, 16, 16, 3))
    copy = tmp_path / ("copy" + max(target.suffixes, default=""))
    done = bp.convert(source, copy, to=target.name, **OPTIONS.get(target.name, {}))
    assert copy.exists()
    if target.name in ("images", "v3") or (target.open is None and target.is_array):
        return
    to = "array" if target.is_array else "frames"
    back = bp.convert(copy, tmp_path / "back.blp", to=to)
    assert back.kind == to
    if target.is_array:
        np.testing.assert_array_equal(bp.load(tmp_path / "back.blp"), bp.load(source))
    elif target.name != "vrs" and done.lossless:
        with bp.frames.open(source) as expected, bp.frames.open(tmp_path / "back.blp") as got:
            frames = [np.asarray(got[name][...]).reshape(-1) for name in got]
            np.testing.assert_array_equal(
                np.concatenate(frames), np.asarray(expected["walk"][...]).reshape(-1)
            )
