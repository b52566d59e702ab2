"""Files with one of each thing that a format holds: all of it is carried or listed, both ways."""

import json
import re
import shutil
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FormatError, UnsupportedError
from bloscpack.format import filekind

h5py: Any = pytest.importorskip("h5py")
h5netcdf: Any = pytest.importorskip("h5netcdf")
scipy_io: Any = pytest.importorskip("scipy.io")
zarr: Any = pytest.importorskip("zarr")
xr: Any = pytest.importorskip("xarray")

pytestmark = pytest.mark.filterwarnings("ignore")


def make_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as f:
        f.attrs.update({"title": "all", "nan": np.nan, "name": "mine", "neg": -0.0})
        f.attrs["complex"] = 1j
        f.attrs["reference"] = f.ref
        f.attrs["null"] = h5py.Empty("f4")
        space = h5py.h5s.create_simple((2,))
        h5py.h5a.create(f.id, b"unreadable", h5py.h5t.UNIX_D32LE, space)
        f.attrs["many"] = np.arange(4, dtype="u1").reshape(2, 2)
        f.attrs["words"] = np.array(["a", "b"], dtype=object)
        f["t"] = np.array([0, 1, 2.5])
        f["t"].make_scale("t")
        f["t"].attrs["units"] = "days since 2000-01-01"
        f["lonely"] = np.arange(4)
        f["lonely"].make_scale("lonely")
        data = f.create_dataset("T", data=np.ones((3, 4), ">f4"), chunks=(2, 2), fillvalue=-9)
        data.dims[0].attach_scale(f["t"])
        data.dims[0].label = "t"
        data.dims[1].label = "x"
        data.attrs["dims"] = "of a user"
        f["sub/deep/inner"] = np.arange(5, dtype="i2")
        f["sub"].attrs["note"] = "group"
        f.create_group("hollow").attrs["a"] = [1, 2]
        f["hard"] = f["T"]
        f["soft"] = h5py.SoftLink("/sub/deep/inner")
        f["dangling"] = h5py.SoftLink("/nowhere")
        f["external"] = h5py.ExternalLink("other.h5", "/x")
        f["loop"] = f["/"]
        f["type"] = np.dtype("f8")
        f["null"] = h5py.Empty("i4")
        f["text"] = np.array(["x", "yy"], dtype=object)
        f["fixed"] = np.array([b"ab", b"c"])
        f.create_dataset("lists", (2,), h5py.vlen_dtype("i4"))
        f.create_dataset("references", (2,), h5py.ref_dtype)
        f.create_dataset("regions", (2,), h5py.regionref_dtype)
        f.create_dataset("switch", data=[0, 1], dtype=h5py.enum_dtype({"OFF": 0, "ON": 1}, "i1"))
        f["flags"] = np.array([True, False])
        f["records"] = np.array([(1, [2.5, 3])], [("a", "i4"), ("b", "f8", (2,))])
        f["opaque"] = np.array([b"abc"], "V3")
        f["when"] = np.array(["2020-01-01"], "M8[D]").astype(h5py.opaque_dtype("M8[D]"))
        f["complex"] = np.array([1 + 2j, complex(-0.0, np.nan)])
        f["scalar"] = 7
        f.create_dataset("log", (0,), maxshape=(None,), dtype="f4")
        f.create_dataset("capped", (2,), maxshape=(9,), dtype="f4")
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource(".", "t", (3,))
        f.create_virtual_dataset("virtual", layout)
        f.create_dataset("outside", (2,), "i1", external=[("raw.bin", 0, 2)])
        h5py.h5d.create(f.id, b"bits", h5py.h5t.STD_B8LE, space)
        h5py.h5d.create(f.id, b"clock", h5py.h5t.UNIX_D32LE, space)
        pairs = h5py.h5t.array_create(h5py.h5t.STD_I32LE, (2,))
        h5py.h5d.create(f.id, b"pairs", pairs, space)
        h5py.h5a.create(f["lonely"].id, b"\xe9", h5py.h5t.STD_I8LE, space)
        ragged = f.create_dataset("ragged", (2, 3), "i1")
        ragged.dims[0].label = ragged.dims[1].label = "x"


