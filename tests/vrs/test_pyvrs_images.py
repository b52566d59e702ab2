"""Images converted as by pyvrs, compared with the wheel."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack.vrs.pyvrs
from bloscpack import vrs
from bloscpack.vrs.block.pixels import PIXEL_FORMATS
from tests import snippets
from tests.oracle import Oracle

from . import manifests, subject

READ = """
r = vrs.SyncVRSReader(path)
r.set_image_conversion(getattr(vrs.ImageConversion, conversion))
[(x.record_index, [(i.dtype.str, i.shape, i.tobytes()) for i in x.image_blocks],
  [(s.width, s.height, s.stride, s.pixel_format, s.image_format, s.buffer_size)
   for s in x.image_specs]) for x in r[:most]]
"""
CONVERSIONS = ["DECOMPRESS", "NORMALIZE", "NORMALIZE_GREY8"]
# Largest difference of a sample: the wheel converts YUV less precisely.
TOLERANCE = {"yuv_i420_split": 4, "yuv_420_nv12": 4, "yuv_420_nv21": 4, "yuy2": 2}
SIZES = [(2, 2), (4, 2), (6, 4), (18, 2), (32, 10), (15, 8), (16, 7), (1, 1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a recording of random images, gray and colour, with and without strides."""
    rng = np.random.default_rng(0)
    path = tmp_path / "a.vrs"
    with vrs.create(path, compression="none") as writer:
        for pixel in (*TOLERANCE, "raw10"):
            for width, height in SIZES:
                for stride in (0, 2 * width + 16):
                    image = vrs.Image("raw", width, height, pixel, stride=stride)
                    spec = vrs.ImageSpec(width, height, stride, 0, PIXEL_FORMATS[pixel])
                    stream = writer.stream("RGB Camera Class", tags={"pixel": pixel})
                    stream.define("data", image)
                    payload = rng.integers(0, 256, spec.raw_nbytes, "u1").tobytes()
                    stream.write_payload("data", float(stream.id.partition("-")[2]), payload)
    return path


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_every_size_and_stride(wheel: Oracle, path: Path, conversion: str) -> None:
    pixels = [pixel for pixel in (*TOLERANCE, "raw10") for _ in SIZES for _ in range(2)]
    theirs, ours = both(wheel, path, conversion)
    assert len(theirs) == len(ours) == len(pixels)
    for pixel, their_record, our_record in zip(pixels, theirs, ours, strict=True):
        assert our_record[2] == their_record[2]
        same_images(our_record[1], their_record[1], TOLERANCE.get(pixel, 0))


@pytest.mark.skipif(not manifests.listed(), reason=manifests.FOLDER.missing)
@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("vector", ["cpy_pixel_formats", "upstream/sample_raw_pixel_formats"])
def test_every_pixel_format(wheel: Oracle, vector: str, conversion: str) -> None:
    path = manifests.path(vector)
    theirs, ours = both(wheel, path, conversion, most=160)
    stored = bloscpack.vrs.pyvrs.SyncVRSReader(path)
    compared = set()
    for their_record, our_record in zip(theirs, ours, strict=True):
        specs = stored[our_record[0]].image_specs
        pixel = specs[0].pixel_format if specs else ""
        # Formats that the wheel does not know, or whose bits it changes.
        if len(specs) > len(their_record[1]) or (pixel == "grey10packed" and specs[0].width % 4):
            continue
        assert our_record[2] == their_record[2]
        same_images(our_record[1], their_record[1], TOLERANCE.get(pixel, 0))
        compared.add(pixel)
    assert len(compared) > 20


def both(wheel: Oracle, path: Path, conversion: str, most: int = 1000) -> tuple[Any, Any]:
    values = {"path": str(path), "conversion": conversion, "most": most}
    kind, ours = snippets.run(subject.names(bloscpack.vrs.pyvrs), READ, values)
    assert kind == "value", ours
    return wheel(READ, **values), ours


def same_images(ours: list[Any], theirs: list[Any], tolerance: int) -> None:
    assert [image[:2] for image in ours] == [image[:2] for image in theirs]
    for (dtype, _, our_bytes), (_, _, their_bytes) in zip(ours, theirs, strict=True):
        if our_bytes != their_bytes:
            difference = np.frombuffer(our_bytes, dtype).astype(np.float64)
            difference -= np.frombuffer(their_bytes, dtype)
            assert np.abs(difference).max() <= tolerance


def test_planes_of_colour(tmp_path: Path) -> None:
    """Black, white, and the six primaries at full strength; two by two pixels of each."""
    colours = {
        (16, 128, 128): (0, 0, 0),
        (235, 128, 128): (255, 255, 255),
        (81, 90, 240): (254, 0, 0),
        (145, 54, 34): (0, 255, 1),
        (41, 240, 110): (0, 0, 255),
        (210, 16, 146): (255, 255, 0),
        (170, 166, 16): (0, 255, 255),
        (106, 202, 222): (255, 0, 255),
    }
    width = 2 * len(colours)
    luma, blue, red = (np.array([colour[i] for colour in colours], np.uint8) for i in range(3))
    expected = np.repeat(np.array(list(colours.values())), 2, axis=0)
    brightness = np.tile(np.repeat(luma, 2), 2).tobytes()
    chroma = {
        "yuv_i420_split": blue.tobytes() + red.tobytes(),
        "yuv_420_nv12": np.stack([blue, red], -1).tobytes(),
        "yuv_420_nv21": np.stack([red, blue], -1).tobytes(),
    }
    for pixel, planes in chroma.items():
        path = tmp_path / f"{pixel}.vrs"
        with vrs.create(path) as writer:
            stream = writer.stream("RGB Camera Class")
            stream.define("data", vrs.Image("raw", width, 2, pixel))
            stream.write_payload("data", 0.0, brightness + planes)
        with vrs.open(path) as recording:
            found = recording[0].blocks[0].array(vrs.ImageConversion.NORMALIZE)
        assert found.shape == (2, width, 3)
        assert np.abs(found.astype(int) - expected).max() <= 1
