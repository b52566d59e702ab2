"""Saving an open array keeps the settings of its file; `like` takes them for another array."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import ChecksumMismatch, FileChangedError
from bloscpack.format.rounding import ATTRIBUTE

from ..arrayfiles import saved

ROWS = np.random.default_rng(1).integers(0, 99, (60, 40)).astype("f4")
SETTINGS: dict[str, dict[str, Any]] = {
    "rows": {"chunks": 7, "codec": "lz4", "shuffle": "none", "checksum": "xxh3_64"},
    "grid": {"chunks": (8, 16), "codec": "auto", "access": "series", "checksum": None},
    "rounded": {"keepbits": 6, "codec": "zlib", "clevel": 9, "attrs": {"unit": "K"}},
    "bits": {"shuffle": "bit", "codec": "blosclz", "attrs": {"dims": ["y", "x"]}},
    "default": {},
}


def settings_of(array: bp.Array) -> dict[str, Any]:
    container = array.container
    stored = {name: container.metadata.get(name) for name in ("access", "keepbits", "chunks")}
    shuffle = container.fetch(0).header.shuffle
    return {
        **stored,
        **{name: getattr(array, name) for name in ("codec", "checksum", "attrs", "is_fortran")},
        "shuffle": shuffle if array.codec != "auto" else None,
        "rows": container.chunk_size // (array.nbytes // array.shape[array.is_fortran - 1]),
    }


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", SETTINGS)
class TestSettings:
    def test_a_handle_is_copied_as_it_is(self, name: str, order: Any) -> None:
        data = saved(np.asarray(ROWS, order=order), **SETTINGS[name])
        with bp.open(data) as array:
            assert saved(array) == data

    def test_what_is_given_replaces_one_setting(self, name: str, order: Any) -> None:
        data = saved(np.asarray(ROWS, order=order), **SETTINGS[name])
        with bp.open(data) as array, bp.open(saved(array, checksum="sha256")) as copy:
            assert copy.checksum == "sha256"
            assert settings_of(copy) == {**settings_of(array), "checksum": "sha256"}
            assert np.array_equal(copy[...], array[...])

    def test_another_array_takes_them(self, name: str, order: Any) -> None:
        data = saved(np.asarray(ROWS, order=order), **SETTINGS[name])
        with bp.open(data) as array:
            other = np.asarray(array[...] + 1, order=order)
            with bp.open(saved(other, like=array)) as copy:
                assert settings_of(copy) == settings_of(array)
                assert copy[3, 5] == array[3, 5] + 1


def test_the_default_of_an_option_can_be_given() -> None:
    data = saved(ROWS, codec="lz4", shuffle="none", checksum=None, attrs={"a": 1})
    with bp.open(data) as array:
        given: dict[str, Any] = {"codec": "zstd", "shuffle": "auto", "checksum": "crc32"}
        assert saved(array, attrs={}, **given) == saved(ROWS)
        with bp.open(saved(array, attrs={"b": 2})) as copy:
            assert copy.attrs == {"b": 2}
            assert copy.codec == "lz4"


def test_attrs_of_another_rounding_are_left_out() -> None:
    with bp.open(saved(ROWS, keepbits=9)) as array, bp.open(saved(array, keepbits=4)) as copy:
        assert copy.attrs == {ATTRIBUTE: 4}


def test_settings_of_small_and_scalar_arrays_suit_others() -> None:
    with bp.open(saved(ROWS[:2], codec="lz4")) as small:
        large = np.zeros((1000, 1000))
        with bp.open(saved(large, like=small)) as array:
            assert (array.codec, array.chunks) == ("lz4", (131, 1000))
        assert bp.load(saved(np.float32(5), like=small)) == 5
    with bp.open(saved(ROWS, chunks=5)) as rows, bp.open(saved(ROWS[:, :9], like=rows)) as array:
        assert array.chunks == (5, 9)


def test_labels_are_only_for_arrays_that_they_fit() -> None:
    labels = {"dims": ["y", "x"], "coords": {"y": [*range(60)]}}
    with bp.open(saved(ROWS, attrs=labels)) as array:
        for other in (ROWS[:7], ROWS[0]):
            with pytest.raises(ValueError, match=r"labels of like do not fit .*; give attrs"):
                saved(other, like=array)
            with bp.open(saved(other, like=array, attrs={"a": 1})) as copy:
                assert copy.attrs == {"a": 1}
        with bp.open(saved(ROWS[:, :7], like=array)) as copy:
            assert copy.attrs == labels


def test_a_growing_array_keeps_them(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", ROWS, chunks=7, codec="lz4", attrs={"unit": "K"})
    with bp.open(tmp_path / "a.blp", "a") as array:
        array.append(ROWS[:3])
        bp.save(tmp_path / "b.blp", array)
        bp.savez(tmp_path / "c.blp", x=array)
    for copy in (bp.open(tmp_path / "b.blp"), bp.open(tmp_path / "c.blp")["x"]):
        assert (copy.shape, copy.chunks, copy.codec) == ((63, 40), (7, 40), "lz4")
        assert copy.attrs == {"unit": "K"}


def test_options_of_an_archive_apply_to_handles() -> None:
    stream = io.BytesIO()
    with bp.open(saved(ROWS, chunks=7, attrs={"unit": "K"})) as array:
        bp.savez(stream, {"x": array, "y": np.float32(1)}, codec="lz4", chunks=3)
    with bp.open(stream.getvalue()) as archive:
        assert (archive["x"].codec, archive["x"].chunks) == ("lz4", (3, 40))
        assert archive["x"].attrs == {"unit": "K"}


@pytest.mark.parametrize("function", [bp.save, bp.savez])
def test_a_damaged_or_changed_file_is_not_copied(function: Any, tmp_path: Path) -> None:
    data = bytearray(saved(ROWS, chunks=7))
    with bp.open(bytes(data)) as array:
        data[array.chunk_offset(3) + 40] ^= 1
    with bp.open(bytes(data)) as array:
        for options in ({}, {"codec": "lz4"}):
            with pytest.raises(ChecksumMismatch, match="chunk 3"):
                function(tmp_path / "b.blp", array, **options)
    bp.save(tmp_path / "a.blp", ROWS)
    with bp.open(tmp_path / "a.blp") as array:
        with bp.open(tmp_path / "a.blp", "a") as grown:
            grown.append(ROWS)
        with pytest.raises(FileChangedError, match="reopen"):
            function(tmp_path / "b.blp", array)
    assert not (tmp_path / "b.blp").exists()


def test_a_handle_replaces_its_own_file(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", ROWS, attrs={"unit": "K"})
    before = (tmp_path / "a.blp").read_bytes()
    done: list[tuple[int, int]] = []
    with bp.open(tmp_path / "a.blp") as array:
        bp.save(tmp_path / "a.blp", array, progress=lambda *step: done.append(step))
    assert (tmp_path / "a.blp").read_bytes() == before
    assert done == [(ROWS.nbytes, ROWS.nbytes)]


def test_attributes_of_handles() -> None:
    with bp.open(saved(ROWS, codec="lz4hc", clevel=4)) as array:
        assert (array.codec, array.clevel, array.checksum) == ("lz4", None, "crc32")
    with bp.open(saved(np.zeros(0), codec="auto", checksum=None)) as array:
        assert (array.codec, array.checksum) == ("auto", None)
    with pytest.raises(ValueError, match="closed"):
        _ = array.codec
    with pytest.raises(TypeError, match=r"like must be an open bloscpack\.Array, not 'str'"):
        saved(ROWS, like="a.blp")


def test_attrs_of_a_dataset_an_archive_and_a_group_are_kept(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    dataset = xr.Dataset({"t": ("x", [1.5])}, attrs={"title": "run", "level": np.int16(3)})
    bp.savez(tmp_path / "a.blp", dataset, attrs={"title": "mine"})
    with bp.open(tmp_path / "a.blp") as archive:
        assert archive.attrs == {"title": "mine", "level": 3}
        bp.savez(tmp_path / "b.blp", archive, more=ROWS)
    with bp.open(tmp_path / "b.blp") as copy:
        assert copy.attrs == {"title": "mine", "level": 3}
        assert list(copy) == ["t", "more"]


def test_a_coordinate_of_no_variable_that_is_not_stored_is_refused(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    text = np.array(["a\0", "b"], object)
    dataset = xr.Dataset({"t": ("x", [1.5])}, coords={"y": text})
    with pytest.raises(TypeError, match=r"coords\['y'\] would not be read back equal"):
        bp.savez(tmp_path / "a.blp", dataset)
    assert not (tmp_path / "a.blp").exists()


def test_attrs_of_hdf5_are_kept(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["title"] = "run"
        file["x"] = ROWS
        file["x"].attrs["units"] = "K"
        file["x"].attrs["place"] = file["x"].ref
        with pytest.warns(bp.exceptions.BloscpackWarning, match="attribute 'place' is left out"):
            bp.save(tmp_path / "a.blp", file["x"])
        with pytest.warns(bp.exceptions.BloscpackWarning, match="attribute 'place' is left out"):
            bp.savez(tmp_path / "b.blp", file)
    assert bp.open(tmp_path / "a.blp").attrs == {"units": "K"}
    with bp.open(tmp_path / "b.blp") as archive:
        assert (archive.attrs, archive["x"].attrs) == ({"title": "run"}, {"units": "K"})


def test_attrs_of_zarr_are_kept(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array({}, data=ROWS, attributes={"units": "K"})
    bp.save(tmp_path / "a.blp", array)
    assert bp.open(tmp_path / "a.blp").attrs == {"units": "K"}
    group = zarr.group(attributes={"title": "run"})
    group.create_array("x", data=ROWS)
    bp.savez(tmp_path / "z.blp", group)
    with bp.open(tmp_path / "z.blp") as archive:
        assert (archive.attrs, archive["x"].attrs) == ({"title": "run"}, {})
        assert np.array_equal(archive["x"][...], ROWS)


def test_dask_arrays_of_files_keep_their_attrs(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    from bloscpack.integrations import dask

    bp.save(tmp_path / "a.blp", ROWS, attrs={"unit": "K"})
    lazy = dask.from_bloscpack(tmp_path / "a.blp")
    dask.save(lazy, tmp_path / "b.blp")
    bp.save(tmp_path / "c.blp", lazy, attrs={"more": 1})
    bp.savez(tmp_path / "d.blp", x=lazy)
    dask.save(xr.DataArray(lazy, dims=("y", "x"), attrs={"unit": "K"}), tmp_path / "e.blp")
    assert bp.open(tmp_path / "b.blp").attrs == {"unit": "K"}
    assert bp.open(tmp_path / "c.blp").attrs == {"unit": "K", "more": 1}
    assert bp.open(tmp_path / "d.blp")["x"].attrs == {"unit": "K"}
    assert bp.open(tmp_path / "e.blp").attrs["dims"] == ["y", "x"]


def test_labels_of_numbers_are_left_out_with_a_warning(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    labels = h5py.enum_dtype({"RED": 0, "GREEN": 1}, "i1")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (3,), labels)
        file.create_dataset("y", (3,), [("colour", labels)])
        for name in "xy":
            with pytest.warns(bp.exceptions.BloscpackWarning, match="'RED'.* are left out"):
                bp.save(tmp_path / "a.blp", file[name])


def test_names_of_the_axes_of_zarr_are_kept(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    names = ["t", "x"]
    array = zarr.create_array({}, shape=(3, 4), dtype="i4", dimension_names=names)
    bp.save(tmp_path / "a.blp", array)
    assert bp.open(tmp_path / "a.blp").dims == ("t", "x")
    array = zarr.create_array({}, shape=(3, 4), dtype="i4", dimension_names=["t", None])
    with pytest.warns(bp.exceptions.BloscpackWarning, match="of some axes are left out"):
        bp.save(tmp_path / "a.blp", array)
