"""Datasets in netCDF files, copied to archives, Zarr and HDF5 and back: identical for xarray."""

import importlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

xr = pytest.importorskip("xarray")
h5netcdf = pytest.importorskip("h5netcdf")
pytest.importorskip("scipy")
pytest.importorskip("zarr")
RNG = np.random.default_rng(3)
TIMES = np.datetime64("2000-01-01", "ns") + np.arange(40) * np.timedelta64(1, "D")
IRREGULAR = TIMES[0] + np.cumsum(RNG.integers(1, 10**12, 3000)).astype("m8[ns]")


def climate() -> Any:
    """Return variables with all that the CF conventions let them refer to."""
    shape, dims = (40, 5, 8), ("time", "lat", "lon")
    dataset = xr.Dataset(
        {
            "t2m": (dims, RNG.normal(280, 5, shape), {"units": "K", "cell_methods": "time: mean"}),
            "qc": (dims, RNG.integers(0, 3, shape).astype("i1")),
            "time_bnds": (("time", "nv"), np.stack([TIMES, TIMES + np.timedelta64(1, "D")], 1)),
            "crs": ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"}),
        },
        coords={
            "time": ("time", TIMES, {"bounds": "time_bnds", "axis": "T"}),
            "lat": ("lat", np.linspace(-10, 10, 5).astype("f4"), {"units": "degrees_north"}),
            "lon": np.arange(0, 80, 10.0),
            "height": (("lat", "lon"), RNG.normal(size=(5, 8))),
            "level": 2.0,
        },
        attrs={"Conventions": "CF-1.8", "three": np.arange(3, dtype="i4"), "f": np.float32(0.1)},
    )
    dataset["qc"].attrs |= {"flag_values": np.arange(3, dtype="i1"), "flag_meanings": "a b c"}
    dataset["t2m"].attrs |= {"ancillary_variables": "qc", "grid_mapping": "crs"}
    return dataset


def text() -> Any:
    return xr.Dataset(
        {
            "v": (("station", "time"), RNG.normal(size=(3, 4))),
            "name": ("station", ["a", "größe", ""]),
        },
        coords={"code": ("station", ["x1", "x2", "x3"]), "time": TIMES[:4]},
    )


def long_axis() -> Any:
    data = {name: ("time", RNG.normal(size=3000)) for name in "ab"}
    return xr.Dataset(data, coords={"time": IRREGULAR, "other": ("time", RNG.normal(size=3000))})


PACKED: dict[str, Any] = {
    "dtype": "i2",
    "scale_factor": 0.01,
    "add_offset": 280.0,
    "_FillValue": -1,
}
UNSIGNED: dict[str, Any] = {"dtype": "i1", "_Unsigned": "true", "_FillValue": -1}
HOURS = {"units": "hours since 1900-01-01", "dtype": "i4", "calendar": "proleptic_gregorian"}
CASES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "climate": (climate, {"t2m": PACKED, "time": HOURS}),
    "text": (text, {}),
    "long axis": (long_axis, {}),
    "fill values": (
        lambda: xr.Dataset({"a": ("x", [1.0, np.nan]), "b": ("x", np.arange(2.0))}),
        {"a": {"_FillValue": -999.0}, "b": UNSIGNED},
    ),
    "scalars": (lambda: xr.Dataset({"a": 1.5, "b": np.int8(3)}, coords={"h": 2.0}), {}),
    "booleans": (
        lambda: xr.Dataset({"m": ("x", [True, False])}, coords={"k": ("x", [True, True])}),
        {},
    ),
    "lags": (lambda: xr.Dataset({"d": ("x", np.arange(3).astype("m8[h]").astype("m8[ns]"))}), {}),
    "coordinates alone": (
        lambda: xr.Dataset({"d": ("x", [1])}, coords={"z": ("k", [0.5]), "s": ("k", ["a"])}),
        {},
    ),
    "coordinates of no variable": (
        lambda: xr.Dataset(
            {"v": ("x", [1, 2, 3])},
            coords={"x": [1, 2, 3], "y": [0, 1], "lat": (("y", "x"), np.arange(6.0).reshape(2, 3))},
        ),
        {},
    ),
    "one variable": (lambda: xr.Dataset({"d": ("x", [1, 2])}, attrs={"title": "run"}), {}),
}