NO_ITEMS = "it has items of variable length, references or none"
ELSEWHERE = "its items are in other files or datasets; copy them with h5py"
HDF5_LOST = {
    *(f"array '{name}': {NO_ITEMS}" for name in ("null", "lists", "references", "regions")),
    *(f"array '{name}': {ELSEWHERE}" for name in ("virtual", "outside")),
    *(f"attribute '{name}' of the file" for name in ("complex", "reference", "null", "unreadable")),
    "link 'hard' to 'T'",
    "link 'soft' to '/sub/deep/inner'",
    "link 'dangling' to '/nowhere'",
    "link 'external' to '/x' in another file",
    "link 'loop' to '/'",
    "type 'type'",
    "array 'clock': its type is unknown to numpy: No NumPy equivalent for TypeTimeID exists",
    "type of arrays (2,) of 'pairs'",
    r"attribute b'\xe9' of 'lonely'",
    "names ['x', 'x'] of the axes of 'ragged', whose lengths differ",
    "fill value -9.0 of 'T'",
    "labels OFF, ON of the items of 'switch'",
    "type bit field of 'bits'",
    "unlimited length of 'log'",
    "largest shape (9,) of 'capped'",
}


# And an axis without coordinates, which xarray needs.
_LOST_IN_HDF5 = {text.split("'")[1] for text in HDF5_LOST if text[0] in "at"} | {"x"}


def hdf5_content(path: Path) -> dict[str, Any]:
    """Return what h5py finds, apart from what `HDF5_LOST` names."""
    found: dict[str, Any] = {}
    kept = ("title", "nan", "name", "neg", "many", "words")

    def visit(name: str, node: Any) -> None:
        items = ((key, value) for key, value in node.attrs.items() if isinstance(key, str))
        attrs = {key: repr(value) for key, value in items if key[0].islower()}
        if isinstance(node, h5py.Group):
            found[name] = attrs
        elif name not in _LOST_IN_HDF5:
            scales = [[each.name for each in dim.values()] for dim in node.dims]
            items = node[()].tolist() if node.dtype == object else node[()].tobytes()
            found[name] = (node.shape, node.dtype.str, items, attrs, scales[:1], node.is_scale)

    with h5py.File(path) as f:
        f.visititems(visit)
        found[""] = {key: repr(np.asarray(f.attrs[key]).tolist()) for key in kept}
    return found


def make_netcdf4(path: Path) -> None:
    with h5netcdf.File(path, "w") as f:
        make_netcdf(f, f.create_variable)
        f.dimensions["more"] = 2
        for kind in ("u1", "u2", "u4", "i8", "u8"):
            f.create_variable(kind, ("x",), kind)[:] = [1, 2, 3]
        f.create_variable("id", ("x",), "i8", fillvalue=np.int64(-1))[:] = [2**53 + 1, 7, -1]
        f.create_variable("text", ("x",), h5py.string_dtype())[:] = np.array(["a", "bb", "c"], "O")
        group = f.create_group("sub")
        group.attrs["about"] = "group"
        group.dimensions["y"] = 2
        group.create_variable("y", ("y",), "i4")[:] = [1, 2]
        group.create_variable("inner", ("y", "x"), "f4")[:] = np.ones((2, 3))
        group.create_group("deep").create_variable("x", ("x",), "f4")[:] = [9, 9, 9]
        f.create_group("hollow").attrs["a"] = 1
        switch = f.create_enumtype(np.int8, "switch_t", {"OFF": 0, "ON": 1})
        f.create_variable("switch", ("x",), switch)[:] = np.array([0, 1, 0], "i1")


def make_netcdf3(path: Path) -> None:
    with scipy_io.netcdf_file(path, "w", version=2) as f:
        make_netcdf(f, lambda name, dims, kind, **_: f.createVariable(name, kind, dims))


