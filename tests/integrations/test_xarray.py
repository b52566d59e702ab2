"""Arrays in files as xarray datasets: labelled by their attrs, read when indexed."""

import importlib
import io
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import ChecksumMismatch, UnsupportedError

from ..arrayfiles import NotingFile, array_file, bytes_read_per_chunk
from ..conftest import SMALL_VECTORS
from ..servers import FileServer, running
from .arrays import DTYPES, array_of, check_equal

xr = pytest.importorskip("xarray")
RAMP = np.arange(40 * 6 * 50, dtype="<i4").reshape(40, 6, 50)
TIMES = np.datetime64("2026-01-01") + np.arange(40)
ATTRS = {
    "name": "height",
    "dims": ["time", "y", "x"],
    "coords": {
        "time": {"data": TIMES.astype(str).tolist(), "dtype": TIMES.dtype.str},
        "y": [5.5, 4.5, 3.5, 2.5, 1.5, 0.5],
        "place": {"dims": ["y"], "data": ["a", "b", "c", "d", "e", "größe"]},
        "mask": {"dims": ["y", "x"], "data": (np.arange(300).reshape(6, 50) % 2).tolist()},
        "run": {"data": 7, "attrs": {"long_name": "number of the run"}},
    },
    "units": "m",
}


def even(dtype: Any, start: Any, step: Any, **more: Any) -> dict[str, Any]:
    """Return the entry of an evenly spaced coordinate along the first axis."""
    return {"dims": ["dim_0"], "dtype": dtype, "data": {"start": start, "step": step, **more}}


@pytest.fixture
def engine() -> Any:
    return importlib.import_module("bloscpack.integrations.xarray").BloscpackBackend


@pytest.fixture
def ramp(tmp_path: Path) -> Path:
    bp.save(tmp_path / "ramp.blp", RAMP, chunks=7, attrs=ATTRS)
    return tmp_path / "ramp.blp"


def save_unchecked(path: Path, attrs: dict[str, Any]) -> None:
    """Save the ramp with attrs that `save` may refuse."""
    bp.save(path, RAMP)
    with bp.open(path, "a") as array:
        array.attrs.update(attrs)