def opened(path: Path) -> Any:
    options: dict[str, Any] = {"engine": "h5netcdf"}
    if path.suffix == ".blp":
        options = {
            "engine": importlib.import_module("bloscpack.integrations.xarray").BloscpackBackend
        }
    elif path.suffix == ".zarr":
        options = {"engine": "zarr", "consolidated": False, "chunks": None}
    with xr.open_dataset(path, **options) as dataset:
        return dataset.load()


def round_trip(path: Path, expected: Any) -> None:
    """Copy a netCDF file through all other types."""
    for number, kind in enumerate(("blp", "nc", "blp", "zarr", "blp", "h5", "blp")):
        source, path = path, path.with_name(f"{number}.{kind}")
        result = bp.convert(source, path, to="archive" if kind == "blp" else None)
        assert result.left_out == (), (source, path)
        if kind != "h5":  # xarray reads netCDF alone
            xr.testing.assert_identical(opened(path), expected)


@pytest.mark.parametrize("case", CASES)
def test_a_dataset_comes_back_identical(case: str, tmp_path: Path) -> None:
    make, encoding = CASES[case]
    make().to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=encoding)
    round_trip(tmp_path / "a.nc", opened(tmp_path / "a.nc"))


def test_a_saved_dataset_comes_back_identical(tmp_path: Path) -> None:
    dataset = CASES["coordinates of no variable"][0]()
    bp.save(tmp_path / "a.blp", dataset)
    round_trip(tmp_path / "a.blp", dataset)


@pytest.mark.parametrize("count", [3, 3000])
def test_coordinates_of_bytes_that_are_not_text(count: int, tmp_path: Path) -> None:
    codes = np.array([b"\xff%d" % number for number in range(count)])
    dataset = xr.Dataset({"v": ("x", np.arange(count))}, coords={"x": codes})
    bp.save(tmp_path / "a.blp", dataset)
    bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", to="archive", strict=True)
    xr.testing.assert_identical(opened(tmp_path / "b.blp"), dataset)
    for name in ("a.nc", "a.h5", "a.zarr"):
        result = bp.convert(tmp_path / "b.blp", tmp_path / name)
        assert result.left_out == ("coordinates 'x' of 'v': bytes that are not ASCII",)
        bp.convert(tmp_path / name, tmp_path / "c.blp", to="archive", overwrite=True)
        found = opened(tmp_path / "c.blp")
        xr.testing.assert_identical(found, dataset.drop_vars("x"))
    with pytest.raises(bp.exceptions.UnsupportedError, match="only an archive can hold"):
        bp.convert(f"{tmp_path}/b.blp::/v", tmp_path / "d.blp")
    assert not (tmp_path / "d.blp").exists()
    with pytest.raises(TypeError, match="only an archive can hold"):
        bp.save(tmp_path / "d.blp", dataset["v"])


def test_coordinates_of_bytes_that_are_text(tmp_path: Path) -> None:
    dataset = xr.Dataset({"v": ("x", np.arange(2))}, coords={"x": [b"a", b"bc"]})
    bp.save(tmp_path / "a.blp", dataset)
    for name in ("a.nc", "a.zarr"):
        result = bp.convert(tmp_path / "a.blp", tmp_path / name)
        assert result.left_out == ("type of coordinates 'x' of 'v': bytes become text",)
        xr.testing.assert_identical(opened(tmp_path / name), dataset.assign_coords(x=["a", "bc"]))
    assert bp.convert(tmp_path / "a.blp", tmp_path / "a.h5").left_out == ()


def test_a_file_of_version_3(tmp_path: Path) -> None:
    climate().to_netcdf(tmp_path / "a.nc", engine="scipy", encoding={"t2m": PACKED, "time": HOURS})
    with xr.open_dataset(tmp_path / "a.nc", engine="scipy") as expected:
        round_trip(tmp_path / "a.nc", expected.load())


def test_unlimited_axes(tmp_path: Path) -> None:
    encoding: dict[str, Any] = {"t2m": PACKED, "time": HOURS}
    options: dict[str, Any] = {"encoding": encoding, "unlimited_dims": ["time", "nv"]}
    climate().to_netcdf(tmp_path / "a.nc", engine="h5netcdf", **options)
    names = ("a.nc", "0.blp", "1.zarr", "2.blp", "3.h5", "4.blp", "5.nc", "6.blp")
    for source, copy in pairwise(names):
        assert bp.convert(tmp_path / source, tmp_path / copy).left_out == ()
    expected = opened(tmp_path / "a.nc")
    for name in ("0.blp", "5.nc", "6.blp"):
        found = opened(tmp_path / name)
        xr.testing.assert_identical(found, expected)
        assert found.encoding["unlimited_dims"] == {"time", "nv"}
    bp.save(tmp_path / "b.blp", expected)
    assert opened(tmp_path / "b.blp").encoding["unlimited_dims"] == {"time", "nv"}
    alone = bp.convert(f"{tmp_path}/a.nc::/t2m", tmp_path / "c.blp")
    assert alone.left_out == ("unlimited length of dimension 'time'",)


