"""Arrays copied to and from HDF5 files, which h5py writes and reads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import (
    BloscpackError,
    BloscpackWarning,
    FormatError,
    NotFoundError,
    UnsupportedError,
)
from bloscpack.exchange import arraytree
from bloscpack.filetypes import arraysource

from ..strategies import fill, scalars, shapes
from .conversions import (
    LABELS,
    assert_differences_are_found,
    assert_interrupted_run_leaves_nothing,
    assert_same,
    assert_same_labelled,
)

h5py = pytest.importorskip("h5py")

ATTRS: dict[str, Any] = {
    "unit": "K",
    "text": "zwölf\nlines",
    "nul": "a\0b",
    "yes": True,
    "count": 3,
    "large": 1 << 70,
    "ratio": 0.5,
    "none": None,
    "empty": [],
    "list": [1, 2],
    "names": ["a", "b"],
    "mixed": [1, "a", None],
    "nested": {"a": {"b": [1.5]}},
    "many": list(range(9000)),
    "": 1,
}


@given(dtype=scalars, shape=shapes, nbytes=st.sampled_from([9, 1 << 20]))
def test_any_array(dtype: Any, shape: Any, nbytes: int, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    array = fill(dtype, shape, 1)
    bp.save(folder / "a.blp", array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arraysource, "PART_NBYTES", nbytes)
        try:
            done = bp.convert(folder / "a.blp", folder / "a.h5", overwrite=True)
        except UnsupportedError:
            assert dtype.kind in "US" or dtype.itemsize in (0, 32)
            return
        assert (done.kind, done.lossless) == ("hdf5", True)
        bp.convert(folder / "a.h5", folder / "b.blp", overwrite=True)
    with h5py.File(folder / "a.h5") as file:
        if dtype.kind == "U":
            assert np.array_equal(bp.load(folder / "b.blp"), array)
            assert np.array_equal(file["data"].asstr()[...], array)
        else:
            assert_same(bp.load(folder / "b.blp"), array)
            assert_same(np.asarray(file["data"][...]), array)


def test_attrs(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(6), attrs=ATTRS)
    bp.convert(tmp_path / "a.blp", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        found = file["data"].attrs
        assert (found["unit"], found["count"], list(found["names"])) == ("K", 3, ["a", "b"])
    bp.convert(tmp_path / "a.h5", tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as a:
        assert a.attrs == ATTRS


@pytest.mark.parametrize("suffix", [".h5", ".nc"])
@pytest.mark.parametrize("has_labels", [False, True])
def test_attrs_with_the_names_of_labels(suffix: str, has_labels: bool, tmp_path: Path) -> None:
    if suffix == ".nc":
        pytest.importorskip("h5netcdf")
        pytest.importorskip("scipy")
    attrs = {"_attrs": {"dims": 2**64 - 1, "name": [], "coords": "x", "_attrs": "y"}, "unit": "K"}
    if has_labels:  # one of two dimensions, which HDF5 has not
        coords = {"area": {"dims": ["y", "x"], "data": [[1, 2], [3, 4]]}}
        attrs |= {"dims": ["y", "x"], "name": "t", "coords": coords}
    bp.save(tmp_path / "a.blp", np.ones((2, 2)), attrs=attrs)
    bp.convert(tmp_path / "a.blp", tmp_path / f"a{suffix}", strict=True)
    bp.convert(tmp_path / f"a{suffix}", tmp_path / "b.blp", strict=True)
    with bp.open(tmp_path / "b.blp") as a:
        assert a.attrs["_attrs"] == attrs["_attrs"]
        assert a.attrs["unit"] == "K"
        assert list(a.coords) == (["area"] if has_labels else [])


@pytest.mark.parametrize("fill", [np.ones((2, 3)), 7, np.array(["a", "b"], object)])
def test_text_with_a_fill_value_that_is_not_text(fill: Any, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=np.array(["one", "é"], object), dtype=h5py.string_dtype())
        file["t"].attrs["_FillValue"] = fill
    done = bp.convert(tmp_path / "a.h5", tmp_path / "a.blp")
    assert not done.left_out
    assert bp.load(tmp_path / "a.blp").tolist() == ["one", "é"]


def test_labels(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(24.0).reshape(2, 3, 4), attrs=LABELS | {"unit": "K"})
    bp.convert(tmp_path / "a.blp", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        data = file["temperature"]
        assert [each.label for each in data.dims] == ["time", "y", "x"]
        assert list(data.dims[1]["y"][:]) == [0.5, 1.5, 2.5]
        assert list(data.dims[2]["x"].asstr()[:]) == ["a", "b", "c", "d"]
        assert data.dims[2]["x"].attrs["long_name"] == "column"
    bp.convert(tmp_path / "a.h5", tmp_path / "b.blp")
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataarray(tmp_path / "b.blp") as found:
        assert_same_labelled(found, xarray.open_dataarray(tmp_path / "a.blp"))


def test_attrs_of_coordinates(tmp_path: Path) -> None:
    attrs = {"units": "m", "nested": {"y": [1, None]}, "CLASS": "x", "big": 1 << 70}
    labels = {"dims": ["a"], "coords": {"a": {"data": [1, 2], "attrs": attrs}}}
    bp.save(tmp_path / "a.blp", np.arange(2), attrs=labels)
    bp.convert(tmp_path / "a.blp", tmp_path / "a.h5")
    bp.convert(tmp_path / "a.h5", tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as a:
        assert a.attrs["coords"]["a"]["attrs"] == attrs


@pytest.mark.parametrize("other", ["x", "x/y"])
def test_coordinates_with_the_name_of_another_array(other: str, tmp_path: Path) -> None:
    labels = {"dims": ["x"], "coords": {"x": [1, 2]}}
    bp.save(tmp_path / "one.blp", np.arange(2), attrs=labels)
    with bp.open(tmp_path / "one.blp") as one:
        bp.savez(tmp_path / "a.blp", {other: np.arange(3), "z": one})
    why = {
        "x": "its coordinates differ from the array 'x'",
        "x/y": "a group has the name of its coordinates 'x'",
    }
    with pytest.warns(BloscpackWarning):
        done = bp.convert(tmp_path / "a.blp", tmp_path / "a.h5")
    assert done.left_out == (f"array 'z': {why[other]}", "coordinates 'x' of 'z'")
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file[other], np.arange(3))


def test_axes_with_the_name_of_another_array(tmp_path: Path) -> None:
    """It is attached to them only if it is a scale of their length."""
    for name, array, dims in (("x", np.arange(3), "x"), ("z", np.zeros((2, 3, 3)), "xyz")):
        bp.save(tmp_path / f"{name}.blp", array, attrs={"dims": list(dims)})
    with bp.open(tmp_path / "x.blp") as x, bp.open(tmp_path / "z.blp") as z:
        bp.savez(tmp_path / "a.blp", {"x": x, "y": np.arange(3), "a": z})
    bp.convert(tmp_path / "a.blp", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert [len(axis) for axis in file["a"].dims] == [0, 0, 1]
        assert file["x"].is_scale


def test_a_file_of_another_program(tmp_path: Path) -> None:
    """Two datasets in groups, chunked and compressed, big-endian, with labels and attributes."""
    array = fill(np.dtype(">i2"), (50, 40, 30), 1)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("run/one", data=array, chunks=(7, 40, 30), compression="gzip")
        data.attrs["unit"] = np.bytes_(b"mV")
        data.attrs["gain"] = np.float32(0.5)
        data.attrs["window"] = np.array([[1, 2], [3, 4]])
        file["run/x"] = np.arange(30) * 0.1
        file["run/x"].make_scale("x")
        data.dims[2].attach_scale(file["run/x"])
        file["two"] = [1, 2, 3]
    with pytest.raises(ValueError, match=r"2 arrays; name one, such as '.*a\.h5::/run/one': run/o"):
        bp.convert(tmp_path / "a.h5", tmp_path / "b.npy")
    with pytest.raises(NotFoundError, match=r"no array 'three' in an HDF5 file: it has run/one, t"):
        bp.convert(f"{tmp_path}/a.h5::/three", tmp_path / "b.blp")
    bp.convert(f"{tmp_path}/a.h5::/run/one", tmp_path / "b.blp", nthreads=1)
    with bp.open(tmp_path / "b.blp") as a:
        assert_same(a[...], array)
        attrs = dict(a.attrs)
        assert attrs.pop("coords").keys() == {"x"}
        assert_same(a.coords["x"].values, np.arange(30) * 0.1)
        assert attrs == {
            "name": "one",
            "dims": ["dim_0", "dim_1", "x"],
            "unit": "mV",
            "gain": 0.5,
            "window": [[1, 2], [3, 4]],
        }
    content = (tmp_path / "a.h5").read_bytes()
    with pytest.raises(ValueError, match="2 arrays"):
        bp.convert(content, tmp_path / "c.npy")


def test_behind_a_url(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["run/d"] = np.arange(9)
        file["e"] = 1
    files = fsspec.filesystem("memory")
    files.put(str(tmp_path / "a.h5"), "/a.h5")
    try:
        bp.convert("memory://a.h5::/run/d", tmp_path / "a.blp")
    finally:
        files.rm("/a.h5")
    assert bp.load(tmp_path / "a.blp").tolist() == list(range(9))


def test_places_in_the_copy(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(60).reshape(20, 3), chunks=4)
    bp.convert(tmp_path / "a.blp", f"{tmp_path}/a.h5::/group/values")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["group/values"].chunks == (4, 3)
    bp.convert(tmp_path / "a.blp", tmp_path / "b.out", to="hdf5", chunks=(5, 2))
    with h5py.File(tmp_path / "b.out") as file:
        assert file["data"].chunks == (5, 2)
    for chunks in ((0, 1), "auto", (1,), 0):
        with pytest.raises(ValueError, match="chunks"):
            bp.convert(tmp_path / "a.blp", tmp_path / "c.h5", chunks=chunks, to="hdf5")
    assert not (tmp_path / "c.h5").exists()


def test_no_trace_of_a_copy_that_fails(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arraysource, "PART_NBYTES", 1000)
    bp.save(tmp_path / "a.blp", np.arange(1000), chunks=100)
    assert_interrupted_run_leaves_nothing(tmp_path / "a.blp", "b.h5", monkeypatch)
    assert_differences_are_found(tmp_path / "a.blp", "b.h5", monkeypatch)


class TestHostile:
    def test_truncated_and_damaged(self, tmp_path: Path) -> None:
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("d", data=np.arange(3000), chunks=(100,), compression="gzip")
        content = path.read_bytes()
        for nbytes in (8, 100, 1000, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:nbytes])
            with pytest.raises(FormatError, match=r"a\.h5: an HDF5 file: "):
                bp.convert(path, tmp_path / "b.blp")
        rng = np.random.default_rng(1)
        for _ in range(60):
            damaged = bytearray(content)
            for at in rng.integers(8, len(content), 20):
                damaged[at] ^= 1 << int(rng.integers(8))
            path.write_bytes(damaged)
            try:
                bp.convert(path, tmp_path / "b.blp", overwrite=True, verify=False)
            except (BloscpackError, ValueError):
                assert [each.name for each in tmp_path.iterdir() if each.name != "b.blp"] == [
                    "a.h5"
                ]

    def test_items_elsewhere(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_bytes(bytes(80))
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("d", (10,), "i8", external=[(str(tmp_path / "secret"), 0, 80)])
        with pytest.raises(UnsupportedError, match="in other files"):
            bp.convert(tmp_path / "a.h5", tmp_path / "b.blp")
        with h5py.File(tmp_path / "a.h5", "a") as file:
            file["e"] = np.arange(10)
            file["d"].make_scale("d")
            file["e"].dims[0].attach_scale(file["d"])
        with pytest.raises(UnsupportedError, match=r"strict: .* scale 'd' of 'e'"):
            bp.convert(f"{tmp_path}/a.h5::/e", tmp_path / "b.blp", strict=True)
        done = bp.convert(tmp_path / "a.h5", tmp_path / "b.blp")
        assert (
            done.left_out[0] == "array 'd': its items are in other files or datasets; copy "
            "them with h5py"
        )
        assert bp.load(tmp_path / "b.blp").tolist() == list(range(10))
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["link"] = h5py.ExternalLink("a.h5", "d")
        with pytest.raises(ValueError, match="0 arrays; nothing to copy"):
            bp.convert(tmp_path / "b.h5", tmp_path / "b.blp")
        with pytest.raises(NotFoundError):
            bp.convert(f"{tmp_path}/b.h5::/link", tmp_path / "b.blp")

    @pytest.mark.parametrize("value", [None, h5py.Empty("i4")])
    def test_without_plain_items(self, value: Any, tmp_path: Path) -> None:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            if value is None:
                file.create_dataset("d", (2,), h5py.vlen_dtype("i4"))
            else:
                file["d"] = value
        with pytest.raises(UnsupportedError, match="variable length, references or none"):
            bp.convert(tmp_path / "a.h5", tmp_path / "b.blp")


@pytest.mark.parametrize("where", ["a group", "a dataset", "items"])
@pytest.mark.parametrize("outer", ["", "array", "compound"])
@pytest.mark.parametrize("unit", [b"D/0", b"0D"])
def test_times_with_a_divided_unit(where: str, outer: str, unit: bytes, tmp_path: Path) -> None:
    """With the divisor 0, numpy ends the process."""
    kind = h5py.h5t.create(h5py.h5t.OPAQUE, 8)
    kind.set_tag(b"NUMPY:<M8[" + unit + b"]")
    if outer == "array":
        kind = h5py.h5t.array_create(kind, (2,))
    elif outer == "compound":
        inner, kind = kind, h5py.h5t.create(h5py.h5t.COMPOUND, 8)
        kind.insert(b"t", 0, inner)
    space = h5py.h5s.create_simple((3,))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
        if where == "items":
            h5py.h5d.create(file.id, b"y", kind, space)
        else:
            h5py.h5a.create((file if where == "a group" else file["x"]).id, b"y", kind, space)
    with pytest.raises(FormatError, match=r"a\.h5: an HDF5 file: times with a divided"):
        bp.convert(tmp_path / "a.h5", tmp_path / "a.blp")


def test_openers_name_the_command(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["d"] = [1]
    for call in (bp.open, bp.load, bp.verify, bp.frames.open):
        with pytest.raises(ValueError, match="an HDF5 file") as caught:
            call(tmp_path / "a.h5")
        assert f"'blpk convert {tmp_path}/a.h5 {tmp_path}/a.blp' converts it" in str(caught.value)


def test_attrs_of_scales_on_other_objects(tmp_path: Path) -> None:
    """PyTables has the attribute CLASS on every object, and opens no file without it."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = file["x"] = np.arange(3)
        file["x"].make_scale("of x")
        # Before CLASS: HDF5 refuses some datasets that have one, by the address of its text.
        file["a"].dims[0].attach_scale(file["x"])
        for node in (file, file["a"], file.create_group("deep")):
            node.attrs.update({"CLASS": "ARRAY", "NAME": "n", "TITLE": "t"})
        file["x"].attrs["TITLE"] = "t"
    bp.convert(tmp_path / "a.h5", tmp_path / "a.blp", to="archive")
    bp.convert(tmp_path / "a.blp", tmp_path / "b.h5", strict=True)
    with h5py.File(tmp_path / "b.h5") as file:
        for name in ("/", "a", "deep"):
            expected = {"CLASS": "ARRAY", "NAME": "n", "TITLE": "t"}
            found = {key: file[name].attrs[key] for key in file[name].attrs if key[0] != "D"}
            assert found == expected
        assert file["x"].is_scale
        assert file["x"].attrs["TITLE"] == "t"


