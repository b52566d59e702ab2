"""Values that `numpy.asarray` would convert with a loss are refused, with advice."""

import io
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array.arraylike import as_array


class Group(Mapping[str, Any]):
    """Mapping of arrays, like an h5py group."""

    def __init__(self, **entries: Any) -> None:
        self._entries = entries

    def __getitem__(self, key: str) -> Any:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class Keyed:
    """Object with keys that is not registered as a mapping, like a zarr group."""

    def __init__(self, **entries: Any) -> None:
        self.__getitem__, self.keys = entries.__getitem__, entries.keys

    def __getitem__(self, key: str) -> Any:
        raise NotImplementedError


def stand_in(library: str, name: str, /, **members: Any) -> Any:
    """Return an object that numpy accepts, of a fake class of a library that may be missing."""
    kind = type(name, (), {"__module__": f"{library}.core", **members})
    kind.__array__ = lambda self, dtype=None, copy=None: np.arange(3)  # type: ignore[attr-defined]
    return kind()


def masked() -> Any:
    return np.ma.masked_equal([1, 2, 3], 2)


def masked_records() -> Any:
    return np.ma.array([(1, 2.0)], mask=[(False, True)], dtype="i4,f8")


class WithUnit(np.ndarray[Any, Any]):
    unit = "km"


class WithState(np.ndarray[Any, np.dtype[Any]]):
    """Array with a mask of its own, as astropy's `Masked`."""

    def __new__(cls, values: Any, **state: Any) -> Any:
        array = np.asarray(values).view(cls)
        for name, value in state.items():
            setattr(array, name, value)
        return array


class WithSlot(WithState):
    __slots__ = ("scale",)


class MappedState(np.memmap[Any, Any]):
    """Array of a class of its own, in a file, without more than its items."""

    def __array_finalize__(self, source: Any) -> None:
        super().__array_finalize__(source)
        self.info = None