class TestLabels:
    def test_names_and_coordinates(self, ramp: Path, engine: Any) -> None:
        with xr.open_dataset(ramp, engine=engine) as dataset:
            assert list(dataset.data_vars) == ["height"]
            height = dataset["height"]
            assert height.dims == ("time", "y", "x")
            assert height.attrs == {"units": "m"}
            assert set(dataset.coords) == {"time", "y", "place", "mask", "run"}
            assert np.array_equal(height["time"], TIMES)
            assert height["place"].values.tolist() == ["a", "b", "c", "d", "e", "größe"]
            assert height["mask"].dims == ("y", "x")
            assert int(height["run"]) == 7
            assert height["run"].attrs == {"long_name": "number of the run"}
            check_equal(height.values, RAMP)
            assert np.array_equal(height.sel(time="2026-01-09", y=3.5), RAMP[8, 2])

    def test_without_labels(self, tmp_path: Path, engine: Any) -> None:
        bp.save(tmp_path / "a.blp", RAMP, attrs={"units": "m"})
        with xr.open_dataset(tmp_path / "a.blp", engine=engine) as dataset:
            assert dataset["data"].dims == ("dim_0", "dim_1", "dim_2")
            assert dataset["data"].attrs == {"units": "m"}
        options = {"dims": ["t", "y", "x"], "name": "height"}
        with xr.open_dataset(tmp_path / "a.blp", engine=engine, **options) as dataset:
            assert dataset["height"].dims == ("t", "y", "x")

    def test_variables_that_are_dropped(self, ramp: Path, engine: Any) -> None:
        dropped = ["height", "mask"]
        with xr.open_dataset(ramp, engine=engine, drop_variables=dropped) as dataset:
            assert set(dataset.variables) == {"time", "y", "place", "run"}
        with xr.open_dataset(ramp, engine=engine, drop_variables="mask") as dataset:
            assert "mask" not in dataset.coords

    @pytest.mark.parametrize(
        ("attrs", "why"),
        [
            ({"dims": ["a", "b"]}, "2 dimensions|3 dimensions"),
            ({"dims": ["a", "b", "a"]}, "all different"),
            ({"dims": "abc"}, "not a list of names"),
            ({"dims": [1, 2, 3]}, "not a list of names"),
            ({"dims": {"a": 1}}, "not a list of names"),
            ({"name": 5}, "not text"),
            ({"name": "dim_0"}, "an axis or a coordinate"),
            ({"name": "c", "coords": {"c": 5}}, "an axis or a coordinate"),
            ({"coords": [1]}, "not an object"),
            ({"coords": {"dim_0": [1, 2]}}, r"of shape \(2,\), but its dims have \(40,\)"),
            ({"coords": {"a": [1, 2]}}, "along"),
            ({"coords": {"a": {"dims": ["b"], "data": 1}}}, "along"),
            ({"coords": {"a": {"dims": [["b"]], "data": 1}}}, "along"),
            ({"coords": {"a": {"dims": 3, "data": 1}}}, "along"),
            ({"coords": {"a": {"dims": ["dim_1", "dim_1"], "data": [[0] * 6] * 6}}}, "along"),
            ({"coords": {"dim_0": 5}}, "along"),
            ({"coords": {"dim_0": {"dims": ["dim_1"], "data": [0] * 6}}}, "along"),
            ({"coords": {"a": {"data": 1, "attrs": 3}}}, "attrs"),
            ({"coords": {"a": {}}}, "not an array"),
            ({"coords": {"a": None}}, "not an array"),
            ({"coords": {"a": {"data": {"b": 1}}}}, "not an array"),
            ({"coords": {"a": {"data": {"start": 0, "step": 1}}}}, "not an array"),
            ({"coords": {"dim_0": even("<i4", 0, 1, size=40)}}, "not an array"),
            ({"coords": {"dim_0": even(None, 0, 1)}}, "not text"),
            ({"coords": {"dim_0": even("<i4", 0, 0.5)}}, "do not fit dtype '<i4'"),
            ({"coords": {"dim_0": even("<i4", 0, True)}}, "do not fit"),
            ({"coords": {"dim_0": even("|u1", 0, 7)}}, "do not fit"),
            ({"coords": {"dim_0": even("<u8", 0, -1)}}, "do not fit"),
            ({"coords": {"dim_0": even("<M8[s]", 2**63 - 39, 1)}}, "do not fit"),
            ({"coords": {"dim_0": even("<f8", 0.5, float("inf"))}}, "do not fit"),
            ({"coords": {"dim_0": even("<c16", 0, 1)}}, "do not fit"),
            ({"coords": {"dim_0": even("<U4", 0, 1)}}, "do not fit"),
            ({"coords": {"dim_0": {"array": "dim_0"}}}, "missing: no array 'dim_0'"),
            ({"coords": {"dim_0": {"array": 3}}}, "which is not open"),
            ({"coords": {"a": {"data": 2**70}}}, "not an array"),
            ({"coords": {"dim_1": [1, 2, 3, 4, 5, [6]]}}, "array"),
            ({"coords": {"dim_1": [1, 2, 3, 4, 5, None]}}, "array"),
            ({"coords": {"dim_1": [[1], [2, 3], [], [], [], []]}}, "array"),
            ({"coords": {"a": {"data": "x", "dtype": "<M8[D]"}}}, "array"),
            ({"coords": {"a": {"data": "x", "dtype": "<i4"}}}, "array"),
            ({"coords": {"a": {"data": 300, "dtype": "|u1"}}}, "array"),
            ({"coords": {"a": {"data": 1.7, "dtype": "<i4"}}}, "do not fit dtype '<i4'"),
            ({"coords": {"a": {"data": 2, "dtype": "|b1"}}}, "do not fit"),
            ({"coords": {"a": {"data": "abc", "dtype": "<U2"}}}, "do not fit"),
            ({"coords": {"a": {"data": "abc", "dtype": "|S2"}}}, "do not fit"),
            ({"coords": {"a": {"data": 123, "dtype": "<U2"}}}, "do not fit"),
            ({"coords": {"a": {"data": 1e300, "dtype": "<f4"}}}, "overflow"),
            ({"coords": {"a": {"data": "x", "dtype": "|O"}}}, "dtype"),
            ({"coords": {"a": {"data": "x", "dtype": "no"}}}, "dtype"),
            ({"coords": {"a": {"data": "x", "dtype": 5}}}, "dtype"),
            ({"coords": {"a": {"data": "x", "dtype": "|S2000000000"}}}, "too large"),
            ({"coords": {"a": {"data": 1, "dtype": "bfloat16"}}}, "array|dtype"),
            ({"dims": ["t", "y", "x"], "coords": {"t": ["x" * 500_000] + ["y"] * 39}}, "too large"),
        ],
        ids=lambda value: str(value)[:60],
    )
    def test_labels_that_do_not_fit(
        self, tmp_path: Path, engine: Any, attrs: dict[str, Any], why: str
    ) -> None:
        path = tmp_path / "a.blp"
        save_unchecked(path, attrs)
        with pytest.raises(UnsupportedError, match=rf"a\.blp: attrs: .*({why})"):
            xr.open_dataset(path, engine=engine)
        with pytest.raises(UnsupportedError, match="attrs"):
            bp.kerchunk_references(path)

    def test_dims_argument_overrides_attrs(self, tmp_path: Path, engine: Any) -> None:
        save_unchecked(tmp_path / "a.blp", {"dims": 5})
        with xr.open_dataset(tmp_path / "a.blp", engine=engine, dims=list("abc")) as dataset:
            assert dataset["data"].dims == ("a", "b", "c")
        with pytest.raises(ValueError, match="dims must give 3 axes"):
            xr.open_dataset(tmp_path / "a.blp", engine=engine, dims=["a"])

    def test_references_have_the_same_labels(self, ramp: Path, engine: Any) -> None:
        refs_as_store = pytest.importorskip("kerchunk.utils").refs_as_store
        store = refs_as_store(bp.kerchunk_references(ramp), read_only=True)
        by_references = xr.open_zarr(store, consolidated=False, zarr_format=2)
        with by_references, xr.open_dataset(ramp, engine=engine) as dataset:
            xr.testing.assert_identical(by_references.compute(), dataset.compute())