def make_netcdf(f: Any, create: Callable[..., Any]) -> None:
    """Add what both versions can hold."""
    is_new = hasattr(f, "create_group")
    sizes = {"time": None, "x": 3, "unused": 7, "strlen": 2, "lonely": 2}
    for name, size in sizes.items():
        if is_new:
            f.dimensions[name] = size
        else:
            f.createDimension(name, size)
    if is_new:
        f.resize_dimension("time", 2)

    def attrs(node: Any, **values: Any) -> None:
        for key, value in values.items():
            if is_new:
                node.attrs[key] = value
            else:
                setattr(node, key, value)

    def variable(key: str, dims: tuple[str, ...], kind: str, items: Any, **values: Any) -> None:
        fill = {"fillvalue": values.pop("_FillValue")} if is_new and "_FillValue" in values else {}
        made = create(key, dims, kind, **fill)
        if dims:
            made[0 : len(items)] = np.array(items, kind)
        elif is_new:
            made[...] = items
        else:
            made.data[...] = items
        attrs(made, **values)

    number = np.array([1, 2], "i4")
    attrs(f, title="all", history="made", nan=np.float32(np.nan), list=number, number=np.int16(5))
    time = {"units": "days since 2000-01-01", "calendar": "noleap"}
    variable("time", ("time",), "f8", [0, 59.5], **time)
    variable("x", ("x",), "f4", [1, 2, 3], long_name="column")
    packed = {"scale_factor": np.float32(0.5), "add_offset": 10.0, "_FillValue": np.int16(-1)}
    others = {"name": "Thermometer", "coordinates": "lat lab"}
    variable("T", ("time", "x"), "i2", [[1, 2, -1], [3, 4, 5]], **packed, **others)
    variable("lat", ("x",), "f8", [5, 6, 7])
    variable("lab", ("x", "strlen"), "S1", [[b"a", b"b"], [b"c", b"d"], [b"e", b"f"]])
    variable("cov", ("x", "x"), "f4", np.eye(3))
    variable("scalar", (), "i4", 9)
    variable("lonely", ("lonely",), "i4", [7, 8])
    variable("marked", ("x",), "f4", [1, -99, 3], missing_value=np.float32(-99))
    variable("unsigned", ("x",), "i1", [-1, 2, 3], _Unsigned="true")
    variable("flag", ("x",), "i1", [0, 1, 0], flag_values=np.array([0, 1], "i1"))


NETCDF3_LOST = {
    "dimension 'unused' of length 7",
}
NETCDF4_LOST = {
    *NETCDF3_LOST,
    "dimension 'more' of length 2",
    "type 'switch_t'",
    "labels OFF, ON of the items of 'switch'",
}


def netcdf_content(path: Path) -> dict[str, Any]:
    """Return what xarray finds, raw and as it decodes it, apart from what is listed as lost."""
    engine = "scipy" if path.name == "netcdf3.nc" else "h5netcdf"
    found: dict[str, Any] = {}
    groups = ("",) if engine == "scipy" or "netcdf3" in path.stem else ("", "sub", "sub/deep")
    for group in groups:
        for is_raw in (True, False):
            options = {"decode_cf": False} if is_raw else {"decode_times": False}
            with xr.open_dataset(path, engine=engine, group=group or None, **options) as data:
                found[group, is_raw] = {key: _text(value) for key, value in data.attrs.items()}
                for name, each in data.variables.items():
                    if name != "switch" or group:
                        values = each.values
                        if values.dtype.kind != "O":
                            values = values.astype(values.dtype.newbyteorder("="))
                        attrs = {key: _text(value) for key, value in each.attrs.items()}
                        items = values.tolist() if values.dtype == object else values.tobytes()
                        kept = (each.dims, values.dtype, items, attrs)
                        found[group, is_raw, name] = kept
    return found


def _text(value: Any) -> str:
    value = np.asarray(value)
    return f"{value.astype('f8') if value.dtype.kind in 'iuf' else value}"


