"""Datasets of xarray in archives: written whole, read lazily, and identical."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import NotFoundError, UnsupportedError
from bloscpack.storage.remote.source import RemoteSource

from ..servers import FileServer, running

xr = pytest.importorskip("xarray")
pytestmark = pytest.mark.usefixtures("installed_engine")
RNG = np.random.default_rng(1)
TIMES = np.datetime64("2026-01-01", "ns") + np.arange(48) * np.timedelta64(1, "h")
IRREGULAR = TIMES[0] + np.cumsum(RNG.integers(1, 10**9, 3000)).astype("m8[ns]")


def weather() -> Any:
    shape = (48, 5, 7)
    dims = ("time", "y", "x")
    return xr.Dataset(
        {
            "heat": (dims, RNG.normal(size=shape).astype("f4"), {"units": "K"}),
            "rain": (dims, RNG.integers(0, 99, shape).astype("i2")),
            "mean": ((), 3.5),
            "count": ("time", np.arange(48), {"levels": np.arange(3), "deep": {"a": [1]}}),
            "flag": (("y", "x"), np.eye(5, 7, dtype=bool)),
            "text": ("y", np.array(["a", "größe", "", "d", "e"])),
            "when": ("y", TIMES[:5]),
            "lag": ("y", np.arange(5).astype("m8[ns]")),
            "plain": (("dim_0", "dim_1"), np.zeros((2, 3))),
        },
        coords={
            "time": ("time", TIMES, {"long_name": "begin"}),
            "y": [1.5, 2.5, 4.0, 4.5, 9.0],
            "lat": (("y", "x"), RNG.normal(size=(5, 7)), {"units": "degrees_north"}),
            "station": ("y", list("abcde")),
            "run": np.int16(7),
            "unused": ("band", [1, 2, 3]),
            "origin": ((), TIMES[3], {"note": "of no axis"}),
        },
        attrs={"title": "run", "level": np.int16(3), "list": [1, 2]},
    )


def long_axis() -> Any:
    data = {name: (("time", "x"), RNG.normal(size=(3000, 2))) for name in "ab"}
    return xr.Dataset(data, coords={"time": IRREGULAR, "x": [1, 2]})


CASES: dict[str, Callable[[], Any]] = {
    "weather": weather,
    "long axis": long_axis,
    "empty": xr.Dataset,
    "attrs alone": lambda: xr.Dataset(attrs={"a": 1}),
    "coordinates alone": lambda: xr.Dataset(coords={"x": [1, 2], "t": TIMES}),
    "a coordinate along another axis": lambda: xr.Dataset(
        {"a": ("x", np.arange(3))}, coords={"z": ("x", [3.0, 1.0, 2.0])}
    ),
    "axes of no length": lambda: xr.Dataset({"a": (("x", "y"), np.zeros((0, 3)))}),
    "attrs that decode": lambda: xr.Dataset(
        {"a": ("x", [1.0, 2.0], {"scale_factor": 2.0, "units": "days since 2000-01-01"})},
        coords={"u": ("q", [1, 2], {"_FillValue": 2, "units": "hours since 2000-01-01"})},
    ),
    "attrs that name coordinates": lambda: xr.Dataset(
        {"a": ("x", [1.0], {"coordinates": "b"}), "b": ("x", [2.0])}, attrs={"coordinates": "b"}
    ),
    "names with a slash": lambda: xr.Dataset({"a/b": ("x", [1.0]), "a": ("x", [2.0])}),
    "missing": lambda: xr.Dataset({"a": ("x", [1.0, np.nan])}, coords={"x": [np.nan, 1.0]}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_dataset_is_read_back_identical(case: str, tmp_path: Path) -> None:
    dataset, path = CASES[case](), tmp_path / "a.blp"
    bp.save(path, dataset)
    with xr.open_dataset(path) as found:
        xr.testing.assert_identical(found.load(), dataset)
        assert list(found.data_vars) == list(dataset.data_vars)
        for name, variable in dataset.variables.items():
            assert found[name].dtype == variable.dtype
    dataset.blp.save(tmp_path / "b.blp")
    bp.savez(tmp_path / "c.blp", dataset)
    assert path.read_bytes() == (tmp_path / "b.blp").read_bytes()
    assert path.read_bytes() == (tmp_path / "c.blp").read_bytes()
    with xr.open_dataset(path) as found:
        bp.save(tmp_path / "d.blp", found)
    with xr.open_dataset(tmp_path / "d.blp") as found:
        xr.testing.assert_identical(found.load(), dataset)


def test_variables_are_read_when_they_are_indexed(tmp_path: Path) -> None:
    dataset = long_axis()
    dataset["c"] = ("time", RNG.normal(size=3000))
    bp.save(tmp_path / "a.blp", dataset, chunks=100, clevel=0)
    data = bytearray((tmp_path / "a.blp").read_bytes())
    with bp.Archive(bytes(data)) as archive, archive["c"] as array:
        at = archive._members.named["c"].offset + array.chunk_offset(20) + 40
    data[at] ^= 1
    (tmp_path / "a.blp").write_bytes(data)
    with xr.open_dataset(tmp_path / "a.blp") as found:
        assert np.array_equal(found["c"][:2000], dataset["c"][:2000])
        assert np.array_equal(found["b"].sel(time=IRREGULAR[7]), dataset["b"][7])
        with pytest.raises(bp.exceptions.ChecksumMismatch):
            found["c"].load()
    with pytest.raises(ValueError, match="closed"):
        found["b"].load()


def test_coordinates_without_an_index_are_lazy(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": ("x", np.arange(3000))}, coords={"c": ("x", RNG.normal(size=3000))})
    bp.save(tmp_path / "a.blp", dataset)
    with xr.open_dataset(tmp_path / "a.blp") as found:
        assert not found["c"].variable._in_memory
        xr.testing.assert_identical(found.load(), dataset)


class TestOptions:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        bp.save(tmp_path / "a.blp", weather(), chunks=12)
        return tmp_path / "a.blp"

    def test_chunks_of_dask_and_pickles(self, path: Path) -> None:
        pytest.importorskip("dask.array")
        with xr.open_dataset(path, chunks={}) as found:
            assert found["heat"].chunks == ((12,) * 4, (5,), (7,))
            again = pickle.loads(pickle.dumps(found))
            assert np.array_equal(again["rain"].sum("time"), found["rain"].sum("time"))

    def test_several_files(self, path: Path, tmp_path: Path) -> None:
        pytest.importorskip("dask.array")
        whole = weather()[["heat", "rain"]].drop_vars("origin")
        for number in range(3):
            bp.save(
                tmp_path / f"{number}.blp", whole.isel(time=slice(16 * number, 16 * number + 16))
            )
        with xr.open_mfdataset(sorted(tmp_path.glob("[0-9].blp")), combine="by_coords") as found:
            assert np.array_equal(found["time"], TIMES)
            assert found["heat"].shape == (48, 5, 7)

    def test_variables_that_are_dropped(self, path: Path) -> None:
        with xr.open_dataset(path, drop_variables=["heat", "lat", "unused"]) as found:
            xr.testing.assert_equal(found.load()[["count", "run"]], weather()[["count", "run"]])
            assert not {"heat", "lat", "unused"} & {*found.variables}

    def test_a_url(self, path: Path) -> None:
        with running(FileServer()) as server:
            server.files["/a.blp"] = path.read_bytes()
            with xr.open_dataset(server.url("a.blp"), storage_options={}) as found:
                assert found["heat"].shape == (48, 5, 7)
                assert len(server.log) <= 2

    def test_variables_of_a_url_are_opened_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        noise = RNG.integers(0, 2**62, (3, 50_000))
        bp.save(
            tmp_path / "a.blp", xr.Dataset({name: ("x", noise[n]) for n, name in enumerate("abc")})
        )
        asked: list[list[Any]] = []
        prefetch = RemoteSource.prefetch

        def noting(self: Any, extents: Any) -> Any:
            asked.append([*extents])
            return prefetch(self, asked[-1])

        monkeypatch.setattr(RemoteSource, "prefetch", noting)
        with running(FileServer()) as server:
            server.files["/a.blp"] = (tmp_path / "a.blp").read_bytes()
            with xr.open_dataset(server.url("a.blp"), storage_options={}) as found:
                assert [len(each) for each in asked] == [3]
                assert len(server.log) <= 5
                assert np.array_equal(found["b"][5:9], noise[1, 5:9])

    def test_those_of_one_array_are_refused(self, path: Path, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="name and dims are for a file of one array"):
            xr.open_dataset(path, dims=["a"])
        bp.save(tmp_path / "b.blp", np.arange(3))
        with pytest.raises(ValueError, match="group is for an archive"):
            xr.open_dataset(tmp_path / "b.blp", group="x")

    def test_those_of_save(self, tmp_path: Path) -> None:
        dataset = weather()
        dataset.blp.save(tmp_path / "b.blp", codec="lz4", attrs={"title": "mine"})
        with bp.open(tmp_path / "b.blp") as archive:
            assert archive["heat"].codec == "lz4"
            assert archive.attrs["title"] == "mine"
        with pytest.raises(FileExistsError):
            dataset.blp.save(tmp_path / "b.blp", overwrite=False)
        for option in ({"like": bp.open(f"{tmp_path}/b.blp::/heat")}, {"progress": True}):
            with pytest.raises(TypeError, match="like and progress are for one array"):
                dataset.blp.save(tmp_path / "c.blp", **option)
        with pytest.raises(TypeError, match="chunk_rows"):
            dataset.blp.save(tmp_path / "c.blp", chunk_rows=1)

    def test_a_frame_store_is_refused(self, tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "f.blp") as store:
            store.append("a", np.zeros((2, 3), "u1"))
        with pytest.raises(bp.exceptions.WrongKindError):
            xr.open_dataset(tmp_path / "f.blp", engine="bloscpack")


class TestArraysThatDoNotFit:
    def series(self, start: int, size: int = 20, **attrs: Any) -> Any:
        coords = {"x": ("x", np.arange(start, start + size), attrs)}
        return xr.DataArray(np.zeros(size), dims="x", coords=coords)

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            ({"start": 1}, "arrays 'a' and 'b' have different coordinates 'x'"),
            ({"start": 0, "units": "m"}, "arrays 'a' and 'b' have different coordinates 'x'"),
            ({"start": 0, "size": 21}, "arrays 'a' and 'b' have different coordinates 'x'"),
        ],
    )
    def test_coordinates(self, tmp_path: Path, other: dict[str, Any], message: str) -> None:
        bp.savez(tmp_path / "a.blp", a=self.series(0), b=self.series(**other))
        with pytest.raises(UnsupportedError, match=rf"a\.blp: {message}.*drop_variables"):
            xr.open_dataset(tmp_path / "a.blp")

    def test_lengths(self, tmp_path: Path) -> None:
        arrays = {name: xr.DataArray(np.zeros(n), dims="x") for name, n in (("a", 2), ("b", 3))}
        bp.savez(tmp_path / "a.blp", arrays)
        with pytest.raises(UnsupportedError, match="'x' has length 2 in 'a', and 3 in 'b'"):
            xr.open_dataset(tmp_path / "a.blp")
        with xr.open_dataset(tmp_path / "a.blp", drop_variables="b") as found:
            assert list(found) == ["a"]

    def test_an_array_and_a_coordinate_of_one_name(self, tmp_path: Path) -> None:
        bp.savez(tmp_path / "a.blp", a=self.series(0), x=np.arange(20))
        with pytest.raises(UnsupportedError, match="array 'x' differs from the coordinates of 'a'"):
            xr.open_dataset(tmp_path / "a.blp")

    def test_axes_without_names(self, tmp_path: Path) -> None:
        bp.savez(tmp_path / "a.blp", a=np.zeros((2, 3)), b=np.zeros((4, 3)), c=np.zeros(2))
        with xr.open_dataset(tmp_path / "a.blp") as found:
            assert {name: each.dims for name, each in found.items()} == {
                "a": ("dim_0", "dim_1"),
                "b": ("dim_0_4", "dim_1"),
                "c": ("dim_0",),
            }

    def test_groups(self, tmp_path: Path) -> None:
        arrays = {"u/a": self.series(0), "v/a": self.series(5), "v/w/b": self.series(5)}
        bp.savez(tmp_path / "a.blp", arrays, attrs={"/v": {"title": "of v"}, "title": "root"})
        with pytest.raises(UnsupportedError, match="different coordinates 'x'"):
            xr.open_dataset(tmp_path / "a.blp")
        with xr.open_dataset(tmp_path / "a.blp", group="v") as found:
            assert (list(found), found.attrs) == (["a", "w/b"], {"title": "of v"})
            assert found["x"].values[0] == 5
        with pytest.raises(NotFoundError, match="no group 'z'"):
            xr.open_dataset(tmp_path / "a.blp", group="z")


def test_variables_that_attrs_name_are_coordinates_on_request(tmp_path: Path) -> None:
    dataset = xr.Dataset(
        {"a": ("x", [1.0, 2.0])},
        {"x": [1, 2], "edges": (("x", "n"), [[0, 1], [1, 2]]), "crs": 0},
    )
    dataset["a"].encoding["grid_mapping"] = "crs"
    dataset["x"].encoding["bounds"] = "edges"
    dataset.blp.save(tmp_path / "a.blp")
    with xr.open_dataset(tmp_path / "a.blp", decode_coords="all") as found:
        xr.testing.assert_identical(found, dataset)
    with xr.open_dataset(tmp_path / "a.blp") as found:
        assert found["a"].attrs == {"grid_mapping": "crs"}


def test_decoded_and_raw_arrays_of_one_archive(tmp_path: Path) -> None:
    raw = {"dims": ["t"], "units": "days since 2000-01-01"}
    bp.save(tmp_path / "raw.blp", np.arange(3), attrs=raw)
    saved = xr.DataArray(np.arange(3), dims="t", attrs={"units": "days since 2000-01-01"})
    with bp.open(tmp_path / "raw.blp") as array:
        bp.savez(tmp_path / "a.blp", raw=array, saved=saved)
    with xr.open_dataset(tmp_path / "a.blp") as found:
        assert found["raw"].dtype.kind == "M"
        assert found["saved"].dtype.kind == "i"
    with xr.open_dataset(tmp_path / "a.blp", decode_cf=False) as found:
        assert found["raw"].dtype.kind == "i"