class TestLazy:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_every_dtype(self, tmp_path: Path, engine: Any, dtype: str, order: str) -> None:
        array = np.asarray(array_of(dtype), order=order)
        bp.save(tmp_path / "a.blp", array, chunks=4)
        with xr.open_dataset(tmp_path / "a.blp", engine=engine) as dataset:
            data = dataset["data"]
            check_equal(data.values[2:9, :, ::2], array[2:9, :, ::2])
            check_equal(
                data.isel(dim_0=[7, 3], dim_2=slice(4, 0, -1)).values, array[[7, 3], :, 4:0:-1]
            )

    @pytest.mark.parametrize("shape", [(), (0, 3), (1,)], ids=str)
    def test_small_shapes(self, tmp_path: Path, engine: Any, shape: tuple[int, ...]) -> None:
        bp.save(tmp_path / "a.blp", array_of("<f4", shape))
        with xr.open_dataset(tmp_path / "a.blp", engine=engine) as dataset:
            check_equal(dataset["data"].values, array_of("<f4", shape))

    def test_selections(self, ramp: Path, engine: Any) -> None:
        height = xr.open_dataset(ramp, engine=engine)["height"]
        assert np.array_equal(height[3], RAMP[3])
        assert np.array_equal(height[::-3, 2], RAMP[::-3, 2])
        assert np.array_equal(
            height.isel(time=[4, 30], x=[1, 1, 7]), RAMP[[4, 30]][:, :, [1, 1, 7]]
        )
        assert float(height[39, 5, 49]) == RAMP[39, 5, 49]
        points = xr.DataArray([3, 8], dims="point"), xr.DataArray([5, 0], dims="point")
        assert np.array_equal(height.isel(time=points[0], y=points[1]), RAMP[[3, 8], [5, 0]])
        assert np.array_equal(
            height.where(height["mask"] == 1, 0)[2], RAMP[2] * (np.arange(300) % 2).reshape(6, 50)
        )
        height.close()

    def test_only_chunks_that_are_needed_are_read(self, engine: Any) -> None:
        noise = np.random.default_rng(2).integers(0, 256, (40, 1 << 14), "u1")
        with io.BytesIO() as saved:
            bp.save(saved, noise, chunks=3)
            stream = NotingFile(saved.getvalue())
        dataset = xr.open_dataset(stream, engine=engine)
        stream.reads.clear()
        part = dataset["data"].isel(dim_0=slice(8, 13), dim_1=3)
        assert stream.reads == []
        assert np.array_equal(part, noise[8:13, 3])
        assert {chunk for chunk, n in bytes_read_per_chunk(stream).items() if n > 100} == {2, 3, 4}

    def test_chunks_of_dask(self, ramp: Path, engine: Any) -> None:
        pytest.importorskip("dask.array")
        with xr.open_dataset(ramp, engine=engine, chunks={}) as dataset:
            height = dataset["height"]
            assert height.chunks == ((7, 7, 7, 7, 7, 5), (6,), (50,))
            assert np.array_equal(height.sum("time"), RAMP.sum(0))

    def test_pickled_handles_are_small(self, ramp: Path, engine: Any) -> None:
        dataset = xr.open_dataset(ramp, engine=engine)
        data = pickle.dumps(dataset)
        assert len(data) < 10_000
        assert np.array_equal(pickle.loads(data)["height"], RAMP)

    def test_lazy_arrays_pass_the_checks_of_xarrays_test_kit(self, ramp: Path, engine: Any) -> None:
        # As `find_and_validate_array` in xarray/tests/test_backends.py: the attribute `array` of a
        # wrapper must be a wrapper itself, or in memory.
        with xr.open_dataset(ramp, engine=engine) as dataset:
            wrapper = dataset["height"].variable._data
            while hasattr(wrapper, "array"):
                wrapper = wrapper.array
                assert isinstance(wrapper, xr.core.indexing.ExplicitlyIndexed)
            assert type(wrapper).__name__ == "LazyArray"

    def test_closing(self, ramp: Path, engine: Any) -> None:
        dataset = xr.open_dataset(ramp, engine=engine)
        dataset.close()
        with pytest.raises(ValueError, match="closed"):
            dataset["height"].load()

    def test_damage(self, ramp: Path, engine: Any) -> None:
        bp.save(ramp, RAMP, chunks=7, attrs=ATTRS, codec="lz4", clevel=0)
        data = bytearray(ramp.read_bytes())
        with bp.open(ramp) as array:
            data[array.chunk_offset(2) + 40] ^= 1
        ramp.write_bytes(data)
        with xr.open_dataset(ramp, engine=engine) as dataset:
            assert np.array_equal(dataset["height"][:14], RAMP[:14])
            with pytest.raises(ChecksumMismatch, match="chunk 2"):
                dataset["height"].load()
            with pytest.raises(ChecksumMismatch):
                dataset["height"][15].load()
        with xr.open_dataset(ramp, engine=engine, verify=False) as dataset:
            assert dataset["height"][15].load().shape == (6, 50)

    def test_a_url(self, ramp: Path, engine: Any) -> None:
        with running(FileServer()) as server:
            server.files["/ramp.blp"] = ramp.read_bytes()
            url = server.url("ramp.blp")
            with xr.open_dataset(url, engine=engine, storage_options={}) as dataset:
                assert len(server.log) == 1
                assert np.array_equal(dataset["height"][9], RAMP[9])


