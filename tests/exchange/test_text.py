"""Arrays of text of variable length, which are carried as arrays of the longest text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackWarning
from bloscpack.exchange import arraytree
from bloscpack.filetypes import arraysource

h5py: Any = pytest.importorskip("h5py")
zarr: Any = pytest.importorskip("zarr")
pytest.importorskip("h5netcdf")

WORDS = np.array([["a", "größe", ""], ["\N{PILE OF POO}", "b c", "x" * 40]], object)


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
@pytest.mark.parametrize("name", ["a.h5", "a.nc", "a.zarr", "zarr2", "a.npz", "a.npy"])
def test_there_and_back(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arraysource, "PART_NBYTES", 500)
    with h5py.File(tmp_path / "words.h5", "w") as file:
        file.create_dataset("words", data=WORDS, chunks=(1, 2)).attrs["lang"] = "de"
    bp.convert(tmp_path / "words.h5", tmp_path / "a.blp", strict=True)
    assert bp.load(tmp_path / "a.blp").dtype == "<U40"
    zarr.create_array(tmp_path / "words", shape=(2, 3), chunks=(1, 2), dtype=str)[:] = WORDS
    bp.convert(tmp_path / "words", tmp_path / "z.blp", strict=True)
    for source in ("a.blp", "z.blp"):
        path = tmp_path / f"{source}-{name}"
        bp.convert(tmp_path / source, path, to="zarr2" if name == "zarr2" else None)
        if name in ("a.h5", "a.nc"):
            with h5py.File(path) as file:
                found = file["data"]
                assert h5py.check_string_dtype(found.dtype).length is None
                assert np.array_equal(found.asstr()[...], WORDS)
        elif "zarr" in name:
            array = zarr.open_array(path)
            assert array.dtype.kind == ("T" if source == "z.blp" else "U")
            assert np.array_equal(array[...].astype(object), WORDS)
        bp.convert(path, tmp_path / "b.blp", to="array", overwrite=True)
        assert bp.load(tmp_path / "b.blp").tolist() == WORDS.tolist()


def test_what_is_not_carried(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arraytree, "_MAX_TEXT_NBYTES", 4000)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["ok"] = np.array(["x" * 500, ""], object)
        file["long"] = np.array(["x" * 501, ""], object)
        file.create_dataset("latin", (1,), h5py.string_dtype())[0] = b"\xff"
    long = "it has text of 501 characters; with each as long, it exceeds 1 GiB"
    lost = (f"array 'long': {long}", "array 'latin': it has text that is not UTF-8")
    with pytest.warns(BloscpackWarning):
        assert sorted(bp.convert(tmp_path / "a.h5", tmp_path / "a.blp").left_out) == sorted(lost)
    root = zarr.create_group(tmp_path / "a.zarr")
    root.create_array("null", shape=(2,), dtype=str)[:] = np.array(["a\0", "b"], object)
    root.create_array("inner", shape=(2,), dtype=str)[:] = np.array(["a\0b", "b"], object)
    with pytest.warns(BloscpackWarning, match="array 'null': it has items beside text, or text"):
        bp.convert(tmp_path / "a.zarr", tmp_path / "b.blp")
    bp.savez(tmp_path / "c.blp", words=bp.load(tmp_path / "b.blp"), one=np.arange(2))
    for name in ("c.h5", "c.nc"):
        with pytest.warns(BloscpackWarning, match=r"array 'words': .* hold the text 'a\\x00b'"):
            bp.convert(tmp_path / "c.blp", tmp_path / name)
