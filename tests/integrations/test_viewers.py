"""Plugins for other viewers: layers of napari, and the data loader of Rerun."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, BloscpackWarning, FormatError, UnsupportedError
from bloscpack.integrations import napari, rerun

from ..conftest import PACKAGE, REPOSITORY
from ..entrypoints import entry_points
from ..test_layers import FILE_TYPES

RAMP = np.arange(60, dtype="<f4").reshape(3, 4, 5)
CLIP = np.arange(5 * 8 * 6 * 3, dtype="u1").reshape(5, 8, 6, 3)
DEPTH = np.arange(5 * 8 * 6, dtype="<u2").reshape(5, 8, 6)


@pytest.fixture
def ramp(tmp_path: Path) -> str:
    bp.save(tmp_path / "ramp.blp", RAMP, attrs={"dims": ["t", "y", "x"], "unit": "K"})
    return str(tmp_path / "ramp.blp")


@pytest.fixture
def clips(tmp_path: Path) -> str:
    with bp.frames.create(tmp_path / "clips.blp") as store:
        store.append("walk/1", CLIP, {"fps": 20})
        store.append("depth", DEPTH)
    return str(tmp_path / "clips.blp")


def damaged(path: str) -> str:
    """Flip a byte of a frame of the first clip."""
    with bp.frames.open(path) as store:
        offset, nbytes = store["walk/1"].chunk_extents()[0]  # type: ignore[attr-defined]
    data = bytearray(Path(path).read_bytes())
    data[offset + nbytes // 2] ^= 0x55
    Path(path).write_bytes(data)
    return path


class TestNapari:
    def test_an_array_is_a_lazy_layer(self, ramp: str) -> None:
        reader = napari.get_reader(ramp)
        assert reader is not None
        [(data, options, kind)] = reader(ramp)
        assert (kind, options["axis_labels"], options["rgb"]) == ("image", ("t", "y", "x"), False)
        assert options["metadata"]["unit"] == "K"
        assert isinstance(data, bp.Array)
        assert np.array_equal(data[1], RAMP[1])

    def test_each_clip_is_a_layer(self, clips: str) -> None:
        (walk, colour, _), (depth, grey, _) = napari.read(clips)
        assert (colour["name"], colour["rgb"], grey["rgb"]) == ("walk/1", True, False)
        assert colour["axis_labels"] == grey["axis_labels"] == ("frame", "y", "x")
        assert np.array_equal(walk[2], CLIP[2])
        assert np.array_equal(depth[2], DEPTH[2])

    def test_arrays_that_cannot_be_drawn_are_left_out(self, tmp_path: Path) -> None:
        bp.savez(tmp_path / "a.blp", line=np.arange(3), text=np.array([["a"]]), plane=RAMP[0])
        assert [each[1]["name"] for each in napari.read(str(tmp_path / "a.blp"))] == ["plane"]
        bp.save(tmp_path / "line.blp", np.arange(3))
        with pytest.raises(UnsupportedError, match="two axes or more"):
            napari.read(str(tmp_path / "line.blp"))

    def test_layers_are_limited(self, tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "many.blp") as store:
            for k in range(napari.MAX_LAYERS + 1):
                store.append(f"{k}", DEPTH[:1])
        with pytest.warns(BloscpackWarning, match="first 64"):
            assert len(napari.read(str(tmp_path / "many.blp"))) == napari.MAX_LAYERS

    def test_other_files_are_for_other_plugins(self, tmp_path: Path) -> None:
        (tmp_path / "a.blp").write_bytes(b"not ours")
        (tmp_path / "folder").mkdir()
        for name in ("a.blp", "folder", "missing.blp"):
            assert napari.get_reader(str(tmp_path / name)) is None
        assert napari.get_reader([str(tmp_path / "a.blp")]) is None

    def test_damage_is_a_clean_error(self, clips: str) -> None:
        reader = napari.get_reader(damaged(clips))
        assert reader is not None
        with pytest.raises(BloscpackError, match=r"walk/1.*frame"):
            reader(clips)[0][0][2]

    def test_a_damaged_clip_is_left_out(self, clips: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(store: Any, id_: str) -> Any:
            if id_ == "walk/1":
                raise FormatError("its index is damaged")
            return get(store, id_)

        with bp.frames.open(clips) as store:
            store_type = type(store)
        get = store_type.__getitem__
        monkeypatch.setattr(store_type, "__getitem__", fail)
        with pytest.warns(BloscpackWarning, match="'walk/1' is left out: its index is damaged"):
            [(_, options, _)] = napari.read(clips)
        assert options["name"] == "depth"

    @pytest.mark.filterwarnings("ignore")
    def test_the_manifest_is_found_and_valid(self, tmp_path: Path) -> None:
        npe2 = pytest.importorskip("npe2", reason="the manifest is checked by npe2")
        with entry_points(tmp_path / "site"):
            found = {each.manifest.name: each.manifest for each in npe2.PluginManifest.discover()
                     if each.manifest}  # fmt: skip
        [reader] = found["bloscpack"].contributions.readers
        [command] = found["bloscpack"].contributions.commands
        assert reader.command == command.id
        assert command.python_name == "bloscpack.integrations.napari:get_reader"

    @pytest.mark.filterwarnings("ignore")
    def test_the_real_napari_opens_our_files(self, ramp: str, clips: str) -> None:
        npe2 = pytest.importorskip("npe2", reason="napari finds the plugin by npe2")
        components = pytest.importorskip("napari.components", reason="needs napari")
        manifest = npe2.PluginManifest.from_file(PACKAGE / "integrations" / "napari.yaml")
        npe2.PluginManager.instance().register(manifest)
        try:
            viewer = components.ViewerModel()
            layers = viewer.open([ramp], plugin="bloscpack")
            assert layers[0].data.shape == RAMP.shape
            viewer.open([clips], plugin="bloscpack")
            assert [layer.name for layer in viewer.layers] == ["ramp", "walk/1", "depth"]
            assert viewer.layers[1].rgb
            viewer.dims.set_current_step(0, 3)
            shown: Any = viewer.layers[1]._slice.image.raw
            assert np.array_equal(shown, CLIP[3])
        finally:
            npe2.PluginManager.instance().unregister(manifest.name)


def load(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the loader as Rerun does."""
    code = "import sys; from bloscpack.integrations.rerun import main; sys.exit(main())"
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        env=environment,
        timeout=240,
    )