def test_a_dataarray_saves_itself(tmp_path: Path) -> None:
    heat = xr.DataArray(
        np.arange(6.0).reshape(2, 3),
        dims=("time", "x"),
        coords={"x": [1, 2, 3]},
        name="heat",
        attrs={"unit": "K"},
    )
    heat.blp.save(tmp_path / "heat.blp", chunks=1)
    with xr.open_dataarray(tmp_path / "heat.blp") as found:
        assert found.identical(heat)
    with bp.open(tmp_path / "heat.blp") as array:
        assert array.nchunks == 2
    with pytest.raises(TypeError, match="chunk_rows"):
        heat.blp.save(tmp_path / "x.blp", chunk_rows=1)


class TestWrite:
    """`da.blp.write`: items in a region of a file."""

    @pytest.fixture
    def height(self, ramp: Path, engine: Any) -> Any:
        with xr.open_dataset(ramp, engine=engine) as dataset:
            return dataset["height"].load()

    def check(self, path: Path, engine: Any, expected: Any) -> None:
        with xr.open_dataset(path, engine=engine) as dataset:
            assert dataset["height"].load().identical(expected)
        assert bp.open(path).attrs == ATTRS
        assert bp.verify(path).ok

    def test_the_region_is_found_by_coordinates(self, ramp: Path, engine: Any, height: Any) -> None:
        height[10:20] = 1
        height[10:20].blp.write(ramp)
        self.check(ramp, engine, height)
        height[35:, 2:4] = 2
        (height[35:, 2:4]).transpose("x", "y", "time").blp.write(ramp, "auto")
        self.check(ramp, engine, height)

    def test_regions_by_position(self, ramp: Path, engine: Any, height: Any) -> None:
        height[3:9] = 3
        height[3:9].drop_vars("time").blp.write(ramp, {"time": slice(3, 9)})
        height[-2:, 1:3, ::7] = 4
        part = height[-2:, 1:3, ::7]
        region = {"time": slice(-2, None), "y": "auto", "x": slice(0, None, 7)}
        part.blp.write(ramp, region)
        height[:] = height + 1
        height.blp.write(ramp, {})
        self.check(ramp, engine, height)

    def test_blocks_of_dask(self, ramp: Path, engine: Any, height: Any) -> None:
        pytest.importorskip("dask.array", reason="dask is not installed")
        with xr.open_dataset(ramp, engine=engine, chunks={"time": 7}) as dataset:
            (dataset["height"][5:30] * 2).blp.write(ramp)
        height[5:30] *= 2
        self.check(ramp, engine, height)

    def test_an_array_of_an_archive(self, tmp_path: Path, engine: Any) -> None:
        """Its coordinate is another array, as it is long."""
        path, times = tmp_path / "a.blp", np.random.default_rng(0).random(5000).cumsum()
        variables = {"rain": (("t", "y"), np.zeros((5000, 4))), "sum": ("y", np.ones(4))}
        expected = xr.Dataset(variables, {"t": times})
        bp.save(path, expected)
        expected["rain"][10:20] = 5
        expected["rain"][10:20].blp.write(f"{path}::/rain")
        with pytest.raises(ValueError, match="'t' differs"):
            expected["rain"][10:20].blp.write(f"{path}::/rain", {"t": slice(11, 21)})
        with xr.open_dataset(path, engine=engine) as dataset:
            assert dataset.load().identical(expected)

    @pytest.mark.parametrize(
        ("change", "region", "error", "message"),
        [
            (lambda h: h[[1, 3]], "auto", ValueError, "'time' is not one part"),
            (lambda h: h[::-1], "auto", ValueError, "'time' is not one part"),
            (lambda h: h[:3].assign_coords(time=TIMES[:3] - 1), "auto", ValueError, "not one part"),
            (lambda h: h[:3].drop_vars("time"), "auto", ValueError, "has no coordinate 'time'"),
            (lambda h: h[:3], {"time": slice(1, 4)}, ValueError, "'time' differs"),
            (lambda h: h[:3], {"time": slice(38, 41)}, ValueError, "length 3 .* the region 2"),
            (lambda h: h[:3], {"y": slice(0, 6)}, ValueError, "length 3 .* the region 40"),
            (lambda h: h[:1], {}, ValueError, "length 1 .* the region 40"),
            (lambda h: h[:3], {"t": slice(0, 3)}, ValueError, "mapping of dims"),
            (lambda h: h[:3], "all", ValueError, "mapping of dims"),
            (lambda h: h[:3], {"time": 3}, TypeError, "'time' must be a slice"),
            (lambda h: h[0], "auto", ValueError, r"dims \('y', 'x'\), the file"),
            (lambda h: h.rename(x="z"), "auto", ValueError, "dims"),
            (lambda h: h.assign_coords(run=8), "auto", ValueError, "'run' differs"),
            (lambda h: h.assign_coords(mask=h["mask"] + 1), "auto", ValueError, "'mask' differs"),
            (lambda h: h.astype(complex), "auto", TypeError, "in the file int32: use astype"),
            (lambda h: h.astype("i8") + 2**40, "auto", ValueError, "do not fit"),
        ],
    )
    def test_what_does_not_fit_changes_nothing(
        self, ramp: Path, height: Any, change: Any, region: Any, error: Any, message: str
    ) -> None:
        before = ramp.read_bytes()
        with pytest.raises(error, match=message):
            change(height).blp.write(ramp, region)
        assert ramp.read_bytes() == before

    @pytest.mark.filterwarnings("ignore:saving variable item")  # by older xarray
    def test_items_that_xarray_decodes(self, tmp_path: Path, engine: Any) -> None:
        path = tmp_path / "a.blp"
        bp.save(path, RAMP, attrs={"scale_factor": 0.5})
        with xr.open_dataset(path, engine=engine) as dataset:
            data = dataset["data"].load()
        (data + 0.5).blp.write(path)
        check_equal(bp.load(path), RAMP + 1)
        with pytest.raises(
            ValueError, match=r"not read back with the encoding .*scale_factor=0.5.*of the file"
        ):
            (data * 2.0**70).blp.write(path)
        data.blp.write(path)
        data.drop_encoding().blp.save(path, overwrite=True)  # as decoded items
        (data * 2).blp.write(path)
        check_equal(bp.load(path), RAMP * 1.0)


