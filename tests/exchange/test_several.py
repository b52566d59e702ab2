"""Several arrays of one file, and all clips of a store, copied to HDF5 and Zarr and back."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackWarning, FormatError, NotFoundError, UnsupportedError
from bloscpack.filetypes.arraysource import ArraySource, Rows

from ..conftest import SMALL_FORMATS, small_vectors
from .conversions import assert_interrupted_steps_leave_nothing, assert_same

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

from bloscpack.exchange import hdf5, treewriter, zarrarray  # noqa: E402 - they need the libraries

NAMES = ["a.h5", "a.zarr", "a.zarr.zip"]
ARRAYS: dict[str, Any] = {
    "mask": np.arange(12).reshape(3, 4) % 2 == 0,
    "run/one": np.linspace(0, 1, 30, dtype="f4").reshape(5, 6),
    "run/two": np.arange(7, dtype="<u2"),
    "scalar": np.array(4.5),
    "empty": np.zeros((0, 3), "i2"),
}
ATTRS = {"title": "a run", "nested": {"a": [1, {"b": None}]}}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Archive with attributes of its own and of an array."""
    bp.save(tmp_path / "one.blp", ARRAYS["run/one"], attrs={"unit": "K", "more": {"k": [1, "x"]}})
    with bp.open(tmp_path / "one.blp") as one:
        bp.savez(tmp_path / "archive.blp", ARRAYS | {"run/one": one}, attrs=ATTRS)
    (tmp_path / "one.blp").unlink()
    return tmp_path / "archive.blp"


@pytest.mark.parametrize("name", [*NAMES, "format 2"])
def test_an_archive_there_and_back(name: str, archive: Path, tmp_path: Path) -> None:
    to = "zarr2" if name == "format 2" else None
    copy = tmp_path / name
    done = bp.convert(archive, copy, to=to)
    assert (done.clips, done.frames, done.lossless) == (5, 3 + 5 + 7 + 1, True)
    if name == "a.h5":
        with h5py.File(copy) as file:
            assert file["run/one"].attrs["unit"] == "K"
            assert file.attrs["title"] == "a run"
            assert_same(file["run/two"][...], ARRAYS["run/two"])
    else:
        store = zarr.storage.ZipStore(copy, mode="r") if name.endswith("zip") else copy
        group = zarr.open_group(store, mode="r")
        assert group.metadata.zarr_format == (2 if to else 3)
        assert dict(group.attrs) == ATTRS
        assert_same(np.asarray(group["run/two"][...]), ARRAYS["run/two"])
    done = bp.convert(copy, tmp_path / "again.blp", codec="lz4")
    assert (done.kind, done.clips) == ("archive", 5)
    with bp.Archive(tmp_path / "again.blp") as found:
        assert found.attrs == ATTRS
        assert sorted(found) == sorted(ARRAYS)
        for key, expected in ARRAYS.items():
            assert_same(np.asarray(found[key]), expected)
        assert found["run/one"].attrs == {"unit": "K", "more": {"k": [1, "x"]}}


