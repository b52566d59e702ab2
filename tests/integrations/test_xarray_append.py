"""`bp.append`, `ds.blp.append` and `ds.blp.write`: files that grow, and change in part."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

xr = pytest.importorskip("xarray", reason="xarray is not installed")
pytestmark = pytest.mark.usefixtures("installed_engine")

HOURS = np.datetime64("2026-01-01", "us") + np.arange(200) * np.timedelta64(1, "h")
UNEVEN = HOURS + (np.arange(200) ** 2 % 7) * np.timedelta64(1, "m")


def weather(times: Any = HOURS) -> Any:
    """Return hours of three variables, one with other axes and one without hours."""
    rng = np.random.default_rng(1)
    variables = {
        "rain": (("time", "y", "x"), rng.random((200, 5, 7), "f4"), {"units": "mm"}),
        "mask": (("y", "x"), rng.random((5, 7)) > 0.5),
        "count": ("time", rng.integers(0, 99, 200), {"note": "of the first part"}),
        "name": ("time", [f"{n:03} th" for n in range(200)]),
    }
    coords = {
        "time": times,
        "y": np.linspace(-30, 30, 5),
        "x": [*"abcdefg"],
        "height": ("time", rng.random(200)),
        "run": 3,
    }
    return xr.Dataset(variables, coords, {"title": "example"})


def opened(path: Path, **options: Any) -> Any:
    with xr.open_dataset(path, engine="bloscpack", **options) as dataset:
        return dataset.load()


def check_same(path: Path, expected: Any) -> None:
    xr.testing.assert_identical(opened(path), expected)
    assert bp.verify(path).ok


class TestAppend:
    @pytest.mark.parametrize("times", [HOURS, UNEVEN, np.arange(200) * 0.5, 200 - np.arange(200)])
    @pytest.mark.parametrize("start", [1, 10, 100])
    def test_it_equals_the_whole(self, tmp_path: Path, times: Any, start: int) -> None:
        whole, path = weather(times), tmp_path / "a.blp"
        bp.save(path, whole.isel(time=slice(start)))
        for stop in (start + 1, start + 30, 200):
            whole.isel(time=slice(start, stop)).blp.append(path, dim="time")
            check_same(path, whole.isel(time=slice(stop)))
            start = stop

    def test_even_axes_take_no_bytes_until_there_is_a_gap(self, tmp_path: Path) -> None:
        path, later = tmp_path / "a.blp", HOURS + np.timedelta64(1000, "h")
        whole = weather()
        bp.save(path, whole)
        bp.append(path, whole.assign_coords(time=HOURS + np.timedelta64(200, "h")), "time")
        even = bp.open(path)["rain"].attrs["coords"]["time"]["data"]
        assert even == {"start": 1767225600000000, "step": 3600000000}
        assert "time" not in bp.open(path)
        bp.append(path, whole.assign_coords(time=later), "time")
        with bp.open(path) as archive:
            assert archive["rain"].attrs["coords"]["time"] == {"array": "time"}
            assert archive["count"].attrs["coords"]["time"] == {"array": "time"}
            assert np.array_equal(archive["time"][400:], later)
        assert opened(path).sizes["time"] == 600

    def test_one_array(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        for times in (HOURS, UNEVEN):
            rain = weather(times)["rain"]
            bp.save(path, rain[:20])
            rain[20:60].rename(None).blp.append(path)
            bp.append(path, rain[60:], dim="time")
            with xr.open_dataarray(path, engine="bloscpack") as array:
                xr.testing.assert_identical(array.load(), rain)

    def test_an_axis_that_is_not_the_first(self, tmp_path: Path) -> None:
        path, whole = tmp_path / "a.blp", weather()
        whole["rain"] = whole["rain"].transpose("y", "time", "x").copy()
        first, rest = whole.isel(time=slice(50)), whole.isel(time=slice(50, None))
        bp.save(path, first)
        before = path.read_bytes()
        with pytest.raises(ValueError, match=r"'rain' cannot grow along 'time', its axis 1.*auto"):
            rest.blp.append(path, "time")
        assert path.read_bytes() == before
        rain = first.rain.values
        with bp.open(path, "r+") as archive:
            archive._put("rain", rain, {"chunks": (2, 16, 7), "attrs": archive["rain"].attrs})
        rest.isel(time=slice(1)).blp.append(path, "time")
        # The order of axes is that of the file.
        rest.isel(time=slice(1, None)).transpose("x", "time", "y").blp.append(path, "time")
        check_same(path, whole)

    def test_fortran_order(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        rain = weather()["rain"].transpose("x", "y", "time")
        rain.data = np.asfortranarray(rain.data)
        bp.save(path, rain[..., :50])
        bp.append(path, rain[..., 50:])
        with xr.open_dataarray(path, engine="bloscpack") as array:
            xr.testing.assert_identical(array.load(), rain)

    @pytest.mark.filterwarnings("ignore:Times can't be serialized")
    def test_files_of_other_formats(self, tmp_path: Path) -> None:
        """Items are encoded as those of the file."""
        pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
        whole = weather().drop_vars(["run", "height"])
        whole["late"] = ("time", np.arange(200) * np.timedelta64(1, "m"))
        whole["rain"][5:70, 2] = np.nan
        encoding = {
            "rain": {"dtype": "i2", "scale_factor": 0.001, "_FillValue": -9},
            "time": {"units": "hours since 1900-01-01", "dtype": "i4"},
            "late": {"units": "seconds"},
        }
        for part, name in ((slice(100), "a.nc"), (slice(None), "b.nc")):
            whole.isel(time=part).to_netcdf(
                tmp_path / name, engine="h5netcdf", encoding=encoding, unlimited_dims=["time"]
            )
        path = tmp_path / "a.blp"
        bp.convert(tmp_path / "a.nc", path)
        with xr.open_dataset(tmp_path / "b.nc", engine="h5netcdf") as expected:
            bp.append(path, expected.isel(time=slice(100, 150)))
            bp.append(path, expected.isel(time=slice(150, 200)).load())
            check_same(path, expected.load())
        with xr.open_dataset(tmp_path / "b.nc", decode_cf=False) as raw:
            xr.testing.assert_equal(opened(path, decode_cf=False), raw.load())
            before = path.read_bytes()
            with pytest.raises(ValueError, match="attrs"):
                bp.append(path, raw, "time")
        part = expected.isel(time=slice(10)).assign_coords(time=HOURS[:10] + 10**13)
        for change in (
            {"rain": part["rain"] + 99},
            {"time": part["time"] + np.timedelta64(1, "m")},
            {"late": part["late"] + np.timedelta64(1, "ms")},
        ):
            with pytest.raises(ValueError, match=r"not read back with the encoding .*of the file"):
                bp.append(path, part.assign(change), "time")
        assert path.read_bytes() == before

    def test_the_axis_without_dim(self, tmp_path: Path) -> None:
        path, whole = tmp_path / "a.blp", weather()
        bp.save(path, whole.isel(time=slice(100)))
        bp.append(path, whole.isel(time=slice(100, None)))
        check_same(path, whole)
        with pytest.raises(ValueError, match=r"give dim.*\['time', 'y', 'x'\], \[\] differ"):
            bp.append(path, whole)
        with pytest.raises(ValueError, match=r"give dim.*\['time', 'y'\] differ"):
            bp.append(path, whole.isel(time=[0], y=[0]))
        with pytest.raises(ValueError, match=r"dim is 't'; the dims are .*'time'"):
            bp.append(path, whole, dim="t")
        plain = xr.Dataset({"a": ("t", np.arange(3)), "b": ("x", [1, 2])})
        plain.encoding["unlimited_dims"] = {"t"}
        bp.save(path, plain)
        bp.append(path, plain)
        assert opened(path)["a"].values.tolist() == [0, 1, 2, 0, 1, 2]

    def test_coordinates_without_order(self, tmp_path: Path) -> None:
        path, names = tmp_path / "a.blp", [*"kcxab"]
        for values in (names, [5, 1, 9, 2, 7]):
            whole = xr.Dataset({"a": ("station", np.arange(5))}, {"station": values})
            bp.save(path, whole.isel(station=slice(3)))
            bp.append(path, whole.isel(station=slice(3, None)))
            check_same(path, whole)
            with pytest.raises(ValueError, match=f"'station' repeats {values[3]}.*{values[4]}"):
                bp.append(path, whole.isel(station=[3]))

    def test_rows_with_labels_are_refused_where_labels_would_be_lost(self, tmp_path: Path) -> None:
        path, rain = tmp_path / "a.blp", weather()["rain"]
        bp.save(path, rain)
        for mode in ("a", "r+"):
            with (
                bp.open(path, mode) as array,
                pytest.raises(TypeError, match=r"use bloscpack\.app"),
            ):
                array.append(rain)

    def test_text(self, tmp_path: Path) -> None:
        """Characters, and missing text, as the file has it."""
        path, text = tmp_path / "a.blp", np.array(["one", "u", "é", np.nan, "four", "e"], object)
        for values, encoding in ((text, {}), (text.astype("U4"), {"dtype": "S1"})):
            whole = xr.Dataset({"a": ("t", values)}, {"t": np.arange(6)})
            whole["a"].encoding = encoding
            first = whole.isel(t=[4, 3, 0]).assign_coords(t=[-3, -2, -1])
            bp.save(path, first)
            bp.append(path, whole)
            xr.testing.assert_equal(opened(path), xr.concat([first, whole], "t"))
            before = path.read_bytes()
            for item in ("-" * 5, opened(path)["a"].encoding.get("_FillValue", "x" * 5)):
                part = whole.isel(t=[0]).assign_coords(t=[6])
                part["a"] = ("t", np.array([item], object))
                with pytest.raises(ValueError, match=r"'a' (do not fit|has the item)"):
                    bp.append(path, part)
            assert path.read_bytes() == before

    def test_nothing_to_append(self, tmp_path: Path) -> None:
        path, whole = tmp_path / "a.blp", weather()
        bp.save(path, whole)
        before = path.read_bytes()
        bp.append(path, whole.isel(time=slice(0)), "time")
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            (lambda d: d.drop_vars(["rain", "height"]), ValueError, r"lacks \['rain', 'height'\]"),
            (lambda d: d.drop_vars("time"), ValueError, r"lacks \['time'\]"),
            (lambda d: d.assign(new=d["rain"]), ValueError, r"no variables \['new'\]"),
            (lambda d: d.assign_coords(level=3), ValueError, r"no variables \['level'\]"),
            (lambda d: d.assign(mask=~d["mask"]), ValueError, "'mask' differs"),
            (lambda d: d.assign_coords(run=4), ValueError, "'run' differs"),
            (lambda d: d.assign_coords(y=d["y"] + 1), ValueError, "'y' differs"),
            (lambda d: d.isel(y=[0, 1]), ValueError, "'(rain|mask|y)' (has length|differs)"),
            (lambda d: d.drop_vars("y").isel(y=[0]).drop_vars("mask"), ValueError, "has length 1"),
            (lambda d: d.assign(rain=d["rain"].isel(x=0)), ValueError, "'rain' has dims"),
            (lambda d: d.assign(rain=d["rain"].astype("f8")), TypeError, "'rain' is float64, .* f"),
            (lambda d: d.assign(count=d["count"].astype("i4")), TypeError, "'count' is int32"),
            (
                lambda d: d.assign_coords(time=np.arange(50)),
                TypeError,
                "'time' is int64, .*",
            ),
            (
                lambda d: d.assign_coords(time=HOURS[50:100]),
                ValueError,
                "repeats .*-03T02.*07T05",
            ),
            (lambda d: d.assign_coords(time=HOURS[:50] - 1), ValueError, "goes back to 2025-12-31"),
            (lambda d: d.isel(time=[0, 2, 1]), ValueError, "goes back to .*T07.* after .*T08"),
            (lambda d: d.isel(time=[0, 0]), ValueError, "repeats"),
            (
                lambda d: d.assign_coords(time=(HOURS + 10**13).astype("M8[ns]")[:50] + 1),
                ValueError,
                "items of 'time' do not fit datetime64.us",
            ),
            (
                lambda d: d.assign(rain=d["rain"].assign_attrs(units="cm")),
                ValueError,
                "attrs.'units'. of 'rain' is 'cm', in the file 'mm'",
            ),
            (
                lambda d: d.assign(count=d["count"].assign_attrs(units="cm")),
                ValueError,
                "attrs.'units'. of 'count' is 'cm', in the file None: remove it",
            ),
            (
                lambda d: d.assign(count=d["count"].assign_attrs(units="hours since 2000-01-01")),
                ValueError,
                "attrs.'units'. of 'count' is 'hours since",
            ),
            (
                lambda d: d.assign(count=d["count"].assign_attrs(scale_factor=0.5)),
                ValueError,
                "attrs.'scale_factor'. of 'count' is 0.5",
            ),
            (
                lambda d: d.assign(name=d["name"] + "...."),
                ValueError,
                "items of 'name' do not fit <U6, the type of the file",
            ),
            (
                lambda d: d.assign(name=d["name"].astype(object).where(d["count"] > 50)),
                TypeError,
                "'name' has items that are not text",
            ),
            (lambda d: d["rain"].rename(None), ValueError, "no name"),
            (lambda d: d["rain"], ValueError, r"lacks \['count', 'name'\]"),
            (lambda d: d["rain"].values, TypeError, "not a Dataset or DataArray.*ndarray"),
        ],
    )
    def test_what_does_not_fit_changes_nothing(
        self, tmp_path: Path, change: Callable[[Any], Any], error: Any, message: str
    ) -> None:
        path, whole = tmp_path / "a.blp", weather()
        bp.save(path, whole.isel(time=slice(150)))
        before = path.read_bytes()
        with pytest.raises(error, match=message):
            bp.append(path, change(whole.isel(time=slice(150, None))), "time")
        assert path.read_bytes() == before

    @pytest.mark.parametrize("kind", ["M8", "m8"])
    def test_times_that_the_unit_does_not_have(self, tmp_path: Path, kind: str) -> None:
        path, old = tmp_path / "a.blp", np.array([1, 2], f"{kind}[ns]")
        far = np.array([3 * 10**10], f"{kind}[s]")
        bp.save(path, xr.Dataset({"v": ("n", old)}, {"n": old}))
        before = path.read_bytes()
        later = np.array([5], f"{kind}[s]")
        for v, n in ((far, later), (later, far)):
            with pytest.raises(ValueError, match="do not fit"):
                bp.append(path, xr.Dataset({"v": ("n", v)}, {"n": n}), dim="n")
            with pytest.raises(ValueError, match="do not fit"):
                xr.Dataset({"v": ("n", far)}).blp.write(path, region={"n": slice(1)})
        assert path.read_bytes() == before
        bp.append(path, xr.Dataset({"v": ("n", later)}, {"n": later}), dim="n")
        assert (opened(path)["v"].values[-1:] == later).all()

    def test_a_repeated_time_of_another_unit(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        times = np.array([3, 1, 2], "M8[s]")
        bp.save(path, xr.Dataset({"v": ("t", [1, 2, 3])}, {"t": times.astype("M8[ns]")}))
        with pytest.raises(ValueError, match="repeats"):
            bp.append(path, xr.Dataset({"v": ("t", [4])}, {"t": times[1:2]}), dim="t")

    @pytest.mark.parametrize("fill", [None, -1])
    def test_floats_in_a_file_of_integers(self, tmp_path: Path, fill: Any) -> None:
        pytest.importorskip("h5netcdf")
        path, times = tmp_path / "a.blp", HOURS[:4]
        old = xr.Dataset({"n": ("t", np.array([1, 2], "i4"))}, {"t": times[:2]})
        encoding = {"n": {} if fill is None else {"_FillValue": fill, "dtype": "i4"}}
        old.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=encoding)
        bp.convert(tmp_path / "a.nc", path, to="archive")
        new = xr.Dataset({"n": ("t", [1.25, 2.75])}, {"t": times[2:]})
        before = path.read_bytes()
        with pytest.raises((TypeError, ValueError), match=r"use astype|not read back"):
            bp.append(path, new, dim="t")
        with pytest.raises((TypeError, ValueError), match=r"use astype|not read back"):
            new.assign_coords(t=times[:2]).blp.write(path)
        assert path.read_bytes() == before
        bp.append(path, new.round() if fill else new.astype("i8"), dim="t")
        assert opened(path)["n"].values.tolist() == [1, 2, 1, 3 if fill else 2]

    def test_attrs_of_the_file_stay(self, tmp_path: Path) -> None:
        path, whole = tmp_path / "a.blp", weather()
        bp.save(path, whole.isel(time=slice(150)))
        rest = whole.isel(time=slice(150, None)).drop_attrs()
        rest["count"].attrs["note"] = rest.attrs["title"] = "other"
        bp.append(path, rest, "time")
        check_same(path, whole)

    def test_an_array_of_an_archive_grows_with_the_others(self, tmp_path: Path) -> None:
        path, whole = tmp_path / "a.blp", weather()
        bp.save(path, whole)
        with pytest.raises(ValueError, match="append a Dataset to the archive"):
            bp.append(f"{path}::/rain", whole["rain"], "time")

    def test_blocks_of_dask(self, tmp_path: Path, monkeypatch: Any) -> None:
        dask = pytest.importorskip("dask", reason="dask is not installed")
        path, whole = tmp_path / "a.blp", weather(UNEVEN)
        bp.save(path, whole.isel(time=slice(11)))
        rest = whole.isel(time=slice(11, None)).chunk({"time": 17, "x": 3})
        with dask.config.set(scheduler="threads"):
            bp.append(path, rest)
        check_same(path, whole)
        assert len(bp.versions(path)) == 1

    def test_the_module_of_bloscpack_0_16(self, tmp_path: Path) -> None:
        import bloscpack.append as module

        assert bp.append is module
        bp.pack_file_to_file(__file__, str(tmp_path / "a.blp"))
        bp.append.append(tmp_path / "a.blp", __file__)
        assert bp.load(tmp_path / "a.blp").tobytes() == 2 * Path(__file__).read_bytes()


class TestWrite:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (["abcd"], [1.25]),
            (["aa"], [True]),
            ([1], np.array([2], "m8[h]")),
            ([1], [1.5]),
            ([True], [2]),
        ],
    )
    def test_items_of_another_kind(self, tmp_path: Path, old: Any, new: Any) -> None:
        path = tmp_path / "a.blp"
        bp.save(path, xr.Dataset({"v": ("t", old)}))
        with pytest.raises(TypeError, match="use astype"):
            xr.Dataset({"v": ("t", new)}).blp.write(path)
        assert opened(path)["v"].values.tolist() == old

    def test_a_region(self, tmp_path: Path) -> None:
        path, whole = tmp_path / "a.blp", weather(UNEVEN)
        bp.save(path, whole)
        part = whole[["rain"]].isel(time=slice(20, 60), y=[1, 2]) + 1
        whole["rain"][20:60, 1:3] += 1
        part.blp.write(path)
        check_same(path, whole)
        whole["count"][30:33] = -1
        whole["rain"][30:33] = 0
        part = whole.isel(time=slice(30, 33)).drop_vars(["mask", "time"])
        part.blp.write(path, {"time": slice(30, 33)})
        check_same(path, whole)
        dask = pytest.importorskip("dask", reason="dask is not installed")
        whole["rain"][:] *= 2
        with dask.config.set(scheduler="threads"):
            whole[["rain", "count"]].chunk({"time": 17}).blp.write(path)
        check_same(path, whole)

    @pytest.mark.parametrize(
        ("change", "region", "message"),
        [
            (lambda d: d, {"time": slice(150, 200)}, r"'mask' has none of the dims \['time'\]"),
            (lambda d: d.rename(rain="snow"), "auto", r"are \['snow'.*has .*'rain'"),
            (lambda d: d[["time"]], "auto", r"the variables to write are \[\], the file has"),
            (lambda d: d[["rain"]], {"time": slice(100, 150)}, "'time' differs"),
            (lambda d: d[["rain"]], {"t": slice(0, 3)}, "mapping of dims"),
            (lambda d: d[["count", "rain"]].assign_coords(x=[*"abcdefz"]), "auto", "'x' is not"),
        ],
    )
    def test_what_does_not_fit_changes_nothing(
        self, tmp_path: Path, change: Callable[[Any], Any], region: Any, message: str
    ) -> None:
        path, whole = tmp_path / "a.blp", weather()
        bp.save(path, whole)
        before = path.read_bytes()
        with pytest.raises(ValueError, match=message):
            change(whole.isel(time=slice(150, None))).blp.write(path, region)
        assert path.read_bytes() == before
