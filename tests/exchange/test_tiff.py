"""Arrays copied to and from TIFF files, which tifffile writes and reads."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, BloscpackWarning, FormatError, UnsupportedError
from bloscpack.exchange import arraytree
from bloscpack.filetypes import arraysource

from ..strategies import SCALARS, fill
from .conversions import (
    LABELS,
    assert_differences_are_found,
    assert_interrupted_run_leaves_nothing,
    assert_same,
)

tifffile = pytest.importorskip("tifffile")


@pytest.mark.parametrize("dtype", SCALARS)
def test_any_items(dtype: str, tmp_path: Path) -> None:
    array = fill(np.dtype(dtype), (5, 21, 13), 1)
    bp.save(tmp_path / "a.blp", array, attrs={"unit": "K", "nested": {"a": [None]}})
    try:
        assert bp.convert(tmp_path / "a.blp", tmp_path / "a.tif").kind == "tiff"
    except UnsupportedError:
        assert array.dtype.kind not in "iufc" or dtype in ("<f16", "<c32")
        return
    native = array.astype(array.dtype.newbyteorder("="))
    assert_same(tifffile.imread(tmp_path / "a.tif"), native)
    bp.convert(tmp_path / "a.tif", tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as a:
        assert_same(a[...], native)
        assert a.attrs == {"unit": "K", "nested": {"a": [None]}}


@pytest.mark.parametrize("nbytes", [100, 1 << 20])
@pytest.mark.parametrize("chunks", [None, (2, 3, 8, 9)])
@pytest.mark.parametrize(
    "shape", [(8, 9), (8, 9, 3), (6, 8, 9), (6, 8, 9, 3), (4, 5, 8, 9), (1, 4, 1, 9)]
)
def test_shapes(shape: Any, chunks: Any, nbytes: int, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arraysource, "PART_NBYTES", nbytes)
    monkeypatch.setattr("bloscpack.exchange.tiff.PART_NBYTES", nbytes)
    array = fill(np.dtype("u1"), shape, 1)
    bp.save(tmp_path / "a.blp", array, chunks=chunks and chunks[: len(shape)])
    bp.convert(tmp_path / "a.blp", tmp_path / "a.tiff")
    assert_same(tifffile.imread(tmp_path / "a.tiff"), array)
    bp.convert(tmp_path / "a.tiff", tmp_path / "b.blp")
    assert_same(bp.load(tmp_path / "b.blp"), array)


def test_labels(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.ones((2, 3, 4), "f4"), attrs=LABELS)
    bp.convert(tmp_path / "a.blp", tmp_path / "a.tif")
    bp.convert(tmp_path / "a.tif", tmp_path / "b.blp")
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataarray(tmp_path / "b.blp") as two:
        assert two.identical(xarray.open_dataarray(tmp_path / "a.blp"))


def test_ome(tmp_path: Path) -> None:
    array = fill(np.dtype("u2"), (4, 2, 30, 40), 1)
    bp.save(tmp_path / "a.blp", array, attrs={"dims": list("TCYX")})
    bp.convert(tmp_path / "a.blp", tmp_path / "a.ome.tif")
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert (file.is_ome, file.series[0].axes) == (True, "TCYX")
    bp.convert(tmp_path / "a.ome.tif", tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as a:
        assert_same(a[...], array)
        assert a.attrs["dims"] == list("TCYX")
    bp.save(tmp_path / "c.blp", array[:1])
    with pytest.raises(UnsupportedError, match="no axes of length 1"):
        bp.convert(tmp_path / "c.blp", tmp_path / "c.ome.tif")


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((8, 20), "YX"), ((5, 8, 20), "TYX"), ((8, 9, 3), "YXS"), ((2, 5, 8, 20), "TCYX")],
)
def test_ome_without_names_of_axes(shape: Any, axes: str, tmp_path: Path) -> None:
    array = fill(np.dtype("u1"), shape, 1)
    bp.save(tmp_path / "a.blp", array)
    bp.convert(tmp_path / "a.blp", tmp_path / "a.ome.tif")
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert file.series[0].axes == axes
        assert_same(file.asarray(), array)


def test_ome_with_other_names_of_axes(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.ones((3, 4), "u1"), attrs={"dims": ["depth", "time"]})
    with pytest.warns(BloscpackWarning, match="left out: names of the axes"):
        bp.convert(tmp_path / "a.blp", tmp_path / "a.ome.tif")
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert file.series[0].axes == "YX"


@pytest.mark.parametrize("dims", [3, [1, 2], ["Y"]])
def test_an_attribute_with_the_name_of_dims(dims: Any, tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.ones((3, 4), "u1"))
    with bp.open(tmp_path / "a.blp", "a") as array:
        array.attrs["dims"] = dims
    bp.convert(tmp_path / "a.blp", tmp_path / "a.tif")
    bp.convert(tmp_path / "a.tif", tmp_path / "b.blp")
    with bp.open(tmp_path / "b.blp") as a:
        assert a.attrs == {"dims": dims}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zlib", "tile": (16, 16)},
        {"bigtiff": True, "byteorder": ">", "metadata": None},
        {"imagej": True, "metadata": {"axes": "ZYX", "unit": "um"}},
        {"compression": "lzw", "contiguous": False},
    ],
)
def test_files_of_tifffile(options: Any, tmp_path: Path) -> None:
    array = fill(np.dtype("u2"), (6, 40, 50), 1)
    tifffile.imwrite(tmp_path / "a.tif", array, photometric="minisblack", **options)
    bp.convert((tmp_path / "a.tif").read_bytes(), tmp_path / "a.blp")
    with bp.open(tmp_path / "a.blp") as a:
        assert_same(a[...], array)
        if "imagej" in options:
            assert (a.attrs["dims"], a.attrs["unit"]) == (["Z", "Y", "X"], "um")


def test_pages_in_other_files_are_not_invented(tmp_path: Path) -> None:
    array = fill(np.dtype("u2"), (4, 30, 40), 1)
    tifffile.imwrite(tmp_path / "a.ome.tif", array, metadata={"axes": "ZYX"}, compression="zlib")
    content = (tmp_path / "a.ome.tif").read_bytes()
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        first = file.ome_metadata or ""
    other = first.replace('SizeZ="4"', 'SizeZ="5"')
    assert len(other) == len(first) != 0
    (tmp_path / "a.ome.tif").write_bytes(content.replace(first.encode(), other.encode()))
    with pytest.raises(FormatError):
        bp.convert(tmp_path / "a.ome.tif", tmp_path / "a.blp")


def test_several_series(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(np.zeros((3, 8, 9), "u1"), photometric="minisblack")
        file.write(np.arange(20, dtype="u2").reshape(4, 5), photometric="minisblack")
    with pytest.raises(ValueError, match="2 arrays; name one"):
        bp.convert(tmp_path / "a.tif", tmp_path / "a.blp")
    bp.convert(f"{tmp_path}/a.tif::/1", tmp_path / "a.blp")
    assert_same(bp.load(tmp_path / "a.blp"), np.arange(20, dtype="u2").reshape(4, 5))


def test_no_trace_of_a_copy_that_fails(tmp_path: Path, monkeypatch: Any) -> None:
    bp.save(tmp_path / "a.blp", np.arange(1000).astype("i4").reshape(10, 10, 10))
    assert_interrupted_run_leaves_nothing(tmp_path / "a.blp", "b.tif", monkeypatch)
    assert_differences_are_found(tmp_path / "a.blp", "b.tif", monkeypatch)


def test_damaged(tmp_path: Path) -> None:
    for compression in (None, "zlib"):
        tifffile.imwrite(tmp_path / "a", np.zeros((9, 40, 50), "u2"), compression=compression)
        content = (tmp_path / "a").read_bytes()
        # Without compression, the last bytes are not needed.
        for nbytes in (4, 8, 100, len(content) // 2, len(content) - (1 if compression else 2000)):
            (tmp_path / "a.tif").write_bytes(content[:nbytes])
            with pytest.raises((BloscpackError, ValueError)):
                bp.convert(tmp_path / "a.tif", tmp_path / "b.blp")
        rng = np.random.default_rng(1)
        for _ in range(40):
            damaged = bytearray(content)
            for at in rng.integers(4, 400, 8):
                damaged[at] ^= 1 << int(rng.integers(8))
            (tmp_path / "a.tif").write_bytes(damaged)
            with suppress(BloscpackError, ValueError):
                bp.convert(tmp_path / "a.tif", tmp_path / "c.blp", overwrite=True, verify=False)
    assert not (tmp_path / "b.blp").exists()


def test_a_small_file_that_claims_huge_pages(tmp_path: Path, monkeypatch: Any) -> None:
    pages = np.zeros((3, 400, 500), "u1")
    tifffile.imwrite(tmp_path / "a.tif", pages, compression="zlib", photometric="minisblack")
    monkeypatch.setattr(arraytree, "_MAX_UNWRITTEN_NBYTES", 1000)
    bp.convert(tmp_path / "a.tif", tmp_path / "a.blp")
    monkeypatch.setattr(arraytree, "_MOST_PER_STORED_BYTE", 10)
    with pytest.raises(UnsupportedError, match="it has 600000 bytes, of which hardly any"):
        bp.convert(tmp_path / "a.tif", tmp_path / "b.blp")
