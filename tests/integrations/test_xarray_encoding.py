"""Variables with an encoding: stored as by `to_netcdf`, or refused if items would change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackWarning

xr = pytest.importorskip("xarray")
h5netcdf = pytest.importorskip("h5netcdf")
pytestmark = pytest.mark.usefixtures("installed_engine")
RNG = np.random.default_rng(5)
TIMES = np.datetime64("2001-01-01", "ns") + np.arange(48) * np.timedelta64(1, "h")
PACKED: dict[str, Any] = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0}
FILL = {"_FillValue": -32767}
KEYS = ("dtype", "scale_factor", "add_offset", "_FillValue", "units", "calendar", "_Encoding")


def weather() -> Any:
    """Return a dataset with an encoding of each kind."""
    heat = RNG.integers(-3000, 3000, (48, 5)) * 0.01 + 280
    heat[3, 2] = np.nan
    dataset = xr.Dataset(
        {
            "heat": (("time", "x"), heat.astype("f4"), {"units": "K"}),
            "rain": (("time", "x"), RNG.normal(size=(48, 5)).astype("f4")),
            "count": ("time", np.arange(48)),
            "flag": ("x", [True, False, True, False, True]),
            "begin": ("x", TIMES[:5]),
            "lag": ("x", np.arange(5).astype("m8[s]").astype("m8[ns]")),
            "unsigned": ("x", np.array([1.0, 200, np.nan, 3, 4], "f4")),
            "word": ("x", ["a", "größe", "", "d", "e"]),
        },
        coords={
            "time": ("time", TIMES, {"long_name": "begin"}),
            "x": ("x", np.arange(5) * 0.5),
            "height": ("x", [1.0, 2.0, np.nan, 4.0, 5.0]),
            "unused": ("band", [0.5, 1.5]),
        },
        attrs={"title": "run"},
    )
    dataset["heat"].encoding = PACKED | FILL
    dataset["rain"].encoding = {"_FillValue": np.float32(-999), "dtype": "f4"}
    dataset["count"].encoding = {"dtype": "u1"}
    dataset["begin"].encoding = {"units": "minutes since 2000-01-01", "dtype": "f8"}
    dataset["lag"].encoding = {"units": "seconds", "dtype": "i4"}
    dataset["unsigned"].encoding = {"_Unsigned": "true", "dtype": "i1", "_FillValue": np.int8(-1)}
    dataset["word"].encoding = {"dtype": "S1"}
    dataset["time"].encoding = {"units": "hours since 1900-01-01", "dtype": "i4"}
    dataset["height"].encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": np.int16(-1)}
    dataset["unused"].encoding = {"dtype": "i2", "scale_factor": np.float32(0.5)} | FILL
    return dataset


def stored(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with xr.open_dataset(path, decode_cf=False) as dataset:
        return {name: each.values for name, each in dataset.variables.items()}


@pytest.mark.parametrize("is_lazy", [False, True])
def test_items_are_stored_as_in_netcdf(is_lazy: bool, tmp_path: Path) -> None:
    if is_lazy:
        pytest.importorskip("dask.array")
    dataset = weather()
    dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    chunked = dataset.chunk({"time": 10, "x": 2}) if is_lazy else dataset
    chunked["word"] = dataset["word"]
    bp.save(tmp_path / "a.blp", chunked)
    chunked.blp.save(tmp_path / "b.blp")
    bp.savez(tmp_path / "c.blp", chunked)
    expected, found = stored(tmp_path / "a.nc"), stored(tmp_path / "a.blp")
    for name in expected.keys() - {"flag"}:  # booleans are a type of ours
        assert found[name].dtype == expected[name].dtype, name
        assert found[name].tobytes() == expected[name].tobytes(), name
    assert found["heat"].dtype == "i2"
    assert found["time"].dtype == "i4"
    for name in ("b.blp", "c.blp"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "a.blp").read_bytes()
    with xr.open_dataset(tmp_path / "a.nc") as source, xr.open_dataset(tmp_path / "a.blp") as copy:
        xr.testing.assert_identical(copy.load(), source.load())
        for name in source.variables.keys() - {"flag"}:
            keys = [key for key in KEYS if not (key == "_FillValue" and _is_nan(source[name], key))]
            wanted, given = source[name].encoding, copy[name].encoding
            for key in keys:
                assert str(given.get(key)) == str(wanted.get(key)), (name, key)
        bp.save(tmp_path / "d.blp", copy)
    assert (tmp_path / "d.blp").read_bytes() == (tmp_path / "a.blp").read_bytes()


def _is_nan(array: Any, key: str) -> bool:
    """Return whether xarray has added the fill value."""
    value = array.encoding.get(key)
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def test_a_data_array(tmp_path: Path) -> None:
    heat = weather()["heat"]
    bp.save(tmp_path / "a.blp", heat)
    heat.blp.save(tmp_path / "b.blp")
    assert (tmp_path / "a.blp").read_bytes() == (tmp_path / "b.blp").read_bytes()
    with bp.open(tmp_path / "a.blp") as array:
        assert array.dtype == "i2"
        assert array.coords["time"].values.dtype == "i4"
        assert array.attrs["scale_factor"] == 0.01
    with xr.open_dataarray(tmp_path / "a.blp") as found:
        xr.testing.assert_allclose(found, heat, rtol=0, atol=1e-4)
        assert np.array_equal(found["time"], heat["time"])
        assert found.encoding["scale_factor"] == 0.01
    heat.drop_encoding().blp.save(tmp_path / "c.blp")
    with xr.open_dataarray(tmp_path / "c.blp") as found:
        xr.testing.assert_identical(found.load(), heat)


def test_encoded_coordinates_of_an_array_with_attrs_that_decode(tmp_path: Path) -> None:
    dataset = weather()
    dataset["raw"] = (
        "time",
        np.arange(48),
        {"scale_factor": 2.0, "units": "days since 2000-01-01"},
    )
    bp.save(tmp_path / "a.blp", dataset[["raw"]])
    with xr.open_dataset(tmp_path / "a.blp") as found:
        xr.testing.assert_identical(found.load(), dataset[["raw"]])
    for kind in ("nc", "zarr", "h5"):
        pytest.importorskip("zarr")
        bp.convert(tmp_path / "a.blp", tmp_path / f"a.{kind}")
        bp.convert(tmp_path / f"a.{kind}", tmp_path / f"{kind}.blp", to="archive")
        with xr.open_dataset(tmp_path / f"{kind}.blp") as found:
            xr.testing.assert_identical(found.load(), dataset[["raw"]])


LOST: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a number beyond the type": ([300.0, 1e6], PACKED | FILL, "1000000.0 becomes"),
    "an integer beyond the type": ([1, 300], {"dtype": "u1"}, "300 becomes 44"),
    "a negative number": ([1, -1], {"dtype": "u8"}, "-1 becomes"),
    "a large integer": ([2**60 + 1], {"dtype": "f8"}, "becomes"),
    "NaN without a fill value": ([300.0, np.nan], PACKED, "nan becomes"),
    "the fill value": ([1.0, -9.0], {"_FillValue": -9.0}, "-9.0 becomes nan"),
    "a float beyond the type": ([1e300], {"dtype": "f4"}, "1e\\+300 becomes inf"),
    "infinity": ([1.0, np.inf], {"dtype": "i4"}, "inf becomes"),
    "times that are too far": (
        TIMES[:3],
        {"units": "seconds since 1700-01-01", "dtype": "i4"},
        "'a' is not read back",
    ),
    "times as short floats": (
        TIMES[:3] + np.timedelta64(1, "s"),
        {"units": "days since 1900-01-01", "dtype": "f4"},
        "becomes",
    ),
    "contradicting fill values": ([1.0], {"_FillValue": 1, "missing_value": 2}, "conflicting"),
}


@pytest.mark.filterwarnings("ignore:saving variable item")  # by older xarray
@pytest.mark.parametrize("case", LOST)
@pytest.mark.parametrize("is_lazy", [False, True])
def test_items_that_would_change_are_refused(case: str, is_lazy: bool, tmp_path: Path) -> None:
    items, encoding, message = LOST[case]
    dataset = xr.Dataset({"a": ("x", np.array(items))})
    if is_lazy:
        pytest.importorskip("dask.array")
        dataset = dataset.chunk({"x": 1})
    dataset["a"].encoding = encoding
    bp.save(tmp_path / "a.blp", np.zeros(2))
    before = (tmp_path / "a.blp").read_bytes()
    for value in (dataset, dataset["a"]):
        with pytest.raises(ValueError, match=message) as raised:
            bp.save(tmp_path / "a.blp", value)
        assert "'a' is not read back with the encoding" in str(raised.value)
        assert "save x.drop_encoding()" in str(raised.value)
    assert (tmp_path / "a.blp").read_bytes() == before
    bp.save(tmp_path / "a.blp", dataset.drop_encoding())
    with xr.open_dataset(tmp_path / "a.blp") as found:
        xr.testing.assert_identical(found.load(), dataset.compute())


@pytest.mark.filterwarnings("ignore:Times can't be serialized")
def test_times_of_a_shorter_unit(tmp_path: Path) -> None:
    pytest.importorskip("dask.array")
    dataset = xr.Dataset({"a": ("x", TIMES[:30])})
    dataset["a"].encoding = {"units": "days since 2000-01-01", "dtype": "i4"}
    bp.save(tmp_path / "a.blp", dataset)  # xarray chooses hours
    with xr.open_dataset(tmp_path / "a.blp") as found:
        xr.testing.assert_identical(found.load(), dataset)
        assert found["a"].encoding["units"].startswith("hours since")
    with pytest.raises(ValueError, match="not read back"):
        bp.save(tmp_path / "a.blp", dataset.chunk({"x": 10}))


def test_numbers_off_by_half_a_step_are_stored(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": ("x", [280.0049, 280.0051, -47.66, 607.67])})
    dataset["a"].encoding = PACKED
    bp.save(tmp_path / "a.blp", dataset)
    with bp.open(tmp_path / "a.blp") as archive:
        assert archive["a"][...].tolist() == [0, 1, -32766, 32767]


@pytest.mark.parametrize("lost", [None, np.nan])
def test_missing_text_has_a_fill_value(lost: Any, tmp_path: Path) -> None:
    dataset = xr.Dataset(
        {
            "text": ("x", np.array(["", "-", lost, "b"], object)),
            "bytes": ("x", np.array([b"", b"--", lost, b"c"], object)),
            "letters": ("x", np.array([b"a", b"b", lost, b"c"], object)),
            "floats": ("x", np.array([1.5, 2.5, lost, 0.0], object)),
            "whole": ("x", np.array(["a", "b", "c", "d"], object)),
        }
    )
    bp.save(tmp_path / "a.blp", dataset)
    with bp.open(tmp_path / "a.blp") as archive:
        assert archive["text"][...].tolist() == ["", "-", "--", "b"]
        assert archive["text"].attrs["_FillValue"] == "--"
        assert archive["whole"].attrs["dims"] == ["x"]
        assert "_FillValue" not in archive["whole"].attrs
    with xr.open_dataset(tmp_path / "a.blp") as found:
        xr.testing.assert_identical(found.load(), dataset)
        bp.save(tmp_path / "b.blp", found)
    assert (tmp_path / "b.blp").read_bytes() == (tmp_path / "a.blp").read_bytes()


@pytest.mark.parametrize("fill", ["-", b"-"])
@pytest.mark.parametrize("lost", [None, np.nan])
def test_text_that_is_all_missing(lost: Any, fill: Any, tmp_path: Path) -> None:
    text = xr.Variable("x", np.array([lost, lost], object), None, {"_FillValue": fill})
    bp.save(tmp_path / "a.blp", xr.Dataset({"text": text, "other": ("x", [1, 2])}))
    with xr.open_dataset(tmp_path / "a.blp") as found:
        assert found["text"].dtype == object
        assert found["text"].isnull().all()


def test_missing_text_is_never_stored_as_text(tmp_path: Path) -> None:
    dataset = xr.Dataset({"text": ("x", np.array(["a", None], object))})
    dataset["text"].encoding["dtype"] = "S1"
    bp.save(tmp_path / "a.blp", dataset)
    with xr.open_dataset(tmp_path / "a.blp") as found:
        xr.testing.assert_identical(found.load(), dataset)
    dataset["text"].attrs["coordinates"] = "y"
    with pytest.raises(ValueError, match="'text' has missing text"):
        bp.save(tmp_path / "a.blp", dataset)


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "julian", "all_leap"])
def test_calendars(calendar: str, tmp_path: Path) -> None:
    pytest.importorskip("cftime")
    times = xr.date_range("2001-02-27", periods=20, calendar=calendar, use_cftime=True)
    dataset = xr.Dataset(
        {"v": ("time", np.arange(20.0)), "other": ("time", times.values)}, coords={"time": times}
    )
    dataset["time"].encoding = {"units": "hours since 1900-01-01", "dtype": "i4"}
    bp.save(tmp_path / "a.blp", dataset)
    with xr.open_dataset(tmp_path / "a.blp") as found:
        xr.testing.assert_identical(found.load(), dataset)
        assert found["time"].encoding["calendar"] == calendar
        assert found["time"].encoding["units"] == "hours since 1900-01-01"
    for kind in ("nc", "zarr"):
        assert bp.convert(tmp_path / "a.blp", tmp_path / f"a.{kind}").left_out == ()
        bp.convert(tmp_path / f"a.{kind}", tmp_path / f"{kind}.blp")
        with xr.open_dataset(tmp_path / f"{kind}.blp") as found:
            xr.testing.assert_identical(found.load(), dataset)
    dataset["time"].encoding = {"units": "days since 1900-01-01", "dtype": "i1"}
    with pytest.raises(ValueError, match="'time' is not read back"):
        bp.save(tmp_path / "a.blp", dataset)


def test_an_attr_that_decodes_beside_an_encoding(tmp_path: Path) -> None:
    found = xr.Dataset({"a": ("x", [1, -99], {"_FillValue": -99}, {"grid_mapping": "crs"})})
    with pytest.raises(ValueError, match=r"\['_FillValue'\] and an encoding: .*drop_encoding"):
        bp.save(tmp_path / "a.blp", found)
    bp.save(tmp_path / "a.blp", found.drop_encoding())
    with xr.open_dataset(tmp_path / "a.blp", engine="bloscpack") as opened:
        xr.testing.assert_identical(opened.load(), found)


@pytest.mark.parametrize(
    ("items", "attrs"),
    [(np.array([0, 5], "i1"), {"dtype": "bool"}), ([b"a"], {"_Encoding": "utf-8"})],
)
def test_attrs_that_decode_change_no_item_that_was_saved(
    items: Any, attrs: Any, tmp_path: Path
) -> None:
    packed = ("y", [1.0, 2.0], {}, {"dtype": "i2", "scale_factor": 0.5})
    saved = xr.Dataset({"a": ("x", items, attrs), "c": packed})
    bp.save(tmp_path / "a.blp", saved)
    with xr.open_dataset(tmp_path / "a.blp", engine="bloscpack") as opened:
        xr.testing.assert_identical(opened.load(), saved)


def test_booleans_of_netcdf_without_other_items_that_are_decoded(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    mask = xr.Dataset({"m": ("x", [True, False])})
    mask.to_netcdf(tmp_path / "a.nc", engine="scipy")
    bp.convert(tmp_path / "a.nc", tmp_path / "a.blp", to="archive")
    with xr.open_dataset(tmp_path / "a.blp", engine="bloscpack") as opened:
        xr.testing.assert_equal(opened.load(), mask)
        assert opened["m"].dtype == bool


def test_categories_are_refused(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    found = xr.Dataset({"a": ("x", pd.Categorical(["b", "a"], ["b", "a", "z"]))})
    for value in (found, found["a"]):
        with pytest.raises(TypeError, match=r"categories, which are not stored: use x\.astype"):
            bp.save(tmp_path / "a.blp", value)
    assert not (tmp_path / "a.blp").exists()
    bp.save(tmp_path / "a.blp", found.astype(str))
    with xr.open_dataset(tmp_path / "a.blp", engine="bloscpack") as opened:
        assert opened["a"].values.tolist() == ["b", "a"]


def test_labels_of_an_enum_are_left_out_with_a_notice(tmp_path: Path) -> None:
    dtype = np.dtype("u1", metadata={"enum": {"dry": 0, "wet": 1}, "enum_name": "state"})
    state = xr.Variable("x", np.array([0, 1, 1], "u1"), None, {"dtype": dtype})
    with pytest.warns(BloscpackWarning, match="labels of the enum of 'state'"):
        bp.save(tmp_path / "a.blp", xr.Dataset({"state": state}))
    assert bp.load(tmp_path / "a.blp")["state"].tolist() == [0, 1, 1]
