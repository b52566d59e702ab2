"""Coordinates of arrays in an archive: long ones are arrays of their own, stored once."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import UnsupportedError

from ..strategies import assert_same

xr = pytest.importorskip("xarray")
RNG = np.random.default_rng(0)
TIMES = np.datetime64("2026-01-01", "ns") + np.cumsum(RNG.integers(1, 10**9, 2000)).astype("m8[ns]")


def series(times: Any = TIMES, **attrs: Any) -> Any:
    time = ("time", times, {"long_name": "begin"})
    return xr.DataArray(np.arange(times.size), dims="time", coords={"time": time}, attrs=attrs)


def save(path: Path, **arrays: Any) -> Path:
    bp.savez(path, arrays)
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return save(tmp_path / "a.blp", one=series(), two=series() + 1)


def test_they_are_stored_once_and_are_arrays(archive: Path) -> None:
    with bp.open(archive) as found:
        assert list(found) == ["time", "one", "two"]
        assert_same(found["time"][...], TIMES)
        assert found["time"].attrs == {
            "dims": ["time"],
            "_coordinate": True,
            "long_name": "begin",
        }
        for name in ("one", "two"):
            array = found[name]
            assert array.attrs["coords"] == {"time": {"array": "time"}}
            coord = array.coords["time"]
            assert (array.dims, coord.dims, coord.attrs) == (
                ("time",),
                ("time",),
                {"long_name": "begin"},
            )
            assert_same(coord.values, TIMES)
    with bp.open(f"{archive}::/two") as array:
        assert_same(array.coords["time"].values, TIMES)
        assert_same(pickle.loads(pickle.dumps(array)).coords["time"].values, TIMES)
    assert bp.verify(archive).ok


def test_short_ones_stay_in_the_attrs(tmp_path: Path) -> None:
    save(tmp_path / "a.blp", one=series(TIMES[:100]))
    with bp.open(tmp_path / "a.blp") as found:
        assert list(found) == ["one"]


def test_other_coordinates_of_the_same_name_stay_in_the_attrs(tmp_path: Path) -> None:
    later = TIMES + 1
    save(tmp_path / "a.blp", one=series(), two=series(later), three=series())
    with bp.open(tmp_path / "a.blp") as found:
        assert list(found) == ["time", "one", "two", "three"]
        assert len(found["two"].attrs["coords"]["time"]["data"]) == TIMES.size
        values = [found[name].coords["time"].values for name in ("one", "two", "three")]
        for value, expected in zip(values, (TIMES, later, TIMES), strict=True):
            assert_same(value, expected)


def test_an_array_of_their_name_is_kept(tmp_path: Path) -> None:
    save(tmp_path / "a.blp", time=np.arange(3), one=series())
    with bp.open(tmp_path / "a.blp") as found:
        assert list(found) == ["time", "one"]
        assert_same(found["one"].coords["time"].values, TIMES)
    with pytest.raises(ValueError, match="two arrays have the name 'time'"):
        save(tmp_path / "b.blp", one=series(), time=np.arange(3))


def test_each_group_has_its_own(tmp_path: Path) -> None:
    save(tmp_path / "a.blp", **{"x/one": series(), "y/one": series(TIMES[::-1]), "x/two": series()})
    with bp.open(tmp_path / "a.blp") as found:
        assert list(found) == ["x/time", "x/one", "y/time", "y/one", "x/two"]
        assert_same(found["y/one"].coords["time"].values, TIMES[::-1])


def test_an_archive_is_copied_byte_for_byte(archive: Path, tmp_path: Path) -> None:
    with bp.open(archive) as found:
        bp.savez(tmp_path / "b.blp", found)
    assert (tmp_path / "b.blp").read_bytes() == archive.read_bytes()


def test_an_array_takes_its_coordinates_along(archive: Path, tmp_path: Path) -> None:
    with bp.open(archive) as found:
        bp.save(tmp_path / "one.blp", found["one"])
        bp.save(tmp_path / "like.blp", found["two"][...], like=found["one"])
        bp.savez(tmp_path / "b.blp", new=found["one"], more=np.arange(3))
        bp.savez(tmp_path / "c.blp", time=np.arange(3), new=found["one"])
    for path in (tmp_path / "one.blp", tmp_path / "like.blp", f"{tmp_path}/b.blp::/new"):
        with bp.open(path) as array:
            assert_same(array.coords["time"].values, TIMES)
            assert array.coords["time"].attrs == {"long_name": "begin"}
    with bp.open(tmp_path / "b.blp") as found:
        assert list(found) == ["time", "new", "more"]
    with bp.open(tmp_path / "c.blp") as found:
        assert_same(found["new"].coords["time"].values, TIMES)


def test_rounding_and_chunks_do_not_apply_to_them(tmp_path: Path) -> None:
    x = RNG.normal(size=3000)
    array = xr.DataArray(RNG.normal(size=(3000, 4)), dims=("x", "y"), coords={"x": x})
    bp.save(tmp_path / "a.blp", xr.Dataset({"a": array}), keepbits=3, chunks=(10, 2))
    with bp.open(tmp_path / "a.blp") as found:
        assert_same(found["a"].coords["x"].values, x)
        assert found["a"].chunks == (10, 2)


def test_a_missing_array_is_an_error(archive: Path, tmp_path: Path) -> None:
    with bp.open(archive) as found:
        found["one"].container  # noqa: B018 - it can be read
        data = found["one"][...]
        attrs = dict(found["one"].attrs)
    bp.savez(tmp_path / "b.blp", {"one": xr.DataArray(data, attrs={})}, more=data)
    bp.save(tmp_path / "c.blp", data, attrs=attrs)
    with bp.open(tmp_path / "c.blp") as array:
        with pytest.raises(UnsupportedError, match=r"coords\['time'\] is missing: no array 'time'"):
            _ = array.coords
        assert_same(array[...], data)
    with bp.open(archive.read_bytes()) as found, bp.open(archive) as other:
        alone = pickle.loads(pickle.dumps(found["one"]))
        with pytest.raises(UnsupportedError, match="the file is not an archive"):
            _ = alone.coords
        with pytest.raises(ValueError, match="two arrays"):
            bp.savez(tmp_path / "d.blp", other, time=data)


def test_damage_to_them_leaves_the_data(archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    with bp.Archive(bytes(data)) as found:
        at = found._members.named["time"].offset + found["time"].chunk_offset(0) + 40
    data[at] ^= 1
    with bp.open(bytes(data)) as found:
        assert_same(found["one"][...], np.arange(TIMES.size))
        with pytest.raises(bp.exceptions.BloscpackError):
            found["one"].coords["time"].values  # noqa: B018 - reads the values
    assert [each.member for each in bp.verify(bytes(data)).damage] == ["time"]


def test_they_follow_when_they_are_renamed_or_removed(archive: Path) -> None:
    with bp.open(archive, "r+") as found:
        found.rename("time", "begin")
    with bp.open(archive) as found:
        for name in ("one", "two"):
            assert_same(found[name].coords["time"].values, TIMES)
    with xr.open_dataset(archive, engine="bloscpack") as dataset:
        assert_same(dataset["one"]["time"].values, TIMES)
    with bp.open(archive, "r+") as found:
        found["begin"] = TIMES + 1
    with xr.open_dataset(archive, engine="bloscpack") as dataset:
        assert_same(dataset["two"]["time"].values, TIMES + 1)
        assert dataset["begin"].attrs == {"long_name": "begin"}
    with bp.open(archive, "r+") as found:
        del found["begin"]
    with bp.open(archive) as found:
        assert [*found["one"].coords, *found["two"].coords] == []
    with xr.open_dataset(archive, engine="bloscpack") as dataset:
        assert_same(dataset["two"].values, np.arange(TIMES.size) + 1)


def test_an_archive_that_was_changed(archive: Path, tmp_path: Path) -> None:
    with bp.open(archive, "r+") as found:
        found["more"] = series()
        found["one"][0] = 7
        found.rename("two", "2")
        assert found["one"].dims == ("time",)
    with bp.open(archive) as found:
        for name in ("one", "2", "more"):
            assert_same(found[name].coords["time"].values, TIMES)
        assert_same(pickle.loads(pickle.dumps(found["one"])).coords["time"].values, TIMES)
        bp.savez(tmp_path / "b.blp", found)
    with bp.open(f"{archive}::/2") as array:
        assert_same(array.coords["time"].values, TIMES)
    bp.compact(archive)
    for path in (archive, tmp_path / "b.blp"):
        with bp.open(path) as found:
            assert_same(found["one"].coords["time"].values, TIMES)
            assert found["one"][0] == 7
