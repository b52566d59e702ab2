"""xarray and Dask arrays passed to `bloscpack.save`."""

import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackWarning

xr = pytest.importorskip("xarray")
pandas = pytest.importorskip("pandas")
da = pytest.importorskip("dask.array")

TIMES = np.array(["2026-01-01", "NaT", "2026-03-01", "2026-04-01"], "M8[ns]")


def labelled() -> Any:
    return xr.DataArray(
        np.arange(12.0, dtype="f4").reshape(3, 4),
        dims=("height", "time"),
        coords={
            "height": [1.5, np.nan, 3],
            "time": ("time", TIMES, {"long_name": "begin"}),
            "lag": ("time", np.array([1, -2, 3, 4], "m8[s]")),
            "station": ("height", ["a", "größe", ""]),
            "code": ("height", np.array([b"a", b"bc", b""])),
            "phase": ("height", np.array([1 + 2j, 0, -0.5j])),
            "mask": (("height", "time"), np.eye(3, 4, dtype=bool)),
            "run": np.int16(7),
            "short": ("height", np.array([1, 2, 3], ">u2")),
        },
        name="temperature",
        attrs={"units": "K", "scale": np.float32(0.5), "levels": np.arange(3), "deep": {"a": [1]}},
    )


def coordinate(array: Any, values: Any) -> Any:
    return array.assign_coords(c=("time", values))


@pytest.fixture
def engine() -> Any:
    return importlib.import_module("bloscpack.integrations.xarray").BloscpackBackend


VARIANTS = {
    "labelled": labelled,
    "without a name": lambda: labelled().rename(None),
    "without labels": lambda: xr.DataArray(np.zeros(3)),
    "a scalar": lambda: xr.DataArray(5, coords={"run": 1}, name="x"),
    "transposed": lambda: labelled().transpose(),
    "of Dask": lambda: labelled().chunk(2),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_data_array_is_read_back_with_its_labels(
    variant: str, tmp_path: Path, engine: Any
) -> None:
    given = VARIANTS[variant]()
    bp.save(tmp_path / "x.blp", given)
    with xr.open_dataarray(tmp_path / "x.blp", engine=engine) as found:
        xr.testing.assert_identical(found.load(), given.compute())
        for name, coord in given.coords.items():
            assert found.coords[name].dtype == coord.dtype
    assert np.array_equal(bp.load(tmp_path / "x.blp"), given.to_numpy())


def test_long_coordinates_of_one_array_are_noticed(tmp_path: Path) -> None:
    times = TIMES[0] + np.cumsum(np.arange(60_000) % 7 + 1).astype("m8[s]")
    array = xr.DataArray(np.zeros(60_000), {"time": times}, name="heat")
    with pytest.warns(BloscpackWarning, match="60000 values of coordinate 'time' are text"):
        bp.save(tmp_path / "a.blp", array)
    bp.save(tmp_path / "b.blp", array.to_dataset())
    bp.save(tmp_path / "c.blp", array.assign_coords(time=np.arange(60_000) * 0.5))  # evenly spaced
    assert 5 * (tmp_path / "b.blp").stat().st_size < (tmp_path / "a.blp").stat().st_size


def test_rounded_floats(engine: Any, tmp_path: Path) -> None:
    """The attribute is among those of the DataArray, and may be saved again as it is."""
    array = labelled()
    bp.save(tmp_path / "a.blp", array, keepbits=1)
    found = xr.open_dataarray(tmp_path / "a.blp", engine=engine)
    assert found.attrs["_QuantizeBitRoundNumberOfSignificantBits"] == 1
    assert found.values.ravel().tolist() == [0, 1, 2, 3, 4, 4, 6, 8, 8, 8, 8, 12]
    bp.save(tmp_path / "b.blp", found, keepbits=1)
    assert (tmp_path / "b.blp").read_bytes() == (tmp_path / "a.blp").read_bytes()
    with pytest.raises(ValueError, match="is 1, but the array is written with keepbits=2"):
        bp.save(tmp_path / "b.blp", found, keepbits=2)


def test_attrs_given_to_save_count(tmp_path: Path) -> None:
    bp.save(tmp_path / "x.blp", labelled(), attrs={"units": "°C", "by": "me"})
    with bp.open(tmp_path / "x.blp") as array:
        assert (array.attrs["units"], array.attrs["by"]) == ("°C", "me")
        assert array.attrs["dims"] == ["height", "time"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.stack(both=("height", "time")), r"x.reset_index\(\) if it is a MultiIndex"),
        (lambda x: x["height"], r"the name 'height' of one of its axes .* x.rename\('another'\)"),
        (lambda x: x.assign_attrs(dims="3"), "attrs has an entry 'dims'"),
        (lambda x: x.assign_attrs(when=TIMES[0]), r"attrs\['when'\] is not a JSON value"),
        (lambda x: x.assign_attrs({3: 4}), "the name 3 .* is not text"),
        (lambda _: xr.DataArray(np.zeros(3), dims=(5,)), "the name 5 .* is not text"),
        (lambda x: x.rename(7), "its labels cannot be stored: .* not text"),
        (lambda x: coordinate(x, np.ones(4, np.longdouble)), r"coords\['c'\]\[0\] is not a JSON"),
        (lambda x: coordinate(x, np.array([b"\xff"] * 4)), r"coords\[.c.\] has bytes that are not"),
        (lambda x: coordinate(x, np.array(["a\0"] * 4, object)), "would not be read back equal"),
        (
            lambda x: coordinate(x, pandas.array([1, None, 2, 3], dtype="Int64")),
            "its missing values are not stored",
        ),
    ],
)
def test_labels_that_would_be_lost_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        bp.save(tmp_path / "x.blp", change(labelled()))
    assert not (tmp_path / "x.blp").exists()


def test_a_variable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="its dims, coords and attrs are not stored"):
        bp.save(tmp_path / "x.blp", labelled().variable)


class TestDask:
    @pytest.fixture
    def whole(self) -> Any:
        return np.arange(1 << 20, dtype="<i4").reshape(1 << 10, 1 << 10)

    def test_the_bytes_of_the_computed_array(self, whole: Any, tmp_path: Path) -> None:
        lazy = da.from_array(whole, chunks=(300, 700))
        done: list[tuple[int, int]] = []
        options: Any = {"chunks": 100, "codec": "lz4", "attrs": {"a": 1}, "checksum": "adler32"}
        bp.save(tmp_path / "lazy.blp", lazy, progress=lambda *now: done.append(now), **options)
        bp.save(tmp_path / "whole.blp", whole, **options)
        assert (tmp_path / "lazy.blp").read_bytes() == (tmp_path / "whole.blp").read_bytes()
        assert done == [(whole.nbytes, whole.nbytes)]

    def test_it_is_never_in_memory_as_a_whole(
        self, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("the whole array was computed")

        monkeypatch.setattr(da.Array, "__array__", refuse)
        bp.save(tmp_path / "x.blp", da.from_array(whole, chunks=(128, 1024)))
        assert np.array_equal(bp.load(tmp_path / "x.blp"), whole)

    def test_a_file_object_is_refused(self, whole: Any) -> None:
        with pytest.raises(TypeError, match=r"by parts, to a path or URL .* x.compute\(\)"):
            bp.save(io.BytesIO(), da.from_array(whole))
