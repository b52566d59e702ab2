"""Arrays copied to and from Zarr stores, which zarr and xarray write and read."""

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, BloscpackWarning, NotFoundError, UnsupportedError
from bloscpack.exchange import arraytree
from bloscpack.filetypes import arraysource

from ..strategies import SCALARS, fill
from .conversions import (
    LABELS,
    assert_differences_are_found,
    assert_interrupted_run_leaves_nothing,
    assert_same,
    assert_same_labelled,
)

zarr = pytest.importorskip("zarr")

FORMS = {"v3": ("a.zarr", "zarr"), "v2": ("a.zarr", "zarr2"), "zip": ("a.zarr.zip", None)}
each_form = pytest.mark.parametrize("form", FORMS)


@pytest.mark.parametrize("dtype", SCALARS)
@pytest.mark.parametrize("form", ["v2", "v3"])
def test_any_items(dtype: str, form: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arraysource, "PART_NBYTES", 2000)
    array = fill(np.dtype(dtype), (21, 13), 1)
    bp.save(tmp_path / "a.blp", array, chunks=(4, 5), attrs={"unit": "K"})
    try:
        done = bp.convert(tmp_path / "a.blp", tmp_path / "a.zarr", to=FORMS[form][1])
    except UnsupportedError:
        assert np.dtype(dtype).itemsize in (16, 32) or dtype in ("<M8", "<m8")
        assert [path.name for path in tmp_path.iterdir()] == ["a.blp"]
        return
    assert (done.kind, done.lossless) == (FORMS[form][1], True)
    bp.convert(tmp_path / "a.zarr", tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as a:
        # Types of format 3 have no byte order.
        assert_same(a[...], array.astype(array.dtype.newbyteorder("=")) if form == "v3" else array)
        assert (a.attrs, a.chunks) == ({"unit": "K"}, (4, 5))


def test_chunks_that_are_too_large(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=(1 << 28,), chunks=(1 << 28,), dtype="f8")
    with pytest.raises(UnsupportedError, match="a chunk of more than 1 GiB"):
        bp.convert(tmp_path / "a.zarr", tmp_path / "a.blp")


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (1000, 300)])
@each_form
def test_shapes(form: str, shape: Any, tmp_path: Path) -> None:
    array = fill(np.dtype("<f8"), shape, 1)
    bp.save(tmp_path / "a.blp", array)
    name, to = FORMS[form]
    bp.convert(tmp_path / "a.blp", tmp_path / name, to=to)
    store = zarr.storage.ZipStore(tmp_path / name) if form == "zip" else tmp_path / name
    found = zarr.open_array(store, mode="r")
    assert found.metadata.zarr_format == (2 if form == "v2" else 3)
    assert_same(np.asarray(found[...], found.dtype), array)
    bp.convert(tmp_path / name, tmp_path / "b.blp")
    assert_same(bp.load(tmp_path / "b.blp"), array)