def npz(folder: Path) -> Any:
    np.savez(folder / "both.npz", temperature=np.arange(3), depth=np.arange(2))
    return np.load(folder / "both.npz")


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "npz": (npz, r"'numpy.*NpzFile': it is a mapping; .*: x\['temperature'\], x\['depth'\]"),
    "group": (
        lambda _: Group(a=np.arange(3)),
        r"bloscpack.savez stores all its arrays; to store one, use: x\['a'\]",
    ),
    "many": (lambda _: Group(a=1, b=2, c=3, d=4), r"x\['a'\], x\['b'\], x\['c'\], \.\.\."),
    "dict": (lambda _: {"a": np.arange(3)}, r"'dict': it is a mapping"),
    "empty": (lambda _: {}, r"x\['name'\]"),
    "keyed": (lambda _: Keyed(a=np.arange(3)), r"x\['a'\]"),
    "set": (lambda _: {1, 2}, r"sorted\(x\)"),
    "keys": (lambda _: {1: 2}.keys(), r"sorted\(x\)"),
    "generator": (lambda _: (n for n in range(3)), r"numpy.stack\(list\(x\)\)"),
    "file": (lambda _: io.BytesIO(b"a"), r"numpy.stack"),
    "str": (lambda _: "other.blp", r"bloscpack.load"),
    "path": (lambda folder: folder, r"bloscpack.load"),
    "bytes": (lambda _: b"a\0", r"numpy.frombuffer"),
    "object": (lambda _: object(), r"expected an array, got 'object'$"),
    "none": (lambda _: None, r"expected an array"),
    "sparse": (lambda _: stand_in_sparse(), r"x.toarray\(\)"),
    "masked": (lambda _: masked(), r"x.filled\(fill_value\)"),
    "masked records": (lambda _: masked_records(), r"x.filled"),
    "unit": (lambda _: np.arange(3).view(WithUnit), r"its unit 'km' is not stored; use x.value"),
    "series": (lambda _: stand_in("pandas", "Series"), r"its index and column names"),
    "named index": (lambda _: stand_in("pandas", "Index", name="day"), r"its name is not stored"),
    "missing values": (
        lambda _: [stand_in("pandas", "BaseMaskedArray", isna=lambda _: np.array([False, True]))],
        r"its missing values are not stored: use x.to_numpy\(na_value=fill_value\)",
    ),
    "missing values of an index": (
        lambda _: stand_in("pandas", "Index", name=None, array=REFUSED["missing values"][0](_)[0]),
        "its missing values are not stored",
    ),
    "levels": (lambda _: stand_in("pandas", "MultiIndex"), r"x.to_frame\(index=False\)"),
    "null values": (lambda _: stand_in("pyarrow", "Array", null_count=1), r"x.fill_null\(fill"),
    "tree": (lambda _: stand_in("xarray", "DataTree"), r"it has groups: x.to_zarr"),
    "gradient": (lambda _: Tensor(), r"'.*Tensor': call x.detach\(\) first$"),
    "polars": (lambda _: stand_in("polars", "DataFrame"), r"x.to_numpy\(\)"),
    "arrow": (lambda _: stand_in("pyarrow", "Table"), r"column names"),
    "variable": (lambda _: stand_in("xarray", "Variable"), r"dims, coords and attrs"),
    "list of datasets": (
        lambda _: [stand_in("xarray", "Dataset", data_vars={"t": 1})],
        r"savez stores all of them; to store one, use: x\['t'\]",
    ),
    "palette": (lambda _: stand_in("PIL", "Image", mode="P"), r"x.convert\('RGB'\)"),
    "film": (lambda _: stand_in("PIL", "Image", mode="RGB", n_frames=4), r"it has 4 frames"),
    "mask of a subclass": (
        lambda _: WithState([1, 2], _mask=np.array([True, False])),
        r"its '_mask' is not stored, .*; numpy.asarray\(x\)",
    ),
    "slot of a subclass": (lambda _: WithSlot([1, 2], scale=0.5), "its 'scale' is not stored"),
    "scaled columns": (
        lambda _: WithState(np.zeros(2, "i4,i4"), _coldefs=["a"]),
        r"its '_coldefs' is not stored, .*; bloscpack.savez\(.*x\[name\]",
    ),
    "list of masked": (lambda _: [np.arange(3), masked()], r"x.filled"),
    "nested list of masked": (lambda _: ([1, (2, np.ma.masked)],), r"x.filled"),
    "queue of masked": (lambda _: deque([masked()]), r"x.filled"),
    "list of tables": (lambda _: [stand_in("pandas", "Series")], r"x.to_numpy\(\)"),
    "list of units": (lambda _: [np.arange(3).view(WithUnit)], r"its unit 'km'"),
    "list of values with masks": (lambda _: [Variable()], r"x.filled"),
    "table": (lambda _: stand_in("astropy", "Table"), r"its units and metadata"),
    "categories": (lambda _: stand_in("pandas", "Categorical"), r"its categories are not stored"),
    "numbers and text": (lambda _: [[1, "a"]], r"numpy makes '1' of 1, not without loss"),
    "null at the end of a text": (lambda _: ["a\0", "b"], r"numpy makes 'a' of 'a\\x00'"),
    "zero bytes in a queue": (lambda _: deque([b"a\0"]), r"numpy makes b'a' of b'a\\x00'"),
    "large integers": (lambda _: [2**63 + 1, -3], r"of 9223372036854775809, not without loss"),
    "pint": (lambda _: stand_in("pint", "Quantity", units="m"), r"x.magnitude"),
}


class Variable:
    """Object that numpy converts to a masked array, as one of netCDF4."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return masked()


class Tensor:
    """Object that refuses to be an array, as a tensor of torch with a gradient."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("call x.detach() first")


def stand_in_sparse() -> Any:
    class Sparse:
        def toarray(self) -> Any: ...

    return Sparse()


@pytest.mark.parametrize("name", REFUSED)
def test_saving_more_than_an_array_is_refused(name: str, tmp_path: Path) -> None:
    make, message = REFUSED[name]
    given = make(tmp_path)
    with pytest.raises(TypeError, match=message):
        bp.save(tmp_path / "x.blp", given)
    assert not (tmp_path / "x.blp").exists()
    if hasattr(given, "close"):
        given.close()


@pytest.mark.parametrize("name", ["npz", "dict", "masked", "series", "variable", "unit"])
def test_appending_it_is_refused(name: str, tmp_path: Path) -> None:
    make, message = REFUSED[name]
    given = make(tmp_path)
    path = tmp_path / "rows.blp"
    with bp.Writer(path, dtype="f8") as writer, pytest.raises(TypeError, match=message):
        writer.append(given)
    bp.save(path, np.arange(2.0))
    with bp.open(path, "a") as array, pytest.raises(TypeError, match=message):
        array.append(given)
    with (
        bp.parts(path, shape=(3,), dtype="f8") as job,
        pytest.raises(TypeError, match=message),
    ):
        job.write(0, given)
    assert bp.load(path).tolist() == [0, 1]
    if hasattr(given, "close"):
        given.close()