def make_zarr(path: Path, zarr_format: int) -> None:
    root = zarr.create_group(
        path,
        zarr_format=zarr_format,
        attributes={"title": "all", "nan": float("nan"), "deep": {"a": [1, None]}},
    )

    def add(name: str, items: Any, dims: Any = None, attrs: Any = None, **options: Any) -> None:
        if dims and zarr_format == 3:
            options["dimension_names"] = dims
        array = root.create_array(name, data=np.asarray(items), **options)
        array.attrs.update(
            ({"_ARRAY_DIMENSIONS": dims} if dims and zarr_format == 2 else {}) | (attrs or {})
        )

    time = {"units": "days since 2000-01-01", "calendar": "noleap"}
    add("t", [0.0, 1.0], ["t"], time)
    packed = {"scale_factor": 0.5, "name": "mine", "coordinates": "lab lat"}
    options: dict[str, Any] = {"fill_value": -1}
    packed |= {"_FillValue": -1} if zarr_format == 3 else {}
    add("T", np.arange(-1, 5, dtype="i2").reshape(2, 3), ["t", "x"], packed, **options)
    add("lab", np.array(["a", "bb", "c"]), ["x"])
    add("lat", [1.0, 2, 3], ["x"])
    add("plain", np.arange(4))
    if zarr_format == 2:
        add("order", np.arange(6).reshape(2, 3), order="F")
        add("big", np.arange(3, dtype=">i4"))
        add("beside", [1, 2], attrs={"_FillValue": -9}, fill_value=-1)
    else:
        add("shards", np.arange(16).reshape(4, 4), chunks=(2, 2), shards=(4, 4))
    add("complex", [1 + 2j], fill_value=complex(-0.0, 1))
    add("nan", [1.0, np.nan], fill_value=np.nan)
    add("negative", [1.0], fill_value=-0.0)
    add("filled", np.array([5, 7], "i4"), fill_value=7)
    add("empty", np.zeros((0, 3), "i2"))
    add("scalar", 4.5)
    add("flags", [True, False])
    add("cov", np.eye(3), ["x", "x"])
    add("when", np.array(["2020-01-01"], "M8[s]"))
    add("fixed", [b"ab"])
    add("records", np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]))
    root.create_array("text", shape=(2,), dtype=str)[:] = np.array(["x", "yy"], dtype=object)
    sub = root.create_group("sub", attributes={"note": 1})
    sub.create_group("deep").create_array("inner", data=np.arange(2))
    root.create_group("hollow", attributes={"a": [1]})
    part = root.create_array("part", shape=(4,), chunks=(2,), dtype="f4", fill_value=0)
    part[:2] = 1


ZARR2_LOST = {
    "fill value (-0+1j) of 'complex'",
    "attribute '_FillValue' beside the fill value of 'beside'",
}
ZARR3_LOST = {
    "fill value (-0+1j) of 'complex'",
    "fill value nan of 'nan'",
    "fill value -0.0 of 'negative'",
    "fill value 7 of 'filled'",
}


def zarr_content(path: Path) -> dict[str, Any]:
    """Return what zarr finds, apart from what is listed as lost."""
    root = zarr.open_group(path, mode="r", use_consolidated=False)
    found: dict[str, Any] = {"": repr(dict(root.attrs))}
    for name, node in root.members(max_depth=None):
        attrs = {key: repr(value) for key, value in dict(node.attrs).items()}
        attrs.pop("_FillValue", None) if name == "beside" else None
        if isinstance(node, zarr.Group):
            found[name] = attrs
        else:
            attrs.pop("_ARRAY_DIMENSIONS", None)
            dims = getattr(node.metadata, "dimension_names", None)
            dims = dims or node.attrs.get("_ARRAY_DIMENSIONS") or [None] * node.ndim
            # Copies name all axes, as xarray needs.
            dims = [None if str(each).startswith("dim_") else each for each in dims]
            fill = repr(node.fill_value) if node.metadata.zarr_format == 2 else ""
            fill = "" if name in ("complex", "when", "records") else fill
            items = node[...]
            content = items.tolist() if items.dtype.kind == "T" else items.tobytes()
            found[name] = (items.shape, items.dtype, content, attrs, dims, fill)
    return found


