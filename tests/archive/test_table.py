"""Tables of pandas go into an archive, and come out equal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import UnsupportedError

pd = pytest.importorskip("pandas")
assert_frame_equal = pytest.importorskip("pandas.testing").assert_frame_equal
RNG = np.random.default_rng(0)
N = 3000
COLUMNS = {
    "a": RNG.normal(size=N),
    "b": np.arange(N, dtype="i2"),
    "c": RNG.random(N) > 0.5,
    "coords": np.full(N, np.nan, "f4"),
    "d": np.arange(N).astype("m8[s]"),
    "e/f": np.arange(N) * 1j,
}
INDEXES = {
    "none": None,
    "even": pd.RangeIndex(7, 7 + 3 * N, 3),
    "floats": pd.Index(RNG.normal(size=N), name="depth"),
    "texts": pd.Index([f"k{n % 7}" for n in range(N)], name="key"),
    "times": pd.date_range("2026-01-01", periods=N, freq="h", name="time"),
    "times with NaT": pd.DatetimeIndex([None, *np.arange(N - 1).astype("M8[us]")]),
}


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("save", [bp.save, bp.savez])
def test_a_table_comes_out_as_it_went_in(index: str, save: Any, tmp_path: Path) -> None:
    table = pd.DataFrame(COLUMNS, index=INDEXES[index])
    table.attrs = {"source": "buoy"}
    save(tmp_path / "a.blp", table, chunks=1000)
    loaded = bp.load(tmp_path / "a.blp")
    for name, values in COLUMNS.items():
        assert loaded[name].tobytes() == values.tobytes()
    with bp.open(tmp_path / "a.blp") as archive:
        assert archive["a"].chunks == (1000,)
        found = archive.to_dataframe()
    assert_frame_equal(found, table, check_freq=False)
    assert found.attrs == table.attrs
    assert bp.verify(tmp_path / "a.blp").ok


@given(
    st.lists(
        st.sampled_from(["i1", "u8", "f2", "f8", "?", "M8[s]", "m8[ns]"]), min_size=1, max_size=3
    ),
    st.integers(0, 40),
    st.sampled_from(["i8", "f8", "M8[ms]", "U3"]),
)
def test_any_types_and_lengths(
    tmp_path_factory: pytest.TempPathFactory, dtypes: list[str], n: int, index: str
) -> None:
    numbers = np.arange(n) - n // 2
    columns = {f"c{number}": numbers.astype(dtype) for number, dtype in enumerate(dtypes)}
    table = pd.DataFrame(columns, index=pd.Index((numbers**2).astype(index)))
    path = tmp_path_factory.mktemp("table") / "a.blp"
    bp.save(path, table)
    with bp.open(path) as archive:
        assert_frame_equal(archive.to_dataframe(), table, check_index_type=bool(n))


def test_xarray_opens_it_as_a_dataset(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    table = pd.DataFrame(COLUMNS, index=INDEXES["times"])
    bp.save(tmp_path / "a.blp", table)
    with xr.open_dataset(tmp_path / "a.blp", engine="bloscpack") as found:
        xr.testing.assert_equal(found, table.to_xarray())


class TestAppending:
    @pytest.mark.parametrize("index", ["none", "even", "floats", "texts", "times"])
    def test_rows_of_a_table(self, index: str, tmp_path: Path) -> None:
        pytest.importorskip("xarray")
        table = pd.DataFrame(COLUMNS, index=INDEXES[index])
        if index == "texts":
            table.index = pd.Index([f"k{n:04}" for n in range(N)], name="key")
        bp.save(tmp_path / "a.blp", table.iloc[:1000])
        bp.append(tmp_path / "a.blp", table.iloc[1000:1001])
        bp.append(tmp_path / "a.blp", table.iloc[1001:])
        with bp.open(tmp_path / "a.blp") as archive:
            assert_frame_equal(archive.to_dataframe(), table, check_freq=False)

    def test_what_does_not_fit_is_refused(self, tmp_path: Path) -> None:
        pytest.importorskip("xarray")
        table = pd.DataFrame({"a": np.arange(5), "b": np.arange(5.0)})
        bp.save(tmp_path / "a.blp", table)
        before = (tmp_path / "a.blp").read_bytes()
        for rows, why in (
            (table, "'index'"),  # the same rows again
            (table[["a"]], r"lacks \['b'\]"),
            (table.assign(c=1), r"no variables \['c'\]"),
            (table.assign(b="x").set_index(table.index + 5), "columns 'b' have no type of numpy"),
            (table.assign(a=1.5).set_index(table.index + 5), "'a' is float64, in the file int64"),
        ):
            with pytest.raises((TypeError, ValueError), match=why):
                bp.append(tmp_path / "a.blp", rows)
        assert (tmp_path / "a.blp").read_bytes() == before


ONE = pd.DataFrame({"a": [1]})
REFUSED = {
    "empty": (pd.DataFrame(), "no columns"),
    "numbered columns": (pd.DataFrame(np.zeros((2, 2))), r"0, 1, .*x\.rename\(columns=str\)"),
    "the same names": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns .* 'a'"),
    "texts": (pd.DataFrame({"a": ["x"], "b": [1]}), r"columns 'a' have no type of numpy: .*astype"),
    "categories": (pd.DataFrame({"a": pd.Categorical(["x"])}), "columns 'a' have no type of numpy"),
    "missing values": (pd.DataFrame({"a": pd.array([None], "Int64")}), "columns 'a' have no type"),
    "zone": (pd.DataFrame({"a": pd.to_datetime(["2026"]).tz_localize("UTC")}), "columns 'a' have"),
    "named columns": (ONE.rename_axis(columns="u"), r"rename_axis\(columns=None\)"),
    "levels": (ONE.set_index(pd.MultiIndex.from_tuples([(1, 2)])), r"x\.reset_index\(\)"),
    "index of categories": (ONE.set_index(pd.CategoricalIndex(["x"])), "index of type category"),
    "index of objects": (ONE.set_index(pd.Index([object()])), "'index'.* holds Python objects"),
    "index of the name of a column": (ONE.rename_axis("a"), "cannot be stored by the name 'a'"),
    "index named index": (ONE.rename_axis("index"), "cannot be stored by the name 'index'"),
    "index with a number for a name": (ONE.rename_axis(3), "cannot be stored by the name 3"),
    "subclass": (type("GeoDataFrame", (pd.DataFrame,), {})({"a": [1]}), "a GeoDataFrame has more"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_lost_is_refused(name: str, tmp_path: Path) -> None:
    table, why = REFUSED[name]
    for save in (bp.save, bp.savez):
        with pytest.raises(TypeError, match=why):
            save(tmp_path / "a.blp", table)
    assert not [*tmp_path.iterdir()]


def test_options_of_one_array_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not for a Dataset or DataFrame"):
        bp.save(tmp_path / "a.blp", ONE, progress=True)
    with pytest.raises(TypeError, match=r"bloscpack\.save\(path, x\)"):
        bp.savez(tmp_path / "a.blp", table=ONE)


class TestOtherArchives:
    def test_arrays_of_one_length_are_columns(self, tmp_path: Path) -> None:
        bp.savez(tmp_path / "a.blp", a=np.arange(3), b=np.ones(3, "?"))
        found = bp.open(tmp_path / "a.blp").to_dataframe()
        assert_frame_equal(found, pd.DataFrame({"a": np.arange(3), "b": np.ones(3, "?")}))

    def test_others_are_refused(self, tmp_path: Path) -> None:
        xr = pytest.importorskip("xarray")
        coords = {"x": [1, 2, 3], "y": ("x", [4, 5, 6])}
        beside = xr.DataArray(np.arange(3), dims="x", coords=coords)
        other = xr.DataArray(np.arange(3), dims="x", coords={"x": [1, 2, 4]})
        cases = {
            r"'b' has another length": {"a": np.arange(3), "b": np.arange(4)},
            r"'a' has shape \(2, 2\)": {"a": np.zeros((2, 2))},
            r"'a' has .* dtype \[": {"a": np.zeros(2, "i4,f8")},
            r"'a' has the coordinate 'y' beside": {"a": beside},
            r"'b' has another .* index": {"a": beside.drop_vars("y"), "b": other},
            "has no arrays": {},
        }
        for why, arrays in cases.items():
            bp.savez(tmp_path / "a.blp", arrays)
            with bp.open(tmp_path / "a.blp") as archive, pytest.raises(UnsupportedError, match=why):
                archive.to_dataframe()

    def test_encoded_items_are_refused(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "b.blp", np.arange(3), attrs={"scale_factor": 0.1})
        with bp.open(tmp_path / "b.blp") as array:
            bp.savez(tmp_path / "a.blp", a=array)
        with (
            bp.open(tmp_path / "a.blp") as archive,
            pytest.raises(UnsupportedError, match="'a' has attrs by which"),
        ):
            archive.to_dataframe()