class TestRerun:
    def test_files_of_others_have_status_66(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"not ours")
        (tmp_path / "folder").mkdir()
        assert rerun.main([str(tmp_path / "a.txt")]) == rerun.INCOMPATIBLE == 66
        assert rerun.main([str(tmp_path / "folder"), "--recording-id", "x"]) == 66

    def test_a_missing_file_is_an_error(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert rerun.main([str(tmp_path / "missing.blp")]) == 1
        assert "missing.blp" in capsys.readouterr().err

    def test_the_library_is_named(
        self, ramp: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setitem(sys.modules, "rerun", None)
        assert rerun.main([ramp]) == 1
        assert "bloscpack[rerun]" in capsys.readouterr().err

    def test_the_real_rerun_reads_the_output(self, clips: str, tmp_path: Path) -> None:
        pytest.importorskip("rerun", reason="needs rerun-sdk")
        run = load(
            *(clips, "--recording-id", "r1", "--application-id", "app", "--later-option"),
            *("--entity-path-prefix", "dropped", "--sequence", "step=3"),
        )
        assert (run.returncode, run.stderr) == (0, b"")
        (tmp_path / "out.rrd").write_bytes(run.stdout)
        tool = [sys.executable, "-m", "rerun", "rrd", "print", str(tmp_path / "out.rrd")]
        shown = subprocess.run(tool, capture_output=True, text=True, timeout=240).stdout
        assert "with 5 rows" in shown
        assert r"/dropped/walk\/1 " in shown
        assert "/dropped/depth " in shown
        assert "Image:buffer" in shown

    @pytest.mark.skipif("vrs" not in FILE_TYPES, reason="recordings are not read")
    def test_a_recording_has_images_and_columns(self, tmp_path: Path) -> None:
        pytest.importorskip("rerun", reason="needs rerun-sdk")
        vrs = bp.vrs
        motion = type("Motion", (vrs.Layout,), {"turn": vrs.Array("float", 3)})
        with vrs.create(tmp_path / "a.vrs") as recording:
            camera = recording.stream("RGB Camera Class")
            camera.define("data", vrs.Image("raw", 6, 8, "grey8"))
            imu = recording.stream("imu")
            imu.define("data", motion)
            for k in range(7):
                camera.write("data", k / 2, np.full((8, 6), k, "u1"))
                imu.write("data", k / 4, {"turn": [k, 2, 3]})
        run = load(str(tmp_path / "a.vrs"), "--time", "arrived=5000000000", "--sequence", "step=3")
        assert (run.returncode, run.stderr) == (0, b"")
        (tmp_path / "out.rrd").write_bytes(run.stdout)
        tool = [sys.executable, "-m", "rerun", "rrd", "print", "-vvv", str(tmp_path / "out.rrd")]
        shown = subprocess.run(tool, capture_output=True, text=True, timeout=240).stdout
        for each in ("/214-1 ", "Image:buffer", "/241-1/turn ", "Scalars:scalars"):
            assert each in shown
        row = ("1970-01-01T00:00:05", "PT1.5S", "3", "[6.0, 2.0, 3.0]")
        assert re.search(r" +\S+ +".join(map(re.escape, row)), shown)

    def test_an_array_is_a_tensor(self, ramp: str, tmp_path: Path) -> None:
        pytest.importorskip("rerun", reason="needs rerun-sdk")
        run = load(ramp)
        (tmp_path / "out.rrd").write_bytes(run.stdout)
        tool = [sys.executable, "-m", "rerun", "rrd", "print", str(tmp_path / "out.rrd")]
        shown = subprocess.run(tool, capture_output=True, text=True, timeout=240).stdout
        assert "Tensor:data" in shown

    def test_an_array_of_pictures_is_a_sequence_of_images(self, tmp_path: Path) -> None:
        pytest.importorskip("rerun", reason="needs rerun-sdk")
        bp.save(tmp_path / "walk.blp", CLIP, attrs={"fps": 4})
        run = load(str(tmp_path / "walk.blp"))
        assert (run.returncode, run.stderr) == (0, b"")
        (tmp_path / "out.rrd").write_bytes(run.stdout)
        tool = [sys.executable, "-m", "rerun", "rrd", "print", "-vv", str(tmp_path / "out.rrd")]
        shown = subprocess.run(tool, capture_output=True, text=True, timeout=240).stdout
        assert "Image:buffer" in shown
        assert "Tensor:data" not in shown
        for each in ("frame", "clip_time", f"with {len(CLIP)} rows"):
            assert each in shown

    def test_damage_is_a_clean_error(self, clips: str) -> None:
        pytest.importorskip("rerun", reason="needs rerun-sdk")
        run = load(damaged(clips))
        assert run.returncode == 1
        assert b"Traceback" not in run.stderr
        assert b"rerun-loader-bloscpack: " in run.stderr
