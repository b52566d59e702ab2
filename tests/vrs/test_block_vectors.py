"""Blocks of the vectors as arrays and values; `check_block` compares one with its manifest."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bloscpack import vrs
from bloscpack.exceptions import UnsupportedError
from bloscpack.vrs.block.audio import AudioSpec
from bloscpack.vrs.block.pixels import ImageConversion, ImageFormat, ImageSpec
from bloscpack.vrs.read.record import Block, CustomSpec, Record

from .test_layout_vectors import as_manifest, long_value, typed
from .vectorfiles import FOLDER, NAMES, VectorFile

each_file = pytest.mark.parametrize("name", NAMES)
pytestmark = pytest.mark.skipif(not NAMES, reason=FOLDER.missing)
CONVERTED = pytest.mark.parametrize("name", ["enc_image_codecs", "enc_pixel_formats"])


def spec_as_manifest(block: Block) -> dict[str, Any]:
    """Return a spec in the form of the manifests, which leave out empty and zero values."""
    spec = block.spec
    if isinstance(spec, CustomSpec):
        found: dict[str, Any] = {"format": spec.custom_format}
    elif isinstance(spec, AudioSpec):
        found = {
            "audio_format": str(spec.audio_format),
            "sample": str(spec.sample_format) if spec.sample_format else "",
            "channels": spec.channel_count,
            "rate": spec.sample_rate,
            "samples": spec.sample_count,
            "stride": spec.sample_frame_stride,
        }
    else:
        assert isinstance(spec, ImageSpec)
        found = {
            "image_format": str(spec.image_format) if spec.image_format else "",
            "width": spec.width,
            "height": spec.height,
            "pixel_format": str(spec.pixel_format) if spec.pixel_format else "",
            "stride": spec.stride,
            "stride_2": spec.stride_2,
            "codec": spec.codec_name,
            "quality": spec.codec_quality,
            "keyframe_timestamp": spec.key_frame_timestamp,
            "keyframe_index": spec.key_frame_index,
        }
    return {key: value for key, value in found.items() if value}


def check_block(block: Block, expected: dict[str, Any]) -> None:
    assert (block.kind, block.nbytes) == (expected["kind"], expected["size"])
    if block.kind == "metadata":
        check_values(block, expected["values"])
        return
    spec = dict(expected["spec"])
    if spec.get("pixel_format") == "nope":
        # The reader that wrote the manifests keeps the text of an invalid name.
        del spec["pixel_format"]
    assert spec_as_manifest(block) == spec
    if block.kind != "unsupported":
        assert hashlib.sha256(block.data).hexdigest() == expected["sha256"]
        assert not isinstance(block.spec, AudioSpec | ImageSpec) or (
            block.spec.buffer_size == block.nbytes
        )


def check_values(block: Block, expected: list[list[Any]]) -> None:
    values = block.values()
    layout: Any = block.spec
    for key, piece, one in zip(layout.keys, layout.pieces, expected, strict=True):
        found = [piece.label, piece.type_name, as_manifest(values[key])]
        assert typed(found) == typed(one) or found == long_value(found, one)


def listed(name: str) -> Iterator[tuple[dict[str, Any], Record]]:
    """Yield the records that a manifest lists, each with its entry in the manifest."""
    with vrs.open(FOLDER / f"{name}.vrs") as recording:
        for entry in VectorFile(name).manifest["records"]:
            yield entry, recording[entry["i"]]


@each_file
def test_metadata_alone(name: str) -> None:
    for entry, record in listed(name):
        kinds = [block["kind"] for block in entry["blocks"]]
        assert len(record.metadata_blocks) == kinds.count("metadata")
        metadata = [block.values() for block in record.blocks if block.kind == "metadata"]
        assert repr(record.metadata_blocks) == repr(tuple(metadata))


@each_file
def test_arrays_have_the_sizes_of_their_specs(name: str) -> None:
    for _, record in listed(name):
        images, specs = record.image_blocks, record.image_specs
        assert len(images) == len(specs)
        for image, spec in zip(images, specs, strict=True):
            if spec.image_format == ImageFormat.RAW:
                assert image.shape[:1] == (spec.height,)
            else:
                assert image.shape == (spec.buffer_size,)
        assert len(record.custom_blocks) == len(record.custom_block_specs)
        for block in record.blocks:
            if isinstance(block.spec, AudioSpec) and str(block.spec.audio_format) == "pcm":
                shape = block.spec.sample_count, block.spec.channel_count
                assert block.array().shape == shape


@CONVERTED
@pytest.mark.parametrize("conversion", ["DECOMPRESS", "NORMALIZE", "NORMALIZE_GREY8"])
def test_conversions(name: str, conversion: str) -> None:
    conversions = VectorFile(name).manifest["conversions"][conversion]
    compared = 0
    for (_, record), expected in zip(listed(name), conversions, strict=True):
        images = [block for block in record.blocks if block.kind == "image"]
        # The reference lost an image (one of two at the start), or does not know the pixel format.
        for block, (text, shape, dtype, digest) in zip(images, expected, strict=False):
            if shape == [0]:
                # The reference returns an empty array if it cannot decode; ours raises.
                continue
            pixels, spec = block.converted(ImageConversion[conversion])
            assert (list(pixels.shape), str(pixels.dtype)) == (shape, dtype)
            assert isinstance(spec, ImageSpec)
            assert spec_text(spec) == text
            if text.endswith("grey16") and str(block.spec.pixel_format) == "grey10packed":
                # The reference does not shift the last pixels of a row if the width is 4n + 1.
                pixels[:, 12:] >>= 6
            if not is_jpeg(block):
                assert hashlib.sha256(pixels.tobytes()).hexdigest() == digest
            compared += 1
    assert compared == {"enc_image_codecs": 9, "enc_pixel_formats": 48}[name]


def spec_text(spec: ImageSpec) -> str:
    from bloscpack.vrs.format.recordformat import ContentBlock, ContentType

    return str(ContentBlock(ContentType.IMAGE, image=spec)).removeprefix("image/")


def is_jpeg(block: Block) -> bool:
    return bytes(block.data[:2]) == b"\xff\xd8"


def test_jpeg_pixels() -> None:
    """The images are gradients: a decoder that mixed up rows or channels would be far off."""
    compared = 0
    for _, record in listed("enc_image_codecs"):
        for block in record.blocks:
            if block.kind == "image" and is_jpeg(block):
                pixels = block.array()
                assert pixels.dtype == np.uint8
                assert pixels.min() < pixels.max()
                compared += 1
    assert compared == 5


def find(name: str, stream_id: str, version: int) -> Record:
    """Return the first data record of a stream and version, with its payload and its blocks."""
    with vrs.open(FOLDER / f"{name}.vrs") as recording:
        for record in recording:
            found = record.stream_id, record.record_type, record.format_version
            if found == (stream_id, "data", version):
                assert record.blocks
                return record
    raise LookupError(version)


def test_two_images_at_the_start() -> None:
    record = find("enc_multi_blocks", "214-1", 2)
    assert [image.shape for image in record.image_blocks] == [(2, 2), (1, 2, 3)]
    assert [len(block) for block in record.custom_blocks] == [2, 4]


def test_coded_images_without_a_decoder_say_so() -> None:
    custom = find("enc_image_codecs", "214-3", 2).blocks[1]
    with pytest.raises(UnsupportedError, match="'x y/z'"):
        custom.array()
    unsupported = find("enc_image_codecs", "214-3", 1).blocks[0]
    with pytest.raises(UnsupportedError, match="block 0: its size is unknown"):
        unsupported.array()


def test_opus_is_unsupported() -> None:
    record = find("enc_audio", "232-1", 1)
    assert record.audio_specs[0].sample_count == 960
    with pytest.raises(UnsupportedError, match="opus"):
        _ = record.audio_blocks