@pytest.mark.parametrize(
    "given",
    [
        np.ma.array([1, 2]),
        np.ma.array([1, 2], mask=[False, False]),
        np.arange(4).reshape(2, 2).view(np.matrix),
        np.array([(1, 2)], "i4,i4").view(np.recarray),
        np.array([(1, 2)], [("unit", "i4"), ("units", "i4")]).view(np.recarray),
        np.float32(3),
        np.str_("a"),
        [[1, 2], [3, 4]],
        ["a", "bc"],
        [np.float32(1), [2, np.arange(1)][0]],
        [np.ma.array([1, 2]), np.arange(2)],
        WithSlot([1, 2], notes=[]),
        np.arange(3).view(MappedState),
        deque([1, 2]),
        [2.0**70, float("inf"), 2**60],
        [np.float16(1)],
        range(4),
        5.0,
        bytearray(b"ab"),
        memoryview(b"ab"),
        stand_in("h5py", "Dataset"),
        stand_in("PIL", "Image", mode="RGB"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_values_converted_without_loss_are_saved(given: Any, tmp_path: Path) -> None:
    bp.save(tmp_path / "x.blp", given)
    expected = np.asarray(given)
    assert np.array_equal(bp.load(tmp_path / "x.blp"), expected)
    assert as_array(given).dtype == expected.dtype


@pytest.mark.parametrize("given", [[1, 2], {"a": 1}, stand_in("pandas", "DataFrame")])
def test_the_functions_of_the_original_take_ndarrays_only(given: Any) -> None:
    with pytest.raises(AttributeError):
        bp.pack_ndarray_to_bytes(given)


def test_a_text_is_a_row_of_an_array_of_texts(tmp_path: Path) -> None:
    with bp.Writer(tmp_path / "x.blp", dtype="U3") as writer:
        writer.append("abc")
    assert bp.load(tmp_path / "x.blp").tolist() == ["abc"]


class TestLibraries:
    def test_h5py(self, tmp_path: Path) -> None:
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["group/a"] = np.arange(3)
            for mapping in (file, file["group"]):
                with pytest.raises(TypeError, match=r"'h5py.*it is a mapping"):
                    bp.save(tmp_path / "x.blp", mapping)
            bp.save(tmp_path / "x.blp", file["group/a"])
        assert bp.load(tmp_path / "x.blp").tolist() == [0, 1, 2]

    def test_dask(self, tmp_path: Path) -> None:
        dask = pytest.importorskip("dask.array")
        lazy = dask.ma.masked_greater(dask.arange(6.0, chunks=2), 3)
        path = tmp_path / "x.blp"
        bp.save(path, np.zeros(1))
        for given in (lazy, [lazy, lazy]):
            for store in (bp.save, lambda path, given: bp.savez(path, a=given)):
                with pytest.raises(TypeError, match=r"x\.filled"):
                    store(tmp_path / "y.blp", given)
            with bp.open(path, "a") as array, pytest.raises(TypeError, match=r"x\.filled"):
                array.append(given)
            with (
                bp.frames.create(tmp_path / "z.blp", overwrite=True) as store,
                pytest.raises(TypeError, match=r"x\.filled"),
            ):
                store.append("a", given)
        with bp.open(path, "a") as array:
            array.append(dask.arange(2.0, chunks=1))
        assert bp.load(path).tolist() == [0, 0, 1]

    def test_pandas(self, tmp_path: Path) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"a": [1, 2], "b": [3, 4]}, index=["x", "y"])
        with pytest.raises(TypeError, match="its index and column names are not stored"):
            bp.save(tmp_path / "x.blp", frame["a"])
        bp.save(tmp_path / "x.blp", np.zeros((1, 2), int))
        with bp.open(tmp_path / "x.blp", "a") as array, pytest.raises(TypeError, match="its index"):
            array.append(frame)
        bp.save(tmp_path / "x.blp", frame.to_numpy())
        assert bp.load(tmp_path / "x.blp").tolist() == [[1, 3], [2, 4]]

    def test_zarr(self, tmp_path: Path) -> None:
        zarr = pytest.importorskip("zarr")
        group = zarr.group()
        group.create_array("a", data=np.arange(3))
        with pytest.raises(TypeError, match=r"it is a mapping; .*x\['a'\]"):
            bp.save(tmp_path / "x.blp", group)
        bp.save(tmp_path / "x.blp", group["a"])
        assert bp.load(tmp_path / "x.blp").tolist() == [0, 1, 2]

    def test_polars_and_arrow(self, tmp_path: Path) -> None:
        polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
        for table in (polars.DataFrame({"a": [1]}), pyarrow.table({"a": [1]})):
            with pytest.raises(TypeError, match="column names"):
                bp.save(tmp_path / "x.blp", table)