@each_form
def test_labels(form: str, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    bp.save(tmp_path / "a.blp", np.arange(24.0).reshape(2, 3, 4), attrs=LABELS | {"unit": "K"})
    name, to = FORMS[form]
    bp.convert(tmp_path / "a.blp", tmp_path / name, to=to)
    store = zarr.storage.ZipStore(tmp_path / name) if form == "zip" else tmp_path / name
    with xarray.open_zarr(store, consolidated=False, chunks=None) as found:
        assert_same_labelled(found["temperature"], xarray.open_dataarray(tmp_path / "a.blp"))
    bp.convert(tmp_path / name, tmp_path / "b.blp")
    with xarray.open_dataarray(tmp_path / "b.blp") as two:
        assert_same_labelled(two, xarray.open_dataarray(tmp_path / "a.blp"))


@each_form
@pytest.mark.parametrize("labels", [{"name": "t"}, {"name": "t", "dims": ["a", "b"]}])
def test_a_name_without_coordinates(form: str, labels: Any, tmp_path: Path) -> None:
    array = np.arange(6).reshape(2, 3)
    bp.save(tmp_path / "a.blp", array, attrs=labels | {"unit": "K"})
    name, to = FORMS[form]
    bp.convert(tmp_path / "a.blp", tmp_path / name, to=to)
    bp.convert(tmp_path / name, tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as a:
        assert_same(a[...], array)
        assert a.attrs == {"dims": ["dim_0", "dim_1"], "coords": {}, "unit": "K"} | labels


@pytest.mark.parametrize(
    ("names", "dims", "left_out"),
    [
        (["y", None], ["y", "dim_1"], ()),
        (["y", ""], ["y", "dim_1"], ()),
        (["", None], None, ()),
        ([None, None], None, ()),
        (None, None, ()),
        (5, None, ("names 5 of the axes of the array",)),
        (["y"], None, ("names ['y'] of the axes of the array",)),
    ],
)
def test_names_of_some_axes(names: Any, dims: Any, left_out: Any, tmp_path: Path) -> None:
    if isinstance(names, list) and len(names) == 2:
        options = {"dimension_names": names}
    else:
        options = {"attributes": {} if names is None else {"_ARRAY_DIMENSIONS": names}}
    zarr.create_array(tmp_path / "a.zarr", data=np.ones((2, 3)), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BloscpackWarning)
        done = bp.convert(tmp_path / "a.zarr", tmp_path / "a.blp")
    with bp.open(tmp_path / "a.blp") as a:
        assert (a.attrs.get("dims"), done.left_out) == (dims, left_out)


@pytest.mark.parametrize("target", ["a.zarr", "a.h5", "a.nc"])
def test_an_axis_whose_name_is_empty(target: str, tmp_path: Path) -> None:
    bp.savez(tmp_path / "a.blp", {"v": np.ones((2, 3)), "w": np.ones(2)})
    with bp.open(tmp_path / "a.blp", "r+") as archive:
        archive["v"].attrs["dims"] = ["", "x"]
    with pytest.warns(BloscpackWarning):
        done = bp.convert(tmp_path / "a.blp", tmp_path / target)
    assert done.left_out == (
        "array 'v': the name of an axis is empty, which means no name: rename it",
    )


@pytest.mark.parametrize(("dims", "name"), [(None, "arr_0"), (["x", "y"], "data")])
def test_a_root_that_is_an_array_has_a_name_in_an_archive(
    dims: Any, name: str, tmp_path: Path
) -> None:
    zarr.create_array(tmp_path / "a.zarr", data=np.ones((2, 3)), dimension_names=dims)
    bp.convert(tmp_path / "a.zarr", tmp_path / "a.blp", to="archive", strict=True)
    with bp.open(tmp_path / "a.blp") as archive:
        assert [*archive] == [name]
    bp.convert(tmp_path / "a.blp", tmp_path / "b.zarr", strict=True)


def test_a_folder_in_a_zip_file(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "x/a.zarr").create_array("v", data=np.arange(3))
    place = shutil.make_archive(str(tmp_path / "a"), "zip", tmp_path, "x")
    with pytest.raises(UnsupportedError, match=r"in the folder 'x/a\.zarr' of a ZIP") as caught:
        bp.convert(place, tmp_path / "a.blp")
    found = str(caught.value).split("'")[-2]
    assert found == f"zip://x/a.zarr::{place}"
    bp.convert(found, tmp_path / "a.blp")
    assert bp.load(tmp_path / "a.blp").tolist() == [0, 1, 2]


@pytest.mark.parametrize("target", ["a.zarr", "a.zarr.zip", "a.h5", "a.nc"])
@pytest.mark.parametrize("bad", ["q/r", "../r", "."])
def test_a_name_that_is_a_place(bad: str, target: str, tmp_path: Path) -> None:
    pytest.importorskip({"h5": "h5py", "nc": "h5netcdf"}.get(target[2:], "zarr"))
    bp.save(tmp_path / "a.blp", np.arange(3), attrs={"name": bad, "dims": ["x"]})
    with pytest.raises(UnsupportedError, match=r"a\..*cannot hold an array of the name .*::/NAME"):
        bp.convert(tmp_path / "a.blp", tmp_path / target)
    bp.convert(tmp_path / "a.blp", f"{tmp_path / target}::/r")
    bp.convert(tmp_path / target, tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as a:
        assert a.attrs["name"] == "r"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_store_of_xarray(zarr_format: Any, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pandas = pytest.importorskip("pandas")
    dataset = xarray.Dataset(
        {
            "air": (("time", "x"), fill(np.dtype("f4"), (50, 8), 1), {"unit": "K"}),
            "mask": (("x",), np.arange(8) > 3),
        },
        {"time": pandas.date_range("2026-01-01", periods=50, freq="h"), "x": np.arange(8) * 0.5},
    )
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format)
    with pytest.raises(ValueError, match=r"2 arrays; name one, such as .*a\.zarr::/(air|mask)"):
        bp.convert(tmp_path / "a.zarr", tmp_path / "a.npy")
    with pytest.raises(NotFoundError, match="no array 'b'"):
        bp.convert(f"{tmp_path}/a.zarr::/b", tmp_path / "a.blp")
    bp.convert(f"{tmp_path}/a.zarr::/air", tmp_path / "a.blp")
    with xarray.open_dataarray(tmp_path / "a.blp") as found:
        assert_same_labelled(found, dataset["air"])


def test_places_in_stores(tmp_path: Path) -> None:
    root = zarr.create_group(tmp_path / "a.zarr")
    root.create_array("run/one", data=np.arange(60).reshape(20, 3), chunks=(8, 2), shards=(16, 2))
    bp.convert(tmp_path / "a.zarr", tmp_path / "a.blp")
    assert_same(bp.load(tmp_path / "a.blp"), np.arange(60).reshape(20, 3))
    bp.convert(tmp_path / "a.blp", f"{tmp_path}/b.zarr::/x/y", chunks=(5, 3))
    found = zarr.open_group(tmp_path / "b.zarr", mode="r")["x/y"]
    assert (found.chunks, found.shape) == ((5, 3), (20, 3))
    bp.convert((tmp_path / "a.blp").read_bytes(), tmp_path / "c.zarr.zip")
    bp.convert((tmp_path / "c.zarr.zip").read_bytes(), tmp_path / "c.blp")
    assert (tmp_path / "c.blp").read_bytes() == (tmp_path / "a.blp").read_bytes()


@pytest.mark.parametrize("target", ["zarr", "zarr2"])
def test_xarray_opens_a_store_with_an_array_without_axes(target: str, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    wanted = xarray.Dataset({"a": ("x", [1.5, 2.5]), "crs": ((), 0, {"grid_mapping_name": "cube"})})
    bp.save(tmp_path / "a.blp", wanted)
    bp.convert(tmp_path / "a.blp", tmp_path / "a.zarr", to=target)
    with xarray.open_zarr(tmp_path / "a.zarr", consolidated=False, chunks=None) as found:
        xarray.testing.assert_identical(found.load(), wanted)


@pytest.mark.parametrize("target", ["zarr", "zarr2"])
def test_xarray_opens_a_store_with_axes_that_have_no_names(target: str, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    wanted = xarray.Dataset(
        {"a": ("dim_0", [1, 2]), "b": (("dim_0", "x"), np.ones((2, 3))), "c": ("dim_0_3", [0] * 3)}
    )
    arrays = {key: each.values for key, each in wanted.items()} | {"b": wanted["b"]}
    bp.save(tmp_path / "one.blp", arrays["a"])
    bp.savez(tmp_path / "a.blp", **arrays)
    bp.convert(tmp_path / "a.blp", tmp_path / "a.zarr", to=target)
    with xarray.open_zarr(tmp_path / "a.zarr", consolidated=False, chunks=None) as found:
        xarray.testing.assert_identical(found.load(), wanted)
    bp.convert(tmp_path / "a.zarr", tmp_path / "b.blp", strict=True)
    with bp.open(tmp_path / "a.blp") as one, bp.open(tmp_path / "b.blp") as two:
        assert {key: each.attrs for key, each in one.items()} == {
            key: each.attrs for key, each in two.items()
        }
    # An array that is a store has no other beside it, and xarray does not open it.
    bp.convert(tmp_path / "one.blp", tmp_path / "one.zarr", to=target)
    root = zarr.open_array(tmp_path / "one.zarr", mode="r")
    assert "dimension_names" not in root.metadata.to_dict()
    assert dict(root.attrs) == {}


def test_an_attribute_with_the_name_of_a_group(tmp_path: Path) -> None:
    root = zarr.create_group(tmp_path / "a.zarr", attributes={"/g": 1, "x": 2})
    group = root.create_group("g", attributes={"y": 3})
    group.create_array("v", data=np.arange(3))
    result = bp.convert(tmp_path / "a.zarr", tmp_path / "a.blp", to="archive")
    assert result.left_out == ("attribute '/g' of the file",)
    with bp.open(tmp_path / "a.blp") as archive:
        assert archive.attrs == {"x": 2, "/g": {"y": 3}}


def test_behind_a_url(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    zarr.create_array(tmp_path / "a.zarr", data=np.arange(9))
    files = fsspec.filesystem("memory")
    files.put(str(tmp_path / "a.zarr"), "/a.zarr", recursive=True)
    try:
        bp.convert("memory://a.zarr", tmp_path / "a.blp")
    finally:
        files.rm("/a.zarr", recursive=True)
    assert bp.load(tmp_path / "a.blp").tolist() == list(range(9))


@pytest.mark.parametrize("name", ["b.zarr", "b.zarr.zip"])
def test_no_trace_of_a_copy_that_fails(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arraysource, "PART_NBYTES", 1000)
    bp.save(tmp_path / "a.blp", np.arange(1000), chunks=100)
    assert_interrupted_run_leaves_nothing(tmp_path / "a.blp", name, monkeypatch)
    assert_differences_are_found(tmp_path / "a.blp", name, monkeypatch)


def test_damaged(tmp_path: Path) -> None:
    for name in ("a.zarr", "a.zarr.zip"):
        bp.save(tmp_path / "a.blp", np.arange(3000), chunks=100)
        bp.convert(tmp_path / "a.blp", tmp_path / name)
    content = (tmp_path / "a.zarr.zip").read_bytes()
    for nbytes in (4, 40, 600, len(content) // 2, len(content) - 1):
        (tmp_path / "b.zip").write_bytes(content[:nbytes])
        with pytest.raises((BloscpackError, ValueError)):
            bp.convert(tmp_path / "b.zip", tmp_path / "b.blp")
    (tmp_path / "a.zarr/c/7").write_bytes(b"nonsense")
    with pytest.raises(BloscpackError, match=r"a\.zarr: a Zarr store: array '': "):
        bp.convert(tmp_path / "a.zarr", tmp_path / "b.blp")
    text = (tmp_path / "a.zarr/zarr.json").read_text()
    for wrong in (
        "{",
        "[]",
        '{"zarr_format": 3}',
        re.sub(r"\b100\b", "10000000000", text),
    ):
        assert wrong != text
        (tmp_path / "a.zarr/zarr.json").write_text(wrong)
        with pytest.raises((BloscpackError, ValueError)):
            bp.convert(tmp_path / "a.zarr", tmp_path / "b.blp")
    assert not (tmp_path / "b.blp").exists()


@pytest.mark.parametrize(
    ("items", "fill"),
    [
        (["a", "-", "c"], "-"),
        ([b"a", b"-", b"c"], "-"),
        (np.zeros(3, "M8[s]"), 0),
        (np.zeros(3, "i4"), "text"),
        (np.zeros(3, "f4"), [1, 2]),
        (np.zeros(3, bool), 7),
        (np.zeros(3, "c8"), 0),
        (np.zeros(3, "u2"), -1.5),
    ],
)
def test_xarray_opens_any_fill_value(items: Any, fill: Any, tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    attrs = {"name": "t", "dims": ["x"], "coords": {"x": [1, 2, 4]}, "_FillValue": fill}
    bp.save(tmp_path / "a.blp", np.array(items), attrs=attrs)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        bp.convert(tmp_path / "a.blp", tmp_path / "a.zarr", strict=True)
    notices = [str(each.message) for each in found if each.category is BloscpackWarning]
    is_text = np.array(items).dtype.kind in "US"
    assert [re.sub(r".*(t: missing text .*)", r"\1", each) for each in notices] == (
        ["t: missing text is the text '-' for xarray in format 3; to='zarr2' keeps it"] * is_text
    )
    with xr.open_dataset(tmp_path / "a.zarr", engine="zarr", consolidated=False) as dataset:
        assert dataset["t"].shape == (3,)
        if is_text:
            assert dataset["t"].values.tolist() == items
    bp.convert(tmp_path / "a.zarr", tmp_path / "b.blp")
    with bp.open(tmp_path / "a.blp") as one, bp.open(tmp_path / "b.blp") as two:
        assert two.attrs["_FillValue"] == one.attrs["_FillValue"]
        assert_same(two[...], one[...])
    if is_text:
        bp.convert(tmp_path / "a.blp", tmp_path / "two", to="zarr2")
        with xr.open_dataset(tmp_path / "two", engine="zarr", consolidated=False) as dataset:
            assert dataset["t"].isnull().values.tolist() == [False, True, False]


def test_openers_name_the_command(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", data=np.arange(9))
    for call in (bp.open, bp.load, bp.verify, bp.frames.open):
        with pytest.raises(ValueError, match="a Zarr store") as caught:
            call(tmp_path / "a.zarr")
        assert f"'blpk convert {tmp_path}/a.zarr {tmp_path}/a.blp' converts" in str(caught.value)


def test_more_items_than_memory_has(tmp_path: Path, monkeypatch: Any) -> None:
    """Chunks that are not stored take no space, but those of two rows are read together."""
    monkeypatch.setattr(arraytree, "_MAX_UNWRITTEN_NBYTES", 1 << 63)
    zarr.create_array(tmp_path / "a.zarr", shape=(4, 4), chunks=(2, 2), dtype="f4")
    path = tmp_path / "a.zarr" / "zarr.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"shape": [4, 1 << 52]}))
    with pytest.raises(UnsupportedError, match=r"a\.zarr: not enough memory for \(2, 45035"):
        bp.convert(tmp_path / "a.zarr", tmp_path / "a.blp")
    assert not (tmp_path / "a.blp").exists()


@pytest.mark.parametrize("suffix", [".zarr", ".zarr.zip"])
def test_a_small_store_that_claims_a_huge_array(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    store = zarr.storage.ZipStore(path, mode="w") if suffix == ".zarr.zip" else path
    zarr.create_array(store, shape=(1 << 20, 1 << 20), dtype="f8", chunks=(1024, 1024))
    if suffix == ".zarr.zip":
        store.close()
    with pytest.raises(UnsupportedError, match=f"it has {1 << 43} bytes, of which hardly any"):
        bp.convert(path, tmp_path / "a.blp")