class TestEngine:
    @pytest.mark.usefixtures("installed_engine")
    def test_xarray_finds_it(self, ramp: Path, tmp_path: Path) -> None:
        with xr.open_dataset(ramp) as dataset:
            assert np.array_equal(dataset["height"], RAMP)
        with xr.open_dataarray(ramp, engine="bloscpack") as height:
            assert height.name == "height"
        (tmp_path / "other").write_bytes(ramp.read_bytes())
        with xr.open_dataset(tmp_path / "other") as dataset:
            assert np.array_equal(dataset["height"], RAMP)
        assert "Bloscpack" in repr(xr.backends.list_engines()["bloscpack"])

    def test_files_that_the_engine_accepts(self, engine: Any, ramp: Path, tmp_path: Path) -> None:
        backend = engine()
        (tmp_path / "a.nc").write_bytes(b"CDF\1")
        (tmp_path / "b").write_bytes(ramp.read_bytes())
        (tmp_path / "empty").write_bytes(b"")
        taken = [
            ramp,
            str(ramp),
            "s3://box/a.blp",
            "https://host/a.blp?key=x",
            tmp_path / "b",
            ramp.read_bytes(),
            memoryview(ramp.read_bytes()),
            "none.blp",
        ]
        refused = [
            tmp_path / "a.nc",
            tmp_path / "empty",
            tmp_path / "none",
            tmp_path,
            "s3://box/a.nc",
            b"CDF",
            b"",
            io.BytesIO(b"blpk"),
            3,
            None,
        ]
        assert [each for each in taken if not backend.guess_can_open(each)] == []
        assert [each for each in refused if backend.guess_can_open(each)] == []

    @pytest.mark.parametrize("name", ["shape_2d_F.blp", "legacy_v2_default.blp"])
    def test_files_of_the_original(self, engine: Any, name: str) -> None:
        with bp.open(SMALL_VECTORS / name) as array:
            expected = array.read()
        with xr.open_dataset(SMALL_VECTORS / name, engine=engine) as dataset:
            check_equal(dataset["data"].values, expected)

    @pytest.mark.parametrize("nbytes", [70, 104])
    def test_chunks_that_cut_rows(self, engine: Any, nbytes: int) -> None:
        data = array_file(RAMP, chunk_nbytes=nbytes)
        with xr.open_dataset(io.BytesIO(data), engine=engine) as dataset:
            check_equal(dataset["data"].values, RAMP)
            assert "preferred_chunks" not in dataset["data"].encoding

    def test_xarray_is_named_where_it_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "xarray", None)
        for part in ("", "changes", "dataset"):
            monkeypatch.delitem(sys.modules, f"bloscpack.integrations.xarray{part}", raising=False)
        with pytest.raises(ImportError, match=r"bloscpack\[xarray\]"):
            importlib.import_module("bloscpack.integrations.xarray")