FORMATS: dict[str, Any] = {
    "hdf5.h5": (make_hdf5, hdf5_content, HDF5_LOST),
    "netcdf3.nc": (make_netcdf3, netcdf_content, NETCDF3_LOST),
    "netcdf4.nc": (make_netcdf4, netcdf_content, NETCDF4_LOST),
    "2.zarr": (lambda path: make_zarr(path, 2), zarr_content, ZARR2_LOST),
    "3.zarr": (lambda path: make_zarr(path, 3), zarr_content, ZARR3_LOST),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_with_one_of_each(name: str, tmp_path: Path) -> None:
    make, content, lost = FORMATS[name]
    make(tmp_path / name)
    with pytest.raises(UnsupportedError, match="strict: the copy would leave out"):
        bp.convert(tmp_path / name, tmp_path / "a.blp", strict=True)
    assert not (tmp_path / "a.blp").exists()
    done = bp.convert(tmp_path / name, tmp_path / "a.blp")
    assert done.lossless
    assert sorted(done.left_out) == sorted(lost)
    back = tmp_path / f"back-{name}"
    to = "zarr2" if name == "2.zarr" else None
    assert bp.convert(tmp_path / "a.blp", back, to=to, strict=True).left_out == ()
    found, expected = content(back), content(tmp_path / name)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == value, key


@contextmanager
def in_place(path: Path, place: str) -> Iterator[str]:
    """Yield a Zarr folder at a place: where it is, in a ZIP file, or in memory behind a URL."""
    if place == "zip":
        shutil.make_archive(str(path), "zip", path)
        yield f"{path}.zip"
    elif place == "url":
        files = pytest.importorskip("fsspec").filesystem("memory")
        files.put(str(path), f"/{path.name}", recursive=True)
        try:
            yield f"memory://{path.name}"
        finally:
            files.rm(f"/{path.name}", recursive=True)
    else:
        yield str(path)


@pytest.mark.parametrize("place", ["folder", "zip", "url"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_lists_files_that_zarr_does_not_find(
    tmp_path: Path, zarr_format: int, place: str
) -> None:
    path = tmp_path / "a.zarr"
    root = zarr.create_group(path, zarr_format=zarr_format)
    root.create_array("x", data=np.arange(3))
    (path / "notes.txt").write_text("mine")
    zarr.create_array(tmp_path / "b.zarr", data=np.arange(4), zarr_format=5 - zarr_format)
    (tmp_path / "b.zarr").rename(path / "other")

    with in_place(path, place) as where:
        result = bp.convert(where, tmp_path / "a.blp")

    assert result.left_out == ("file or folder 'notes.txt'", "file or folder 'other'")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("path", ["a.zarr", "a.zarr/x"])
def test_zarr_lists_what_is_in_the_folder_of_an_array(
    tmp_path: Path, zarr_format: int, path: str
) -> None:
    root = zarr.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    root.create_array("x", data=np.arange(24).reshape(4, 6), chunks=(2, 2))
    for key in ({"name": "v2", "separator": "."}, {"name": "default", "separator": "."}):
        name = str(key["name"])
        if zarr_format == 3:
            root.create_array(name, data=np.arange(4), chunks=(2,), chunk_key_encoding=key)
    (tmp_path / "a.zarr/x/notes.txt").write_text("mine")
    zarr.create_array(tmp_path / "a.zarr/x/inner", data=np.arange(4), zarr_format=zarr_format)

    result = bp.convert(tmp_path / path, tmp_path / "a.blp")

    above = "" if path.endswith("x") else "x/"
    assert result.left_out == tuple(
        f"file or folder '{above}{name}'" for name in ("inner", "notes.txt")
    )


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_remote_zarr_store_takes_no_more_requests_than_its_own_listing(
    tmp_path: Path, zarr_format: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.zarr"
    root = zarr.create_group(path, zarr_format=zarr_format)
    for name in ("a", "b", "sub/c", "sub/deep/d"):
        root.create_array(name, data=np.arange(3))
    (path / "notes.txt").write_text("mine")
    taken: list[str] = []
    for name in ("get", "list_dir"):
        call = getattr(zarr.storage.FsspecStore, name)

        def counted(self: Any, key: str, *args: Any, _call: Any = call, **options: Any) -> Any:
            taken.append(key)
            return _call(self, key, *args, **options)

        monkeypatch.setattr(zarr.storage.FsspecStore, name, counted)
    with in_place(path, "url") as where:
        store = zarr.storage.FsspecStore.from_url(where, read_only=True)
        with warnings.catch_warnings(action="ignore"):
            list(zarr.open(store, mode="r").members(max_depth=None))
        expected = sorted(taken)
        taken.clear()
        bp.convert(where, tmp_path / "a.blp")
    assert sorted(each for each in taken if not re.search(r"/(c/)?0$", each)) == expected


@pytest.mark.parametrize("place", ["folder", "zip", "url"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_that_zarr_does_not_read_stops_no_other(
    tmp_path: Path, zarr_format: int, place: str
) -> None:
    path = tmp_path / "a.zarr"
    root = zarr.create_group(path, zarr_format=zarr_format)
    for name in ("b", "a", "dtype", "codec", "sub/c"):
        root.create_array(name, data=np.arange(3))
    for name, changes in {
        "dtype": {2: {"dtype": "|Q9"}, 3: {"data_type": "int99"}},
        "codec": {2: {"compressor": {"id": "unknown"}}, 3: {"codecs": [{"name": "unknown"}]}},
    }.items():
        file = path / name / (".zarray" if zarr_format == 2 else "zarr.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | changes[zarr_format]))

    with in_place(path, place) as where:
        result = bp.convert(where, tmp_path / "a.blp")
        with pytest.raises(UnsupportedError, match="'dtype': zarr does not read it"):
            bp.convert(f"{where}::/dtype", tmp_path / "b.blp")

    with bp.open(tmp_path / "a.blp") as found:
        assert list(found) == ["a", "b", "sub/c"]
    lost = [text.split(" (")[0] for text in result.left_out]
    assert lost == [f"array '{name}': zarr does not read it" for name in ("codec", "dtype")]


@pytest.mark.parametrize("nbytes", [512, 2048])
def test_a_user_block_in_front_of_hdf5_is_listed(tmp_path: Path, nbytes: int) -> None:
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=nbytes) as f:
        f["x"] = np.arange(3)
    with (tmp_path / "a.h5").open("r+b") as file:
        file.write(b"notes")

    result = bp.convert(tmp_path / "a.h5", tmp_path / "a.blp")

    assert result.left_out == (f"user block of {nbytes} bytes",)
    assert bp.load(tmp_path / "a.blp").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "options", [{}, {"libver": "latest"}, {"userblock_size": 512}, {"libver": "v110"}]
)
def test_bytes_behind_an_hdf5_file_are_listed(tmp_path: Path, options: Any) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", **options) as f:
        f["x"] = np.arange(3)
    before = bp.convert(path, tmp_path / "a.blp", overwrite=True).left_out
    assert not any("behind" in each for each in before)
    with path.open("ab") as file:
        file.write(b"more")

    result = bp.convert(path, tmp_path / "a.blp", overwrite=True)

    assert result.left_out == ("4 bytes behind the end of the file", *before)


def test_the_encoding_of_text_of_one_length_is_listed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["ascii"] = np.array([b"abc", b""])
        f.create_dataset("text", data=["größe".encode()], dtype=h5py.string_dtype("utf-8", 7))
        f["any"] = ["größe"]

    result = bp.convert(tmp_path / "a.h5", tmp_path / "a.blp")

    assert result.left_out == ("encoding UTF-8 of the text in 'text'",)
    with bp.open(tmp_path / "a.blp") as found:
        assert np.asarray(found["text"]).tolist() == ["größe".encode()]


def test_an_array_with_a_missing_filter_stops_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f["x"] = np.arange(3)
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_chunk((10,))
        options.set_filter(32100, h5py.h5z.FLAG_OPTIONAL, (1,))
        for name in (b"empty", b"full"):
            space = h5py.h5s.create_simple((20,))
            h5py.h5d.create(f.id, name, h5py.h5t.NATIVE_INT32, space, dcpl=options)
        f["full"].id.write_direct_chunk((0,), b"coded")

    result = bp.convert(path, tmp_path / "a.blp")

    why = "filter 32100 is missing; 'pip install hdf5plugin' has many, PyTables has lzo"
    assert result.left_out == (f"array 'full': {why}",)
    with bp.open(tmp_path / "a.blp") as found:
        assert {name: np.asarray(each).sum() for name, each in found.items()} == {
            "empty": 0,
            "x": 3,
        }
    with pytest.raises(UnsupportedError, match=f"'full': {why}"):
        bp.convert(f"{path}::/full", tmp_path / "b.blp")


@pytest.mark.parametrize("suffix", [".h5", ".nc", ".zarr"])
def test_attributes_of_groups_that_a_library_does_not_have(tmp_path: Path, suffix: str) -> None:
    """As PyTables writes them: attributes of dimension scales, and values that are nested."""
    attrs = {"CLASS": "GROUP", "NAME": "x", "deep": {"a": [None, 1]}, "_NCProperties": "no"}
    groups = {"/sub": attrs, "/sub/deep": attrs, **attrs}
    arrays = {"sub/deep/x": np.arange(3), "y": np.arange(2)}
    bp.savez(tmp_path / "a.blp", arrays, attrs=groups)

    bp.convert(tmp_path / "a.blp", tmp_path / f"b{suffix}", strict=True)
    bp.convert(tmp_path / f"b{suffix}", tmp_path / "c.blp", strict=True)

    with bp.open(tmp_path / "c.blp") as found:
        assert found.attrs == groups


def test_names_of_hdf5_that_are_not_utf8_are_listed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(3)
        f["sub/y"] = np.arange(4)
        f["scale"] = np.arange(3)
        f["scale"].make_scale("scale")
        f["x"].dims[0].attach_scale(f["scale"])
        for name in (b"gr\xf6\xdfe", b"\xfc/inner", b"sub/d\xe4ta"):
            links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
            links.set_create_intermediate_group(True)
            space = h5py.h5s.create(h5py.h5s.SCALAR)
            h5py.h5d.create(f.id, name, h5py.h5t.NATIVE_INT32, space, lcpl=links)
        f.id.links.move(b"scale", f.id, b"sk\xe4la")
        f.id.links.create_external(b"ext", b"other.h5", b"\xe4")

    result = bp.convert(tmp_path / "a.h5", tmp_path / "a.blp")

    with bp.open(tmp_path / "a.blp") as found:
        assert {name: len(each) for name, each in found.items()} == {"sub/y": 4, "x": 3}
    where = ", whose name is not UTF-8"
    assert set(result.left_out) == {
        rf"object b'gr\xf6\xdfe'{where}",
        rf"object b'\xfc'{where}",
        rf"object b'sk\xe4la'{where}",
        rf"object b'd\xe4ta' in group 'sub'{where}",
        r"link 'ext' to b'\xe4' in another file",
    }


def test_a_tar_that_begins_with_an_hdf5_file_stays_a_tar(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(3)
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as file:
        file.add(tmp_path / "a.h5", "a.h5")
    head = (tmp_path / "a.tar").read_bytes()
    assert head[512:520] == (tmp_path / "a.h5").read_bytes()[:8]
    assert filekind.kind_of(head) is filekind.TAR


def test_groups_of_zarr_may_be_deep(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr.zip"
    depth = sys.getrecursionlimit() + 10
    group = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})
    zarr.create_array(tmp_path / "x", data=np.arange(3))
    with zipfile.ZipFile(path, "w") as file:
        for level in range(depth):
            file.writestr("a/" * level + "zarr.json", group)
        for name in ("zarr.json", "c/0"):
            file.write(tmp_path / "x" / name, "a/" * (depth - 1) + f"x/{name}")

    bp.convert(path, tmp_path / "a.blp", to="archive")

    with bp.open(tmp_path / "a.blp") as found:
        assert [each.tolist() for each in map(np.asarray, found.values())] == [[0, 1, 2]]


def test_a_stream_of_netcdf_records_is_not_an_empty_array(tmp_path: Path) -> None:
    with scipy_io.netcdf_file(tmp_path / "a.nc", "w") as f:
        f.createDimension("t", None)
        f.createVariable("x", "i4", ("t",))[:3] = [1, 2, 3]
    data = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "a.nc").write_bytes(data[:4] + b"\xff\xff\xff\xff" + data[8:])
    bp.convert(tmp_path / "a.nc", tmp_path / "a.blp")
    assert bp.load(tmp_path / "a.blp").tolist() == [1, 2, 3]
    (tmp_path / "a.nc").write_bytes(data[:4] + b"\x80\0\0\0" + data[8:])
    with pytest.raises(FormatError, match=r"-2147483648 records"):
        bp.convert(tmp_path / "a.nc", tmp_path / "b.blp")


@pytest.mark.parametrize("suffix", [".h5", ".nc", ".zarr"])
def test_attributes_rounded_to_the_items_are_listed(tmp_path: Path, suffix: str) -> None:
    attrs = {"valid_min": 0.1, "_FillValue": 1.0, "valid_max": float("nan"), "valid_range": [0, 2]}
    bp.save(tmp_path / "a.blp", np.ones(3, "f4"), attrs=attrs)

    result = bp.convert(tmp_path / "a.blp", tmp_path / f"b{suffix}")

    assert result.left_out == ("digits of attribute 'valid_min' of the array, beyond its items'",)


def test_unlimited_variables_are_as_long_as_their_dimension(tmp_path: Path) -> None:
    """The library pads them with the fill value, however many rows each variable has."""
    path = tmp_path / "a.nc"
    with h5netcdf.File(path, "w") as f:
        f.dimensions = {"t": None, "x": 2}
        f.create_variable("t", ("t",), "i4")
        f.create_variable("short", ("t", "x"), "i2", fillvalue=np.int16(-5))
        f.create_variable("never", ("x", "t"), "f4", fillvalue=np.float32(2.5))
        f.create_variable("text", ("t",), h5py.string_dtype())
        f.create_variable("marked", ("t", "x"), h5py.string_dtype())
        f["marked"].attrs["_FillValue"] = "none"
    with h5py.File(path, "r+") as f:
        f["t"].resize((3,))
        f["t"][:] = [1, 2, 3]
        f["short"].resize((1, 2))
        f["short"][:] = [[7, 8]]
        f["never"].resize((2, 0))
        f["text"].resize((2,))
        f["text"][:] = ["one", "two"]
        f["marked"].resize((0, 2))

    bp.convert(path, tmp_path / "a.blp")

    with bp.open(tmp_path / "a.blp") as found:
        assert np.asarray(found["short"]).tolist() == [[7, 8], [-5, -5], [-5, -5]]
        assert np.asarray(found["never"]).tolist() == [[2.5] * 3] * 2
        assert np.asarray(found["text"]).tolist() == ["one", "two", ""]
        assert np.asarray(found["marked"]).tolist() == [["none"] * 2] * 3
        assert found["short"].attrs["coords"]["t"]["data"] == [1, 2, 3]


def test_a_dimension_without_a_variable_is_as_long_as_the_longest_of_its_variables(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.nc"
    with h5netcdf.File(path, "w") as f:
        f.dimensions = {"t": None}
        f.create_variable("long", ("t",), "i4")
        f.create_variable("text", ("t",), h5py.string_dtype())
        f.create_variable("letter", ("t",), "S1")
    with h5py.File(path, "r+") as f:
        f["long"].resize((3,))
        f["text"].resize((1,))
        f["text"][:] = ["one"]
        f["letter"].resize((2,))
        f["letter"][:] = [b"a", b"b"]

    bp.convert(path, tmp_path / "a.blp")

    with bp.open(tmp_path / "a.blp") as found:
        assert np.asarray(found["text"]).tolist() == ["one", "", ""]
        assert np.asarray(found["letter"]).tolist() == [b"a", b"b", b""]