@pytest.mark.parametrize("name", NAMES)
def test_clips_there_and_back(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clips: dict[str, Any] = {
        "walk/a": rng.integers(0, 255, (4, 6, 8, 3), "u1"),
        "walk/b": rng.integers(0, 9000, (3, 5, 5), "u2"),
        "depth": rng.random((2, 4, 4), "f4"),
    }
    with bp.frames.create(tmp_path / "clips.blp", attrs={"source": "here"}) as store:
        for key, frames in clips.items():
            store.append(key, frames, {"label": len(frames)})
    done = bp.convert(tmp_path / "clips.blp", tmp_path / name)
    assert (done.clips, done.frames) == (3, 9)
    bp.convert(tmp_path / name, tmp_path / "again.blp", to="frames")
    with bp.frames.open(tmp_path / "again.blp") as store:
        assert sorted(store.keys()) == sorted(clips)
        for key, frames in clips.items():
            assert_same(store[key][:], frames)
            assert store[key].meta == {"label": len(frames)}
    # One array is an array alone, and one clip too.
    bp.convert(f"{tmp_path / name}::/depth", tmp_path / "depth.npy")
    assert_same(np.load(tmp_path / "depth.npy"), clips["depth"])
    with pytest.raises(ValueError, match="3 arrays; name one"):
        bp.convert(tmp_path / name, tmp_path / "x.npy")
    assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize("name", NAMES)
def test_arrays_of_one_file_share_coordinates(name: str, tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    labels: dict[str, Any] = {"dims": ["x", "y"], "coords": {"x": [10, 20], "y": ["a", "b", "c"]}}
    values = np.arange(6.0).reshape(2, 3)
    bp.save(tmp_path / "one.blp", values, attrs=labels | {"name": "one"})
    bp.save(tmp_path / "two.blp", -values, attrs=labels | {"name": "two"})
    other = labels | {"coords": {"x": [10, 30]}}
    bp.save(tmp_path / "three.blp", values, attrs=other | {"name": "three"})
    with (
        bp.open(tmp_path / "one.blp") as one,
        bp.open(tmp_path / "two.blp") as two,
        bp.open(tmp_path / "three.blp") as three,
    ):
        bp.savez(tmp_path / "same.blp", one=one, two=two)
        bp.savez(tmp_path / "other.blp", {"one": one, "three": three, "sub/three": three})
    bp.convert(tmp_path / "same.blp", tmp_path / name)
    if name == "a.zarr":
        with xr.open_zarr(tmp_path / name, consolidated=False, chunks=None) as found:
            assert found["one"].equals(-found["two"])
            assert list(found["y"].values) == ["a", "b", "c"]
    bp.convert(tmp_path / name, tmp_path / "again.blp")
    with bp.Archive(tmp_path / "again.blp") as again:
        assert again["two"].attrs["coords"]["x"]["data"] == [10, 20]
    other_values = "'one' and 'three' have different coordinates 'x'"
    with pytest.raises(UnsupportedError, match=f"strict: .*{other_values}"):
        bp.convert(tmp_path / "other.blp", tmp_path / f"x{name}", strict=True)
    assert not (tmp_path / f"x{name}").exists()
    with pytest.warns(BloscpackWarning, match=f"left out: array 'three': arrays {other_values}"):
        bp.convert(tmp_path / "other.blp", tmp_path / f"x{name}")
    bp.convert(tmp_path / f"x{name}", tmp_path / "kept.blp")
    assert sorted(bp.load(tmp_path / "kept.blp")) == ["one", "sub/three"]


@pytest.mark.parametrize("name", [*NAMES, "a.nc"])
def test_coordinates_of_arrays_that_are_left_out(name: str, tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    xr = pytest.importorskip("xarray")
    own = {"z": ("y", [1.0, 2.0]), "y": [5, 6]}
    grid = xr.DataArray(np.zeros((3, 2)), dims=["x", "y"], coords={"x": [1, 2, 4], **own})
    arrays = {
        "a": xr.DataArray(np.arange(3), dims="x", coords={"x": [1, 2, 4]}),
        "b": grid.assign_coords(x=[1, 2, 3]),  # another x
        "sub/c": grid,
        "sub/d": grid.assign_coords(y=[7, 8]).drop_vars("z"),
    }
    bp.savez(tmp_path / "a.blp", arrays)
    with pytest.warns(BloscpackWarning):
        done = bp.convert(tmp_path / "a.blp", tmp_path / name)
    lost = [each.partition(": ")[0] for each in done.left_out]
    found = [f"coordinates {key!r} of 'b'" for key in "xyz"]
    assert sorted(lost) == sorted(
        ["array 'b'", *found, "array 'sub/d'", "coordinates 'y' of 'sub/d'"]
    )


@pytest.mark.parametrize("attached", ["x", "h/x"])
def test_the_scale_that_is_attached_counts(attached: str, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values in (("x", [1, 2]), ("h/x", [30, 40])):
            file[name] = values
            file[name].make_scale("x")
        file["h/a"] = [5.0, 6.0]
        file["h/a"].dims[0].attach_scale(file[attached])
    done = bp.convert(tmp_path / "a.h5", tmp_path / "a.blp", to="archive")
    assert not done.left_out
    with bp.open(tmp_path / "a.blp") as archive:
        wanted = {"x": [1, 2], "h/x": [30, 40]}[attached]
        assert archive["h/a"].coords["x"].values.tolist() == wanted
        assert {name.rpartition("/")[0] for name in archive} == {"", "h"}


def test_coordinates_that_are_kept_as_an_array(tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    xr = pytest.importorskip("xarray")
    x = xr.DataArray([1.0, 2], dims="x")
    c = xr.DataArray([1j, 2], dims="x", coords={"x": [1.0, 2], "k": 3})
    bp.savez(tmp_path / "a.blp", x=x, c=c)
    with pytest.warns(BloscpackWarning):
        done = bp.convert(tmp_path / "a.blp", tmp_path / "a.nc")
    lost = [each.partition(": ")[0] for each in done.left_out]
    assert lost == ["array 'c'", "coordinates 'k' of 'c'"]


def test_coordinates_along_axes_of_several_lengths(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"], file["x"] = np.zeros((2, 3)), np.arange(3.0)
        file["x"].make_scale("x")
        file["v"].dims[1].attach_scale(file["x"])
        file["v"].dims[0].label = file["v"].dims[1].label = "x"
    with pytest.warns(BloscpackWarning):
        done = bp.convert(tmp_path / "a.h5", tmp_path / "a.blp")
    names = "names ['x', 'x'] of the axes of 'v', whose lengths differ"
    assert done.left_out == ("scale 'x' of 'v'", names)
    assert bp.load(tmp_path / "a.blp")["x"].tolist() == [0, 1, 2]


SAME: dict[str, Any] = {"h": ("x", [-0.0, np.nan])}
OTHERS: dict[str, Any] = {
    "sign": {"h": ("x", [0.0, np.nan])},
    "type": {"h": ("x", np.array([-0.0, np.nan], "f4"))},
    "attrs": {"h": ("x", [-0.0, np.nan], {"unit": "m"})},
    "axis": {"h": ("y", [-0.0, np.nan])},
}


@pytest.mark.parametrize("name", [*NAMES, "a.nc"])
@pytest.mark.parametrize("other", OTHERS)
def test_coordinates_that_are_nearly_equal(name: str, other: str, tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    xr = pytest.importorskip("xarray")
    coords = OTHERS[other]
    arrays = {
        "a": xr.DataArray([1.0, 2], dims="x", coords=SAME),
        "b": xr.DataArray([3.0, 4], dims="x", coords=SAME),
        "c": xr.DataArray([5.0, 6], dims=coords["h"][0], coords=coords),
    }
    bp.savez(tmp_path / "a.blp", arrays)
    with pytest.warns(BloscpackWarning, match="array 'c': arrays '.' and 'c' have different coord"):
        bp.convert(tmp_path / "a.blp", tmp_path / name)
    bp.convert(tmp_path / name, tmp_path / "b.blp")
    with bp.Archive(tmp_path / "a.blp") as expected, bp.Archive(tmp_path / "b.blp") as found:
        assert sorted(found) == ["a", "b"]
        for key in found:
            assert str(found[key].attrs["coords"]) == str(expected[key].attrs["coords"])


@pytest.mark.parametrize("name", [*NAMES, "a.nc"])
def test_coordinates_that_are_an_array_with_more(name: str, tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    xr = pytest.importorskip("xarray")
    x = xr.DataArray([1.0, 2], dims="x", coords={"k": 3})
    bp.savez(tmp_path / "a.blp", x=x, c=xr.DataArray([1, 2], dims="x", coords={"x": [1.0, 2]}))
    with pytest.warns(BloscpackWarning, match="'c': its coordinates differ from the array 'x'"):
        bp.convert(tmp_path / "a.blp", tmp_path / name)


@pytest.mark.parametrize("name", [*NAMES, "a.nc"])
def test_an_array_that_has_the_coordinates_of_another(name: str, tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    arrays = {"x": xr.DataArray(np.arange(3.0), dims="x"), "a": xr.DataArray([1, 2, 3], dims="x")}
    bp.savez(tmp_path / "a.blp", arrays | {"plain": np.arange(4)})
    bp.convert(tmp_path / "a.blp", tmp_path / name)
    bp.convert(tmp_path / name, tmp_path / "b.blp")
    with bp.Archive(tmp_path / "b.blp") as found:
        assert sorted(found) == ["a", "plain"]
        assert found["a"].attrs["coords"]["x"]["data"] == [0, 1, 2]


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_stale_consolidated_metadata(tmp_path: Path) -> None:
    root = zarr.create_group(tmp_path / "a.zarr")
    root.create_array("x", data=np.arange(3))
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    zarr.open_group(tmp_path / "a.zarr", use_consolidated=False)["x"].attrs["unit"] = "m"
    with pytest.warns(BloscpackWarning, match="consolidated metadata differ from those of the arr"):
        bp.convert(tmp_path / "a.zarr", tmp_path / "a.blp")
    assert bp.open(tmp_path / "a.blp").attrs["unit"] == "m"


def test_xarray_opens_axes_without_coordinates_in_hdf5(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    bp.savez(tmp_path / "a.blp", v=xr.DataArray(np.ones((2, 3)), dims=("t", "x")))
    bp.convert(tmp_path / "a.blp", tmp_path / "a.h5")
    with xr.open_dataset(tmp_path / "a.h5", engine="h5netcdf") as found:
        assert dict(found.sizes) == {"t": 2, "x": 3}
        assert list(found.variables) == ["v"]


@pytest.mark.parametrize("name", NAMES)
def test_chunks_and_options(name: str, archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="codec is for a copy"):
        bp.convert(archive, tmp_path / name, codec="lz4")
    with pytest.raises(ValueError, match="an archive of named arrays of 5 arrays; name one"):
        bp.convert(archive, f"{tmp_path / name}::/inner")
    bp.convert(f"{archive}::/mask", f"{tmp_path / name}::/inner", chunks=(2, 2))
    with pytest.raises(NotFoundError, match="no array 'x'"):
        bp.convert(f"{tmp_path / name}::/x", tmp_path / "x.blp")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", ["../x", "a//b", "/x", "a/./b", "a\\b", "a\0b"])
def test_unsafe_names_are_refused(name: str, bad: str, tmp_path: Path) -> None:
    bp.savez(tmp_path / "a.blp", {bad: 1, "b": 2})
    (tmp_path / "sub").mkdir()
    with pytest.raises(UnsupportedError, match="cannot hold an array of the name"):
        bp.convert(tmp_path / "a.blp", tmp_path / "sub" / name)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["a.blp", "sub"]


@pytest.mark.parametrize("name", [*NAMES, "a.nc"])
def test_attributes_that_are_not_those_of_a_group(name: str, tmp_path: Path) -> None:
    """A file of groups would read them as those of one, or as none."""
    lost = {"/": 1, "//": {"a": 1}, "/g": 2, "/../g": {"a": 1}, "/a/": {"a": 1}}
    attrs = {"unit": "m", "/sub": {"made": 1}}
    bp.savez(tmp_path / "a.blp", {"x": [1, 2], "y": 3}, attrs=attrs | lost)
    with pytest.warns(BloscpackWarning):
        done = bp.convert(tmp_path / "a.blp", tmp_path / name)
    assert set(done.left_out) == {f"attribute {key!r} of the file" for key in lost}
    bp.convert(tmp_path / name, tmp_path / "b.blp", to="archive", strict=True)
    assert bp.open(tmp_path / "b.blp").attrs == attrs
    bp.convert(tmp_path / "a.blp", tmp_path / "c.blp", to="archive", strict=True)
    assert bp.open(tmp_path / "c.blp").attrs == attrs | lost


@pytest.mark.parametrize("name", NAMES)
def test_metadata_with_the_names_of_labels_that_are_none(name: str, tmp_path: Path) -> None:
    metas: dict[str, dict[str, Any]] = {
        "number": {"name": 5, "label": 1},
        "text": {"dims": "odd", "coords": 5, "units": "K"},
        "twice": {"dims": ["t", "t", "x"], "coords": {"x": [1, 2]}},
        "axis": {"dims": ["t", "y", "axis"], "name": "axis"},
    }
    with bp.frames.create(tmp_path / "a.blp") as store:
        for key, meta in metas.items():
            store.append(key, np.ones((2, 3, 4), "u1"), meta)
    bp.convert(tmp_path / "a.blp", tmp_path / name, strict=True)
    bp.convert(tmp_path / name, tmp_path / "b.blp", to="frames", strict=True)
    with bp.frames.open(tmp_path / "b.blp") as store:
        assert {key: clip.meta for key, clip in store.items()} == metas


@pytest.mark.parametrize("name", [*NAMES, "a.nc"])
def test_attributes_of_a_file_without_arrays(name: str, tmp_path: Path) -> None:
    attrs = {"title": "a run", "/sub": {"k": 1}}
    bp.savez(tmp_path / "a.blp", {}, attrs=attrs)
    bp.convert(tmp_path / "a.blp", tmp_path / name, strict=True)
    bp.convert(tmp_path / name, tmp_path / "b.blp", strict=True)
    with bp.open(tmp_path / "b.blp") as archive:
        assert (len(archive), archive.attrs) == (0, attrs)
    with pytest.raises(ValueError, match="0 arrays; nothing to copy"):
        bp.convert(tmp_path / name, tmp_path / "b.npy")
    bp.savez(tmp_path / "c.blp", {})
    name = f"c{name[1:]}"
    bp.convert(tmp_path / "c.blp", tmp_path / name)
    with pytest.raises(ValueError, match="0 arrays; nothing to copy"):
        bp.convert(tmp_path / name, tmp_path / "d.blp")
    bp.convert(tmp_path / name, tmp_path / "d.blp", allow_empty=True)
    with bp.open(tmp_path / "d.blp") as archive:
        assert (len(archive), archive.attrs) == (0, {})


@pytest.mark.parametrize("bad", ["zarr.json", "a/.zarray", ".zattrs"])
def test_metadata_of_zarr_are_not_replaced(bad: str, tmp_path: Path) -> None:
    bp.savez(tmp_path / "a.blp", {bad: 1, "b": 2})
    with pytest.raises(UnsupportedError, match="cannot hold an array of the name"):
        bp.convert(tmp_path / "a.blp", tmp_path / "a.zarr")


@pytest.mark.parametrize("name", [*NAMES, "a.nc"])
def test_a_name_within_another_array(name: str, tmp_path: Path) -> None:
    bp.savez(tmp_path / "a.blp", {"a": np.arange(3), "a/b": np.arange(4)})
    with pytest.warns(BloscpackWarning, match="array 'a/b': its name is inside of array 'a'"):
        bp.convert(tmp_path / "a.blp", tmp_path / name)
    bp.convert(tmp_path / name, tmp_path / "b.blp", to="array")
    assert_same(bp.load(tmp_path / "b.blp"), np.arange(3))


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_run_leaves_nothing(name: str, archive: Path) -> None:
    assert_interrupted_steps_leave_nothing(archive, name, 10)


@pytest.mark.parametrize(("name", "module"), [("a.h5", hdf5), ("a.zarr", zarrarray)])
def test_a_copy_that_differs_is_removed(
    name: str, module: Any, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = module._Writer.write

    def wrong(writer: Any, name: str, source: Any, add: Any) -> None:
        rows = source.rows
        others = Rows(rows.shape, rows.dtype, lambda place: np.ones_like(rows.read(place)))
        write(writer, name, ArraySource(others, attrs=source.attrs), add)

    monkeypatch.setattr(module._Writer, "write", wrong)
    with pytest.raises(FormatError, match="differs from its source and was removed: array 'mask'"):
        bp.convert(archive, tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["a.h5", "a.zarr", "a.nc"])
def test_a_copy_that_lacks_attributes_is_removed(
    name: str, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("h5netcdf")
    with monkeypatch.context() as patch:
        patch.setattr(treewriter, "others_of", lambda attrs, shape: {})
        with pytest.raises(FormatError, match="removed: array 'run/one': the attrs"):
            bp.convert(archive, tmp_path / name)
    with monkeypatch.context() as patch:
        patch.setattr(treewriter, "split_groups", lambda attrs: ({}, {}))
        with pytest.raises(FormatError, match="removed: the attrs of all arrays"):
            bp.convert(archive, tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", small_vectors("recording.vrs"))
def test_a_recording_is_copied_to_what_the_suffix_names(tmp_path: Path, name: str) -> None:
    recording = SMALL_FORMATS / name
    with bp.frames.open(recording) as source:
        ids = list(source.keys())
        first = source[ids[0]][:]
    done = bp.convert(recording, tmp_path / "a.h5")
    assert (done.kind, done.clips) == ("hdf5", len(ids))
    with h5py.File(tmp_path / "a.h5") as file:
        assert_same(file[ids[0]][...], first)
    with pytest.raises(ValueError, match="an array is made of one"):
        bp.convert(recording, tmp_path / "a.npy")
    assert not (tmp_path / "a.npy").exists()


def test_variables_of_a_netcdf_file(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    data = xr.Dataset(
        {"t": (("x",), [1.5, 2.5]), "u": (("x", "y"), [[1, 2, 3]] * 2)},
        coords={"x": [10, 20]},
        attrs={"title": "fields"},
    )
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    bp.convert(tmp_path / "a.nc", tmp_path / "a.blp")
    with bp.Archive(tmp_path / "a.blp") as found:
        assert found.attrs == {"title": "fields"}
        assert np.array_equal(found["u"], data["u"])
        assert found["t"].attrs["coords"]["x"]["data"] == [10, 20]


def test_an_array_that_is_not_a_clip_is_named(tmp_path: Path) -> None:
    bp.savez(tmp_path / "a.blp", clip=np.zeros((2, 4, 4), "u1"), labels=np.arange(2))
    with pytest.raises(ValueError, match=r"array 'labels' of shape \(2,\) is not a clip"):
        bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", to="frames")
    assert not (tmp_path / "b.blp").exists()


OVERLAPPING = np.zeros(2, {"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 1]})
NOT_HELD: dict[str, tuple[Any, str]] = {
    "a.nc": (np.zeros(2, [("a", "i4")]), "cannot hold items of"),
    "a.npz": (OVERLAPPING, "cannot hold items of"),
    "a.h5": (np.zeros(2, "<f8").astype([("a", "M8[D]")]), "cannot hold the array"),
    "a.zarr": (np.zeros(2, "M8"), "has no unit"),
}


@pytest.mark.parametrize("name", NOT_HELD)
def test_an_array_that_the_type_cannot_hold(name: str, tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    array, why = NOT_HELD[name]
    bp.savez(tmp_path / "a.blp", one=np.arange(3), bad=array, two=np.arange(2.0))
    with pytest.raises(UnsupportedError, match=f"strict: .*array 'bad': .*{why}"):
        bp.convert(tmp_path / "a.blp", tmp_path / name, strict=True)
    with pytest.warns(BloscpackWarning, match=f"left out: array 'bad': .*{why}"):
        done = bp.convert(tmp_path / "a.blp", tmp_path / name)
    assert (done.clips, done.frames, len(done.left_out)) == (2, 5, 1)
    bp.convert(tmp_path / name, tmp_path / "b.blp")
    assert sorted(bp.load(tmp_path / "b.blp")) == ["one", "two"]
    bp.savez(tmp_path / "c.blp", bad=array, worse=array)
    with pytest.raises(UnsupportedError, match=f"nothing can be copied: array 'bad': .*{why}"):
        bp.convert(tmp_path / "c.blp", tmp_path / f"c{name}")
    with pytest.raises(UnsupportedError, match=rf"c{name}: .*{why}"):
        bp.convert(f"{tmp_path}/c.blp::/bad", tmp_path / f"c{name}")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.blp", name, "b.blp", "c.blp"]


def test_axes_of_netcdf_with_two_lengths(tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    xr = pytest.importorskip("xarray")
    arrays = {"a": xr.DataArray([1, 2], dims="x"), "sub/b": xr.DataArray([3], dims="x")}
    bp.savez(tmp_path / "a.blp", arrays | {"c": xr.DataArray([1, 2, 3], dims="x")})
    with pytest.warns(BloscpackWarning, match="left out: array 'c': .*an axis 'x' of 3"):
        bp.convert(tmp_path / "a.blp", tmp_path / "a.nc")
    bp.convert(tmp_path / "a.nc", tmp_path / "b.blp")
    assert {key: [*each] for key, each in bp.load(tmp_path / "b.blp").items()} == {
        "a": [1, 2],
        "sub/b": [3],
    }


@pytest.mark.parametrize("name", ["a.h5", "a.nc", "a.zarr"])
def test_each_array_is_opened_as_often_among_many(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("h5netcdf")
    xr = pytest.importorskip("xarray")
    seen: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            seen[name] += 1
            return call(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    for method in ("get", "set", "list_dir", "list"):
        count(zarr.storage.LocalStore, method)
    for method in ("__getitem__", "__iter__", "get", "create_dataset"):
        count(h5py.Group, method)
    counts = []
    for number in (2, 4, 6):
        x = xr.DataArray(np.arange(3.0), dims="x", coords={"x": [1, 2, 3]})
        bp.savez(tmp_path / f"{number}.blp", {f"run/{k}": x + k for k in range(number)})
        bp.convert(tmp_path / f"{number}.blp", tmp_path / f"{number}{name}")
        there = seen.copy()
        bp.convert(tmp_path / f"{number}{name}", tmp_path / "b.blp", overwrite=True)
        counts.append((there, seen - there))
        seen.clear()
    for few, some, many in zip(*counts, strict=True):
        assert some
        for method in some:
            assert many[method] - some[method] == some[method] - few[method], method