@pytest.mark.parametrize("dtype", ["<i2", "S3", [("a", "u1"), ("b", "<f4", (2,))]])
def test_items_that_are_arrays_have_axes(dtype: Any, tmp_path: Path) -> None:
    items = np.frombuffer(
        np.random.default_rng(1).bytes(4 * 6 * np.dtype(dtype).itemsize), dtype
    ).reshape(4, 2, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (4,), np.dtype((dtype, (2, 3))), chunks=(3,))
        data[...] = items
    done = bp.convert(tmp_path / "a.h5", tmp_path / "a.blp")
    assert done.left_out == ("type of arrays (2, 3) of 'x'",)
    with bp.open(tmp_path / "a.blp") as found:
        assert found.shape == (4, 2, 3)
        assert found[...].tobytes() == items.tobytes()
        assert found[1:3, 1, ::2].tobytes() == items[1:3, 1, ::2].tobytes()


@pytest.mark.parametrize("key", ["bloscpack", "NAME", "CLASS"])
def test_names_that_mean_something_elsewhere(key: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["_nc4_non_coord_d"] = [1]
        file["_nc4_non_coord_d"].attrs[key] = "is good"
        file["d"] = [2]
    bp.convert(tmp_path / "a.h5", tmp_path / "a.blp", strict=True)
    bp.convert(tmp_path / "a.blp", tmp_path / "b.h5", strict=True)
    bp.convert(tmp_path / "b.h5", tmp_path / "b.blp", strict=True)
    with bp.Archive(tmp_path / "b.blp") as found:
        assert {name: array.attrs for name, array in found.items()} == {
            "_nc4_non_coord_d": {key: "is good"},
            "d": {},
        }


def test_parts_of_objects_that_a_copy_has_not(tmp_path: Path) -> None:
    labels = h5py.enum_dtype({"RED": 0, "GREEN": 1}, "i1")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        array = file.create_dataset("a", data=np.arange(3))
        array.attrs.create("colour", 1, dtype=labels)
        array.attrs.create("record", np.array([(1,)], [("colour", labels)]))
        array.attrs["is_true"] = True
    with pytest.warns(BloscpackWarning):
        found = bp.convert(tmp_path / "a.h5", tmp_path / "a.blp").left_out
    assert sorted(found) == ["attribute 'colour' of 'a'", "attribute 'record' of 'a'"]
    with bp.open(tmp_path / "a.blp") as copy:
        assert copy.attrs == {"is_true": True}


def test_a_small_file_that_claims_a_huge_array(tmp_path: Path, monkeypatch: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("huge", (1 << 20, 1 << 20), "f8", chunks=(1024, 1024))
        huge = file["huge"].nbytes
    with pytest.raises(UnsupportedError, match=f"it has {huge} bytes, of which hardly any were"):
        bp.convert(tmp_path / "a.h5", tmp_path / "a.blp")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["small"] = np.arange(3)
    with pytest.warns(BloscpackWarning):
        found = bp.convert(tmp_path / "a.h5", tmp_path / "a.blp").left_out
    assert len(found) == 1
    assert "array 'huge': it has" in found[0]
    # What was written is copied, however much it is.
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["a"] = np.zeros(1000)
    monkeypatch.setattr(arraytree, "_MAX_UNWRITTEN_NBYTES", 1000)
    bp.convert(tmp_path / "b.h5", tmp_path / "b.blp")
