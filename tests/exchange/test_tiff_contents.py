"""TIFF files with one of each thing that tifffile writes beside the pixels."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FormatError, UnsupportedError

from .conversions import assert_same

tifffile = pytest.importorskip("tifffile")

pytestmark = pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")

STACK = np.random.default_rng(1).integers(0, 4000, (3, 16, 18), "u2")


def converted(path: Path, **options: Any) -> tuple[bp.Conversion, Any, dict[str, Any]]:
    done = bp.convert(path, path.with_suffix(".blp"), overwrite=True, **options)
    with bp.open(path.with_suffix(".blp")) as array:
        return done, array[...], array.attrs


def test_one_of_each_tag(tmp_path: Path) -> None:
    """Geographic tags, a colour profile, another description and more; then back."""
    tifffile.imwrite(
        tmp_path / "a.tif",
        STACK,
        photometric="minisblack",
        description="of the user",
        software="a program",
        datetime=True,
        resolution=(300, 300),
        resolutionunit="INCH",
        iccprofile=b"profile",
        subfiletype=1,
        metadata={"axes": "TYX", "größe": [1, None], "nan": float("nan")},
        extratags=[
            (274, "H", 1, 8, True),  # Orientation
            (42113, "s", 0, "-9999", True),  # GDAL_NODATA
            (33550, "d", 3, (1.0, 1.0, 0.0), True),  # ModelPixelScale
            (34735, "H", 4, (1, 1, 0, 0), True),  # GeoKeyDirectory
            (65000, "s", 0, "private", True),
        ],
    )
    done, found, attrs = converted(tmp_path / "a.tif")
    assert_same(found, STACK)
    assert attrs["größe"] == [1, None]
    assert attrs["dims"] == ["T", "Y", "X"]
    assert np.isnan(attrs["nan"])
    assert "tag 'GDAL_NODATA': '-9999'" in done.left_out
    assert sorted(each.partition(":")[0] for each in done.left_out) == sorted(
        f"tag {name!r}"
        for name in (
            *("DateTime", "GDAL_NODATA", "GeoKeyDirectoryTag", "ImageDescription"),
            *("InterColorProfile", "ModelPixelScaleTag", "NewSubfileType", "Orientation"),
            *("ResolutionUnit", "Software", "XResolution", "YResolution", "65000"),
        )
    )
    with pytest.raises(UnsupportedError, match=r"strict: .*tag 'Orientation'"):
        bp.convert(tmp_path / "a.tif", tmp_path / "b.blp", strict=True)
    assert not (tmp_path / "b.blp").exists()
    bp.convert(tmp_path / "a.blp", tmp_path / "b.tif", strict=True)
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        assert_same(file.asarray(), STACK)
        assert file.series[0].axes == "TYX"
        assert file.shaped_metadata[0]["größe"] == [1, None]
    assert converted(tmp_path / "b.tif", strict=True)[0].left_out == ()


@pytest.mark.parametrize("shape", [(3, 16, 18), (16, 18), (2, 3, 16, 18), (16, 18, 3)])
def test_the_old_description_of_a_shape(shape: Any, tmp_path: Path) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype("u1")
    tifffile.imwrite(
        tmp_path / "a.tif",
        array,
        metadata=None,
        description=f"shape={shape}",
        photometric="rgb" if shape[-1] == 3 else "minisblack",
    )
    done, found, attrs = converted(tmp_path / "a.tif", strict=True)
    assert_same(found, array)
    assert (done.left_out, attrs) == ((), {})


@pytest.mark.parametrize("axes", ["ABCDE", "XX", "QX"])
def test_names_of_axes_that_cannot_be_labels(axes: str, tmp_path: Path) -> None:
    description = json.dumps({"shape": [3, 4], "axes": axes, "unit": "K"})
    array = np.arange(12, dtype="u1").reshape(3, 4)
    tifffile.imwrite(tmp_path / "a.tif", array, metadata=None, description=description)
    done, found, attrs = converted(tmp_path / "a.tif")
    assert_same(found, array)
    assert (done.left_out, attrs) == (("names of the axes",), {"unit": "K"})


@pytest.mark.filterwarnings("ignore:.*writing zero-size array")
def test_no_items(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((0, 4), "u2"))
    done, found, _ = converted(tmp_path / "a.tif", strict=True)
    assert_same(found, np.zeros((0, 4), "u2"))
    assert done.left_out == ()


def test_pages_in_a_circle(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for page in STACK:
            file.write(page, contiguous=False, metadata=None)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        first, last = file.pages[0].offset, file.pages[-1]
        end = last.offset + 2 + 12 * len(last.tags)
    content = bytearray((tmp_path / "a.tif").read_bytes())
    content[end : end + 4] = first.to_bytes(4, "little")
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(FormatError, match="circular"):
        converted(tmp_path / "a.tif")


def test_a_tag_of_a_later_page(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for number, page in enumerate(STACK):
            extra = [(274, "H", 1, 3, True)] * (number == 2)
            file.write(page, contiguous=False, metadata=None, extratags=extra)
    done, found, _ = converted(tmp_path / "a.tif")
    assert_same(found, STACK)
    assert done.left_out == ("tag 'Orientation'",)


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("invalid value offset", (65000, 2, 21, 1 << 20)),
        ("invalid value offset", (65000, 2, 1 << 31, 8)),
        ("invalid data type", (65000, 99, 21, 8)),
    ],
)
def test_a_tag_that_cannot_be_read(what: str, change: Any, tmp_path: Path) -> None:
    """tifffile logs it, and reads the page without the tag."""
    path = tmp_path / "a.tif"
    tags = [(65000, "s", 0, "more than four bytes", True)]
    tifffile.imwrite(path, np.zeros((8, 9), "u1"), extratags=tags, metadata=None)
    data = bytearray(path.read_bytes())
    struct.pack_into("<HHII", data, data.index(struct.pack("<HH", 65000, 2)), *change)
    path.write_bytes(data)
    with pytest.raises(FormatError, match=f"a TIFF file: .*{what}"):
        bp.convert(path, tmp_path / "a.blp")
    assert not (tmp_path / "a.blp").exists()


@pytest.mark.parametrize("planar", ["separate", "contig"])
def test_several_samples_of_gray(planar: str, tmp_path: Path) -> None:
    pixels = np.arange(3 * 8 * 9, dtype="u1").reshape(
        (3, 8, 9) if planar == "separate" else (8, 9, 3)
    )
    options = {"photometric": "minisblack", "planarconfig": planar}
    tifffile.imwrite(tmp_path / "a.tif", pixels, **options)
    done, found, _ = converted(tmp_path / "a.tif", strict=True)
    assert done.left_out == ()
    assert_same(found, pixels)
    tifffile.imwrite(tmp_path / "b.tif", pixels, **options, extrasamples=["unassalpha"] * 2)
    assert converted(tmp_path / "b.tif")[0].left_out == ("tag 'ExtraSamples'",)


def test_colours(tmp_path: Path) -> None:
    indices = np.arange(12, dtype="u1").reshape(3, 4)
    tifffile.imwrite(
        tmp_path / "a.tif", indices, photometric="palette", colormap=np.ones((3, 256), "u2")
    )
    done, found, _ = converted(tmp_path / "a.tif")
    assert_same(found, indices)
    assert done.left_out == ("tag 'PhotometricInterpretation'", "tag 'ColorMap'")

    planar = np.arange(36, dtype="u1").reshape(3, 3, 4)
    tifffile.imwrite(tmp_path / "b.tif", planar, photometric="rgb", planarconfig="separate")
    done, found, _ = converted(tmp_path / "b.tif")
    assert_same(found, planar)
    assert done.left_out == ("tag 'PlanarConfiguration'",)

    rgba = np.arange(48, dtype="u1").reshape(3, 4, 4)
    for alpha, left in (("unassalpha", ()), ("assocalpha", ("tag 'ExtraSamples'",))):
        tifffile.imwrite(tmp_path / "c.tif", rgba, photometric="rgb", extrasamples=[alpha])
        done, found, _ = converted(tmp_path / "c.tif")
        assert_same(found, rgba)
        assert done.left_out == left

    tifffile.imwrite(tmp_path / "d.tif", indices, photometric="miniswhite")
    assert converted(tmp_path / "d.tif")[0].left_out == ("tag 'PhotometricInterpretation'",)
    tifffile.imwrite(tmp_path / "e.tif", indices > 4, photometric="minisblack")
    assert_same(converted(tmp_path / "e.tif")[1], indices > 4)


def test_converted_colours_are_not_lossless(tmp_path: Path) -> None:
    pytest.importorskip("imagecodecs")
    pixels = np.random.default_rng(1).integers(0, 255, (16, 32, 3), "u1")
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="ycbcr", compression="jpeg")
    done = bp.convert(tmp_path / "a.tif", tmp_path / "a.blp")
    assert not done.lossless


def test_pages_below_pages(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
        file.write(STACK, subifds=1, metadata={"axes": "ZYX"}, photometric="minisblack")
        file.write(STACK[:, ::2, ::2], subfiletype=1, photometric="minisblack")
    done, found, attrs = converted(tmp_path / "a.ome.tif")
    assert_same(found, STACK)
    assert attrs["dims"] == ["Z", "Y", "X"]
    assert "tag 'SubIFDs'" in done.left_out


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zlib"},
        {"bigtiff": True, "compression": "zlib", "tile": (16, 16)},
        {"imagej": True},
        {"ome": True, "metadata": {"axes": "TYX"}},
        {"extratags": [(65000, "s", 0, "a longer text of a tag", True)]},
    ],
)
def test_bytes_behind_everything_else(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, STACK, photometric="minisblack", **options)
    before = converted(path)[0].left_out
    assert not any("behind" in each for each in before)
    with path.open("ab") as file:
        file.write(b"more")
    assert converted(path)[0].left_out == (*before, "4 bytes behind the end of the file")


def test_ome_metadata(tmp_path: Path) -> None:
    metadata = {
        "axes": "CYX",
        "Name": "cells",
        "PhysicalSizeX": 0.5,
        "PhysicalSizeXUnit": "mm",
        "Channel": {"Name": ["red", "green", "blue"]},
        "Plane": {"PositionX": [0.0, 1.0, 2.0]},
    }
    tifffile.imwrite(tmp_path / "a.ome.tif", STACK, photometric="minisblack", metadata=metadata)
    done, found, attrs = converted(tmp_path / "a.ome.tif")
    assert_same(found, STACK)
    assert attrs["dims"] == ["C", "Y", "X"]
    image = "OME.Image"
    assert {
        f"OME metadata '{image}.Name'",
        f"OME metadata '{image}.Pixels.PhysicalSizeX'",
        f"OME metadata '{image}.Pixels.Channel[1].Name'",
        f"OME metadata '{image}.Pixels.Plane[2].PositionX'",
    } <= set(done.left_out)
    bp.convert(tmp_path / "a.ome.blp", tmp_path / "b.ome.tif")
    assert converted(tmp_path / "b.ome.tif", strict=True)[0].left_out == ()
    assert_same(tifffile.imread(tmp_path / "b.ome.tif"), STACK)


def test_imagej_metadata(tmp_path: Path) -> None:
    tifffile.imwrite(
        tmp_path / "a.tif",
        STACK,
        imagej=True,
        metadata={"axes": "ZYX", "spacing": 2.5, "unit": "um", "Labels": ["a", "b", "c"]},
    )
    done, found, attrs = converted(tmp_path / "a.tif")
    assert_same(found, STACK)
    assert (attrs["spacing"], attrs["unit"], attrs["Labels"]) == (2.5, "um", ["a", "b", "c"])
    assert done.left_out == ()


def test_a_reader_that_forgets_tags_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tags that are not known as structure are listed, so that a forgotten one is visible."""
    from bloscpack.exchange import tiff

    tifffile.imwrite(tmp_path / "a.tif", STACK, photometric="minisblack")
    assert converted(tmp_path / "a.tif")[0].left_out == ()
    monkeypatch.setattr(tiff, "_STRUCTURE", tiff._STRUCTURE - {"Compression"})
    assert converted(tmp_path / "a.tif")[0].left_out == ("tag 'Compression'",)
