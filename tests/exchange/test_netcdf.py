"""Arrays copied to and from netCDF files, which xarray writes and reads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, FormatError, UnsupportedError
from bloscpack.filetypes import arraysource

from ..strategies import SCALARS, fill
from .conversions import (
    LABELS,
    assert_differences_are_found,
    assert_interrupted_run_leaves_nothing,
    assert_same,
    assert_same_labelled,
)

xr: Any = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("scipy")

ATTRS: dict[str, Any] = {
    "unit": "K",
    "count": 3,
    "ratio": 0.5,
    "yes": True,
    "none": None,
    "nested": {"a": [1]},
    "scale_factor": 0.5,
    "_FillValue": 3,
    "units": "days since 2000-01-01",
    "missing_value": 1,
    "list": [1, 2],
    "single": [1],
    "nan": [np.nan, -0.0],
    "text": "a\0b",
    "dtype": "bool",
    "odd name": 1,
    "coordinates": "x y",
}


@pytest.mark.parametrize("dtype", SCALARS)
def test_any_items(dtype: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arraysource, "PART_NBYTES", 1000)
    array = fill(np.dtype(dtype), (5, 21, 13), 1)
    bp.save(tmp_path / "a.blp", array, attrs=ATTRS, chunks=(2, 10, 13))
    try:
        assert bp.convert(tmp_path / "a.blp", tmp_path / "a.nc").kind == "netcdf"
    except UnsupportedError:
        assert array.dtype.kind not in "biuf" or array.itemsize in (2, 16)
        return
    native = array.astype(array.dtype.newbyteorder("="))
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf", decode_cf=False) as found:
        assert_same(found["data"].values, native)
        assert found["data"].attrs["scale_factor"] == 0.5
    bp.convert(tmp_path / "a.nc", tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as a:
        assert_same(a[...], native)
        attrs = dict(a.attrs)
        assert str(attrs.pop("nan")) == "[nan, -0.0]"
        assert attrs == {key: value for key, value in ATTRS.items() if key != "nan"}
        assert a.chunks == (2, 10, 13)


def test_labels(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(24.0).reshape(2, 3, 4), attrs=LABELS | {"unit": "K"})
    bp.convert(tmp_path / "a.blp", tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as found:
        assert_same_labelled(found["temperature"], xr.open_dataarray(tmp_path / "a.blp"))
    bp.convert(tmp_path / "a.nc", tmp_path / "b.blp")
    with xr.open_dataarray(tmp_path / "b.blp") as found:
        assert_same_labelled(found, xr.open_dataarray(tmp_path / "a.blp"))


def test_coordinates_are_listed_in_the_file_only(tmp_path: Path) -> None:
    labels = {"dims": ["y", "x"], "coords": {"height": {"dims": ["y", "x"], "data": [[1], [2]]}}}
    bp.save(tmp_path / "a.blp", np.zeros((2, 1)), attrs=labels)
    bp.convert(tmp_path / "a.blp", tmp_path / "a.nc")
    bp.convert(tmp_path / "a.nc", tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as b:
        assert (*b.attrs["coords"], "coordinates" in b.attrs) == ("height", False)


@pytest.fixture
def dataset() -> Any:
    pandas = pytest.importorskip("pandas")
    air = xr.DataArray(
        np.array([[260.5, np.nan, 270.0]] * 4),
        dims=("time", "x"),
        coords={"time": pandas.date_range("2026-01-01", periods=4, freq="h"), "x": [1, 2, 3]},
        attrs={"units": "K"},
    )
    return xr.Dataset({"air": air, "flag": ("x", np.array([1, 0, 1], "i1"))})


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_a_file_of_xarray(engine: str, dataset: Any, tmp_path: Path) -> None:
    """Packed as int16, as much climate data are."""
    packed = {"dtype": "int16", "scale_factor": 0.5, "add_offset": 200.0, "_FillValue": -1}
    dataset.to_netcdf(tmp_path / "a.nc", engine=engine, encoding={"air": packed})
    with pytest.raises(ValueError, match=r"2 arrays; name one, such as .*a\.nc::/air': air, flag"):
        bp.convert(tmp_path / "a.nc", tmp_path / "a.npy")
    bp.convert(f"{tmp_path}/a.nc::/air", tmp_path / "a.blp")
    expected = xr.load_dataset(tmp_path / "a.nc", engine=engine)
    with xr.open_dataarray(tmp_path / "a.blp") as found:
        assert_same_labelled(found, expected["air"])
    bp.convert(f"{tmp_path}/a.nc::/flag", tmp_path / "flag.npy", to="array")


def test_groups(dataset: Any, tmp_path: Path) -> None:
    dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", group="run/one")
    bp.convert(f"{tmp_path}/a.nc::/run/one/flag", f"{tmp_path}/b.nc::/x/y")
    with xr.open_dataset(tmp_path / "b.nc", engine="h5netcdf", group="x") as found:
        assert found["y"].values.tolist() == [1, 0, 1]


def test_no_trace_of_a_copy_that_fails(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arraysource, "PART_NBYTES", 1000)
    bp.save(tmp_path / "a.blp", np.arange(1000), chunks=100)
    assert_interrupted_run_leaves_nothing(tmp_path / "a.blp", "b.nc", monkeypatch)
    assert_differences_are_found(tmp_path / "a.blp", "b.nc", monkeypatch)


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_truncated(engine: str, dataset: Any, tmp_path: Path) -> None:
    dataset[["air"]].to_netcdf(tmp_path / "a.nc", engine=engine)
    content = (tmp_path / "a.nc").read_bytes()
    for nbytes in (8, 30, len(content) // 2, len(content) - 20):
        (tmp_path / "b.nc").write_bytes(content[:nbytes])
        with pytest.raises((FormatError, BloscpackError)):
            bp.convert(tmp_path / "b.nc", tmp_path / "b.blp")


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_coordinates_of_timedelta(name: str, tmp_path: Path) -> None:
    coders = pytest.importorskip("xarray.coders")
    if not hasattr(coders, "CFTimedeltaCoder"):
        pytest.skip("this xarray does not store the type of timedeltas")
    pytest.importorskip("zarr")
    hours = np.array([1, 2, 3], "m8[h]").astype("m8[ns]")
    series = xr.DataArray([1.0, 2, 3], dims="x", coords={"x": hours}, name="v")
    bp.save(tmp_path / "a.blp", series)
    bp.convert(tmp_path / "a.blp", tmp_path / name)
    options: Any = {"engine": "h5netcdf"} if name == "a.nc" else {"consolidated": False}
    bp.convert(tmp_path / name, tmp_path / "b.blp")
    for found in (
        xr.open_dataset(tmp_path / name, **options)["v"],
        xr.open_dataarray(tmp_path / "b.blp"),
    ):
        assert found.x.dtype.kind == "m"
        assert np.array_equal(found.x, hours)
        found.close()


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "3.zarr", "2.zarr"])
@pytest.mark.parametrize("units", ["K", "days since 2000-01-01", "hours"])
def test_decoded_items_are_not_decoded_again(name: str, units: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    attrs = {"units": units, "scale_factor": 0.5, "_FillValue": 2.0, "bloscpack": {"a": 1}}
    bp.save(tmp_path / "a.blp", xr.DataArray([1.0, 2, 3], dims="x", name="v", attrs=attrs))
    bp.convert(tmp_path / "a.blp", tmp_path / name, to="zarr2" if name == "2.zarr" else None)
    engine: Any = {"engine": "zarr", "consolidated": False} if "zarr" in name else {}
    with xr.open_dataset(tmp_path / name, **engine) as found:
        assert found["v"].values.tolist() == [1, 2, 3]
    bp.convert(tmp_path / name, tmp_path / "b.blp", strict=True)
    assert bp.open(tmp_path / "b.blp").attrs == bp.open(tmp_path / "a.blp").attrs


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "a.zarr"])
def test_decoded_coordinates_are_not_scaled_again(name: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    coords = {"x": ("x", [1.0, 2], {"add_offset": 5.0})}
    bp.save(tmp_path / "a.blp", xr.DataArray([1, 2], coords, "x", "v"))
    assert bp.convert(tmp_path / "a.blp", tmp_path / name).left_out == ()
    if name != "a.h5":
        engine: Any = {"engine": "zarr", "consolidated": False} if "zarr" in name else {}
        with xr.open_dataset(tmp_path / name, **engine) as found:
            assert found["x"].values.tolist() == [1, 2]
    bp.convert(tmp_path / name, tmp_path / "b.blp")
    assert bp.open(tmp_path / "b.blp").attrs == bp.open(tmp_path / "a.blp").attrs


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "3.zarr", "2.zarr"])
@pytest.mark.parametrize("dtype", ["i4", "f4", "?", "S1", "U3"])
@pytest.mark.parametrize("shape", [(0,), (0, 2), (1,), (1, 1), (2, 2), ()])
def test_types_of_odd_fill_values(name: str, dtype: str, shape: Any, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    fill = np.ones(shape).tolist()
    attrs: dict[str, Any] = {
        "_FillValue": fill,
        "valid_max": 1,
        "_types": {"_FillValue": "<f8", "valid_max": "<i2"},
    }
    coord = {"dims": ["x"], "data": [1, 2], "dtype": "<i4", "attrs": {"valid_range": fill}}
    attrs |= {"name": "v", "dims": ["x"], "coords": {"x": coord}}
    bp.save(tmp_path / "a.blp", np.zeros(2, dtype), attrs=attrs)
    to = "zarr2" if name == "2.zarr" else None
    bp.convert(tmp_path / "a.blp", tmp_path / name, to=to)
    bp.convert(tmp_path / name, tmp_path / "b.blp", strict=True)
    with bp.open(tmp_path / "b.blp") as found:
        for key in ("_FillValue", "valid_max", "_types"):
            assert found.attrs[key] == attrs[key]


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "3.zarr", "2.zarr"])
def test_attributes_of_coordinates_of_another_type(name: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    x = xr.Variable("x", np.array([1, 2], "i4"), {"valid_min": 0.0})
    y = xr.Variable("x", np.array([1, 2], "f4"), {"valid_min": 0, "valid_max": 0.1})
    bp.save(tmp_path / "a.blp", xr.DataArray([1, 2], {"x": x, "y": y}, "x", "v"))
    to = "zarr2" if name == "2.zarr" else None
    with pytest.warns(bp.exceptions.BloscpackWarning):
        done = bp.convert(tmp_path / "a.blp", tmp_path / name, to=to)
    listed = "digits of attribute 'valid_max' of coordinates 'y' of the array, beyond its items'"
    assert done.left_out == (listed,)
    bp.convert(tmp_path / name, tmp_path / "b.blp", strict=True)
    with bp.open(tmp_path / "b.blp") as found:
        coords = found.attrs["coords"]
        assert (coords["x"]["attrs"]["valid_min"], coords["y"]["attrs"]["valid_min"]) == (0, 0)


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "3.zarr", "2.zarr"])
def test_attributes_of_times_and_of_the_type_of_items(name: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    time = np.array(["2020-01-01", "2020-01-02"], "M8[ns]")
    array = xr.DataArray([1.0, 2], dims="t", coords={"t": ("t", time, {"axis": "T"})}, name="v")
    bp.save(tmp_path / "a.blp", array, attrs={"_FillValue": 1, "valid_min": 0})
    to = "zarr2" if name == "2.zarr" else None
    bp.convert(tmp_path / "a.blp", tmp_path / name, to=to, strict=True)
    bp.convert(tmp_path / name, tmp_path / "b.blp", strict=True)
    with bp.open(tmp_path / "b.blp") as found:
        assert found.attrs["coords"]["t"]["attrs"]["axis"] == "T"
        assert (found.attrs["_FillValue"], found.attrs["valid_min"]) == (1, 0)


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "3.zarr", "2.zarr"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_xarray_masks_and_scales_a_copy(name: str, dtype: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    attrs = {"name": "v", "dims": ["x"], "_FillValue": 2, "scale_factor": 0.5, "add_offset": 1}
    bp.save(tmp_path / "a.blp", np.array([1, 2, 3], dtype), attrs=attrs)
    bp.convert(tmp_path / "a.blp", tmp_path / name, to="zarr2" if name == "2.zarr" else None)
    engine: Any = {"engine": "zarr", "consolidated": False} if "zarr" in name else {}
    with xr.open_dataset(tmp_path / name, **engine) as found:
        values = found[next(iter(found))].values
        assert np.array_equal(values, [1.5, np.nan, 2.5], equal_nan=True)


def test_a_variable_that_is_shorter_than_its_own_unlimited_axis(tmp_path: Path) -> None:
    h5netcdf: Any = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions["t"] = None
        file.create_variable("v", ("t",), "i2", fillvalue=-1)
        file.create_variable("t", ("t",), "f4", fillvalue=-9)
        file.resize_dimension("t", 3)
        file["v"][...] = [1, 2, 3]
    h5py: Any = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.nc", "r+") as file:
        file["t"].resize((1,))  # as the library of netCDF leaves a variable that was not written
        file["t"][...] = 5
    assert bp.convert(tmp_path / "a.nc", tmp_path / "a.blp", to="archive").left_out == ()
    with xr.open_dataset(tmp_path / "a.blp", decode_cf=False) as found:
        assert found["t"].values.tolist() == [5, -9, -9]
        assert found["v"].values.tolist() == [1, 2, 3]
    assert bp.convert(tmp_path / "a.blp", tmp_path / "b.nc").left_out == ()
    with h5netcdf.File(tmp_path / "b.nc") as file:
        assert file.dimensions["t"].isunlimited()


def test_unlimited_axes_of_a_group_above(tmp_path: Path) -> None:
    h5netcdf: Any = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions["t"] = None
        file.dimensions["u"] = None
        group = file.create_group("g")
        group.dimensions["u"] = 4  # and no longer the one above
        shapes = {"v": (3,), "z": (2,), "g/w": (3, 4)}
        for name, dims in {"v": ("t",), "z": ("u",), "g/w": ("t", "u")}.items():
            file.create_variable(name, dims, "i2")
        file.resize_dimension("t", 3)
        file.resize_dimension("u", 2)
        for name, shape in shapes.items():
            file[name][...] = np.ones(shape, "i2")
    assert bp.convert(tmp_path / "a.nc", tmp_path / "a.blp").left_out == ()
    assert bp.convert(tmp_path / "a.blp", tmp_path / "b.nc").left_out == ()
    with h5netcdf.File(tmp_path / "b.nc") as file:
        assert file.dimensions["t"].isunlimited()
        assert file.dimensions["u"].isunlimited()
        assert {*file["g"].dimensions} == {"u"}
        assert not file["g"].dimensions["u"].isunlimited()


def test_coordinates_of_a_group_above(tmp_path: Path) -> None:
    h5netcdf: Any = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        sizes = {"x": 3, "n": 2}
        for name, size in sizes.items():
            file.dimensions[name] = size
        dims = {"a/v": ("x", "n"), "x": ("x",), "n": ("n",), "v": ("n",), "a/b/w": ("x",)}
        for name, each in dims.items():
            shape = [sizes[dim] for dim in each]
            file.create_variable(name, each, data=np.arange(np.prod(shape)).reshape(shape))
        file["x"].attrs["units"] = "m"
    expected = xr.open_groups(tmp_path / "a.nc", engine="h5netcdf")
    source = tmp_path / "a.nc"
    for name in ("a.blp", "b.nc", "b.blp", "c.h5", "c.blp", "d.zarr", "d.blp", "e.nc"):
        assert bp.convert(source, tmp_path / name).left_out == ()
        source = tmp_path / name
        if name[-1] == "p":
            with xr.open_dataset(source, engine="bloscpack", group="/a/b") as found:
                xr.testing.assert_identical(found, expected["/a/b"])
    found = xr.open_groups(source, engine="h5netcdf")
    assert found.keys() == expected.keys()
    for group, each in found.items():
        xr.testing.assert_identical(each, expected[group])
    with h5netcdf.File(source) as file:  # one dimension for all
        assert {*file.dimensions} == {"x", "n"}
        assert not file["a"].dimensions
        assert not file["a/b"].dimensions
    bp.convert(f"{source}::/a/v", tmp_path / "alone.blp")
    with bp.open(tmp_path / "alone.blp") as array:
        assert {*array.coords} == {"x", "n"}


@pytest.mark.parametrize("length", [3, 4])
@pytest.mark.parametrize("group", ["g", "z"])  # copied before the arrays above, and after them
def test_a_group_of_zarr_with_the_axis_of_one_above(
    length: int, group: str, tmp_path: Path
) -> None:
    zarr: Any = pytest.importorskip("zarr")
    root = zarr.create_group(tmp_path / "a.zarr")
    for name, size in {"t": 3, "v": 3, f"{group}/v": length}.items():
        array = root.create_array(name, shape=(size,), dtype="i2", dimension_names=["t"])
        array[...] = np.arange(size)
    bp.convert(tmp_path / "a.zarr", tmp_path / "a.nc", strict=True)
    bp.convert(tmp_path / "a.zarr", tmp_path / "a.h5", strict=True)
    bp.convert(tmp_path / "a.nc", tmp_path / "b.zarr", strict=True)
    found = zarr.open_group(tmp_path / "b.zarr")
    assert {*found.array_keys()} == {"t", "v"}
    assert {*found[group].array_keys()} == {"v"}
    assert found[f"{group}/v"].metadata.dimension_names == ("t",)


@pytest.mark.parametrize("listed", ["x", "x lat", "lat  x", "lat"])
def test_the_list_of_coordinates_stays_as_it_is(listed: str, tmp_path: Path) -> None:
    h5netcdf: Any = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions["x"] = 2
        for name in ("x", "lat", "v"):
            file.create_variable(name, ("x",), "i2", data=[1, 2])
        file["v"].attrs["coordinates"] = listed
    with xr.open_dataset(tmp_path / "a.nc") as source:
        assert bp.convert(tmp_path / "a.nc", tmp_path / "a.blp").left_out == ()
        with xr.open_dataset(tmp_path / "a.blp") as found:
            xr.testing.assert_identical(found, source)
    bp.convert(tmp_path / "a.blp", tmp_path / "b.nc", strict=True)
    with h5netcdf.File(tmp_path / "b.nc") as file:
        assert file["v"].attrs["coordinates"] == listed


def test_an_axis_with_characters_is_not_left_out(tmp_path: Path) -> None:
    h5netcdf: Any = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions["x"] = 2
        file.create_variable("x", ("x",), "S1", data=np.array([b"a", b"b"]))
        file.create_variable("v", ("x",), "i2", data=[1, 2])
    assert bp.convert(tmp_path / "a.nc", tmp_path / "a.blp").left_out == ()
    bp.convert(tmp_path / "a.blp", tmp_path / "b.nc", strict=True)
    with h5netcdf.File(tmp_path / "b.nc") as file:
        assert file["x"][...].tolist() == [b"a", b"b"]
        assert file["v"].dimensions == ("x",)


def test_booleans_that_are_neither_true_nor_false(tmp_path: Path) -> None:
    h5netcdf: Any = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions["x"] = 2
        file.create_variable("v", ("x",), "i1", data=[1, 2]).attrs["dtype"] = "bool"
    with pytest.raises(FormatError, match="are neither 0 nor 1"):
        bp.convert(tmp_path / "a.nc", tmp_path / "a.blp")


def test_types_of_attributes(tmp_path: Path) -> None:
    h5netcdf: Any = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions["x"] = 2
        for name in ("x", "v"):
            variable = file.create_variable(name, ("x",), "f8", data=[1, 2])
            variable.attrs.update({"valid_min": np.float32(0.1), "scale_factor": np.float32(3)})
    bp.convert(tmp_path / "a.nc", tmp_path / "a.blp", strict=True)
    bp.convert(tmp_path / "a.blp", tmp_path / "b.nc", strict=True)
    with h5netcdf.File(tmp_path / "b.nc") as file:
        for name in ("x", "v"):
            for key in ("valid_min", "scale_factor"):
                assert file[name].attrs[key].dtype == np.float32


def test_text_in_another_encoding(tmp_path: Path) -> None:
    scipy_io: Any = pytest.importorskip("scipy.io")
    with scipy_io.netcdf_file(tmp_path / "a.nc", "w") as file:
        file.note = b"caf\xe9"
        for name in "ab":
            file.createDimension(name, 1)
            file.createVariable(name, "i4", (name,))
    bp.convert(tmp_path / "a.nc", tmp_path / "a.blp", strict=True)
    assert bp.Archive(tmp_path / "a.blp").attrs["note"] == "caf\udce9"


ODD: list[tuple[str, Any]] = [
    *((key, value) for key in ("_FillValue", "scale_factor") for value in (2.5, np.nan, 1 << 63)),
    *(("_ARRAY_DIMENSIONS", ["a"]), ("coordinates", ""), ("flags", [True, False])),
    *(("_types", "mine"), ("_decoded", 1), ("_FillValue", -0.0), ("_FillValue", "K")),
]


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "3.zarr", "2.zarr"])
def test_odd_attributes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    for number, (key, value) in enumerate(ODD):
        attrs = {"dims": [f"x{number}"], key: value}
        bp.save(tmp_path / f"{number}.blp", np.arange(2, dtype="i2"), attrs=attrs)
    bp.savez(tmp_path / "a.blp", {f"v{k}": bp.open(tmp_path / f"{k}.blp") for k in range(len(ODD))})
    to = "zarr2" if name == "2.zarr" else None
    bp.convert(tmp_path / "a.blp", tmp_path / name, to=to, strict=True)
    bp.convert(tmp_path / name, tmp_path / "b.blp", strict=True)
    with bp.Archive(tmp_path / "b.blp") as found:
        for number, (key, value) in enumerate(ODD):
            kept = found[f"v{number}"].attrs[key]
            assert str(kept) == str(value) or kept == value


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
def test_times_become_numbers(unit: str, tmp_path: Path) -> None:
    times = np.array(["2020-01-01", "NaT", "1969-12-31"], f"M8[{unit}]").reshape(3, 1)
    items = {"time": times, "lag": np.array([1, -2, 3], f"m8[{unit}]"), "one": times[0, 0]}
    bp.savez(tmp_path / "a.blp", items)
    for source, copy in (("a.blp", "a.nc"), ("a.nc", "b.blp"), ("b.blp", "b.nc")):
        assert bp.convert(tmp_path / source, tmp_path / copy).left_out == ()
    for name in ("a.nc", "b.nc"):
        with xr.open_dataset(tmp_path / name, decode_timedelta=True) as found:
            for key, value in items.items():
                assert np.array_equal(found[key].values, value, equal_nan=True)