def test_long_coordinates_are_never_lists(monkeypatch: Any, tmp_path: Path) -> None:
    axislabels = importlib.import_module("bloscpack.array.axislabels")
    listed = axislabels._listed

    def check(what: str, values: Any) -> Any:
        assert values.size < 1500
        return listed(what, values)

    long_axis().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    monkeypatch.setattr(axislabels, "_listed", check)
    names = ("a.nc", "a.blp", "b.blp", "b.zarr", "c.blp", "c.h5", "d.blp", "d.nc")
    for source, copy in pairwise(names):
        bp.convert(tmp_path / source, tmp_path / copy)
    xr.testing.assert_identical(opened(tmp_path / "d.nc"), opened(tmp_path / "a.nc"))


def test_items_stay_as_they_are_stored(tmp_path: Path) -> None:
    encoding = {"t2m": PACKED, "time": HOURS}
    climate().to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=encoding)
    bp.convert(tmp_path / "a.nc", tmp_path / "a.blp")
    with bp.open(tmp_path / "a.blp") as archive, h5netcdf.File(tmp_path / "a.nc") as file:
        assert archive["t2m"].dtype == "i2"
        assert np.array_equal(archive["t2m"][...], file["t2m"][...])
        assert archive["t2m"].attrs["scale_factor"] == 0.01
        assert archive["t2m"].dims == ("time", "lat", "lon")
        assert archive["t2m"].coords["time"].attrs["units"] == file["time"].attrs["units"]


def test_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    climate().to_netcdf(path, engine="h5netcdf", encoding={"time": HOURS})
    inner = xr.Dataset({"b": ("x", [1, 2])}, coords={"x": [3, 4]}, attrs={"of": "group"})
    inner.to_netcdf(path, group="sub/deep", mode="a", engine="h5netcdf")
    assert bp.convert(path, tmp_path / "a.blp").left_out == ()
    bp.convert(tmp_path / "a.blp", tmp_path / "b.nc")
    bp.convert(tmp_path / "b.nc", tmp_path / "b.blp")
    engine = importlib.import_module("bloscpack.integrations.xarray").BloscpackBackend
    for copy in (tmp_path / "a.blp", tmp_path / "b.blp"):
        with xr.open_dataset(copy, engine=engine, group="/") as found:
            xr.testing.assert_identical(found.load(), opened(path))
        with xr.open_dataset(copy, engine=engine, group="sub/deep") as found:
            xr.testing.assert_identical(found.load(), inner)


def test_characters_become_text_if_asked_for(tmp_path: Path) -> None:
    path, engine = tmp_path / "a.nc", importlib.import_module("bloscpack.integrations.xarray")
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"n": 2, "length": 3}
        file.create_variable("s", ("n", "length"), "S1")[...] = [
            [b"a", b"b", b"c"],
            [b"d", b"", b""],
        ]
        file.create_variable("v", ("n",), "f4")[...] = 1
    bp.convert(path, tmp_path / "a.blp")
    options = {"engine": engine.BloscpackBackend, "concat_characters": True}
    with xr.open_dataset(tmp_path / "a.blp", **options) as found:
        xr.testing.assert_identical(found.load(), opened(path))


def test_arrays_without_names_of_axes(tmp_path: Path) -> None:
    arrays = {"a": np.zeros((2, 3)), "b": np.arange(12).reshape(4, 3), "c": np.float32(3)}
    attrs = {"title": "x", "nested": {"q": [1, 2]}, "none": None}
    bp.savez(tmp_path / "a.blp", arrays, attrs=attrs)
    for kind in ("h5", "nc", "zarr"):
        assert bp.convert(tmp_path / "a.blp", tmp_path / f"a.{kind}").left_out == ()
        assert bp.convert(tmp_path / f"a.{kind}", tmp_path / f"{kind}.blp").left_out == ()
        with bp.open(tmp_path / f"{kind}.blp") as found:
            assert (list(found), found.attrs) == (list(arrays), attrs)
            for name, array in arrays.items():
                assert np.array_equal(found[name][...], array)
                assert found[name].attrs == {}
