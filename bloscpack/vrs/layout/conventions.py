"""Conventional labels: layout values that describe an image or audio block.

A format string may leave out the size or format of a block. Values with conventional labels then
describe it, in a layout of the same record or of the stream's last configuration record.
`LayoutFields` locates these values in a layout once; its methods read them and apply the rules of
the reference (1.4.0, ``DataLayoutConventions`` and ``ContentBlockReader``). A value counts only if
its label and type are exactly the conventional ones. read/decoding.py decides which layouts are
searched, and in which order.

Contract: any values give a spec or None. Labels and rules: docs/formats/vrs.md.
"""

from dataclasses import replace
from struct import Struct
from typing import Any

from ...plugin import BytesLike
from ..block.audio import AudioFormat, AudioSpec, SampleFormat
from ..block.pixels import ImageFormat, ImageSpec, PixelFormat, is_quality_valid
from .datalayout import DataLayout
from .standard import AudioLayout, ImageLayout, NextBlockLayout, VideoFrameLayout

_U8, _U32, _F64 = "DataPieceValue<uint8_t>", "DataPieceValue<uint32_t>", "DataPieceValue<double>"
_STRUCTS = {_U8: Struct("<B"), _U32: Struct("<I"), _F64: Struct("<d")}
_CODEC_NAME = "image_codec_name", "DataPieceString"
NEXT_SIZE = "next_content_block_size", _U32
"""Label and type of the value that holds the size of the following block, in bytes."""
RAW_IMAGE_LABELS = frozenset(
    (
        "image_width",
        "image_height",
        "image_stride",
        "image_stride_2",
        "image_pixel_format",
        "image_bytes_per_pixel",
    )
)
"""Labels of the values that describe a raw image."""
# Label and type of every conventional value of fixed size. Old files have bytes per pixel, too.
_VALUES = {
    *(("image_bytes_per_pixel", _U8), ("image_bytes_per_pixel", _U32)),
    *(
        (piece.label, piece.type_name)
        for layout in (ImageLayout, VideoFrameLayout, AudioLayout, NextBlockLayout)
        for _, piece in layout.definition(with_optional=True).fixed
    ),
}
# Pixel format by bytes per pixel, for old files that store only the latter.
_LEGACY_PIXELS = {
    1: PixelFormat.GREY8,
    3: PixelFormat.RGB8,
    4: PixelFormat.DEPTH32F,
    8: PixelFormat.SCALAR64F,
}
# Most padding of an audio frame, in bytes per channel.
_MAX_FRAME_SLACK = 3


class LayoutFields:
    """Positions of the conventional values in the blocks of a layout.

    The methods take a payload and the position in it, in bytes, of a complete block.
    """

    __slots__ = ("_layout", "_places", "has_image", "has_next_size")

    def __init__(self, layout: DataLayout) -> None:
        self._layout = layout
        self._places: dict[tuple[str, str], int] = {}
        at = 0
        for piece in layout.pieces:
            if piece.is_variable:
                continue
            if piece.element is None:
                break
            key = piece.label, piece.type_name
            if key in _VALUES:
                self._places.setdefault(key, at)
            at += piece.nbytes
        self.has_next_size = NEXT_SIZE in self._places
        self.has_image = ("image_width", _U32) in self._places or any(
            (piece.label, piece.type_name) == _CODEC_NAME for piece in layout.pieces
        )

    def _get(self, view: BytesLike, at: int, label: str, type_name: str = _U32) -> Any:
        """Return a value, or 0 if the layout does not have it."""
        place = self._places.get((label, type_name))
        return 0 if place is None else _STRUCTS[type_name].unpack_from(view, at + place)[0]

    def next_size(self, view: BytesLike, at: int) -> int | None:
        """Return the size of the next block in bytes; None if the layout does not give it."""
        return self._get(view, at, *NEXT_SIZE) if self.has_next_size else None

    def audio_sample_count(self, view: BytesLike, at: int) -> int:
        """Return the number of audio samples of the next block; 0 if not in the layout."""
        count: int = self._get(view, at, "audio_sample_count")
        return count

    def key_frame(self, view: BytesLike, at: int) -> tuple[float, int] | None:
        """Return the time of a video frame's key frame, and the number of frames since then."""
        if ("image_key_frame_timestamp", _F64) not in self._places:
            return None
        if ("image_key_frame_index", _U32) not in self._places:
            return None
        timestamp = self._get(view, at, "image_key_frame_timestamp", _F64)
        return timestamp, self._get(view, at, "image_key_frame_index")

    def image_spec(self, view: BytesLike, at: int, base: ImageSpec) -> ImageSpec | None:
        """Return the spec of a raw, video or custom codec image; None if it is incomplete.

        A complete block of this layout is at position `at` of the payload `view`. Size and pixel
        format of `base`, the spec of the format string, are not used.
        """
        if not self.has_image:
            return None
        spec = self._dimensions(view, at)
        if base.image_format == ImageFormat.RAW:
            return spec
        codec_name, quality = self._codec_name(view, at), self._get(view, at, "image_codec_quality")
        if ("image_codec_quality", _U32) not in self._places or not is_quality_valid(quality):
            quality = base.codec_quality
        if spec is None:
            # The name of a custom codec is enough, if it comes from a layout.
            if base.image_format == ImageFormat.VIDEO or not codec_name:
                return None
            spec = ImageSpec()
        codec_name = codec_name or base.codec_name
        if not codec_name:
            return None
        return replace(
            spec,
            image_format=base.image_format,
            codec_name=codec_name,
            codec_quality=quality,
            buffer_size=0,
            key_frame_timestamp=base.key_frame_timestamp,
            key_frame_index=base.key_frame_index,
        )

    def _dimensions(self, view: BytesLike, at: int) -> ImageSpec | None:
        width, height = self._get(view, at, "image_width"), self._get(view, at, "image_height")
        pixel = self._pixel_format(view, at)
        if not (width and height and pixel):
            return None
        strides = self._get(view, at, "image_stride"), self._get(view, at, "image_stride_2")
        spec = ImageSpec(width, height, *strides, pixel, ImageFormat.RAW)
        return replace(spec, buffer_size=spec.raw_nbytes or 0)

    def _pixel_format(self, view: BytesLike, at: int) -> PixelFormat:
        pixel = self._get(view, at, "image_pixel_format")
        if 0 < pixel < len(PixelFormat):
            return PixelFormat(pixel)
        nbytes = self._get(view, at, "image_bytes_per_pixel") or self._get(
            view, at, "image_bytes_per_pixel", _U8
        )
        return _LEGACY_PIXELS.get(nbytes, PixelFormat.UNDEFINED)

    def _codec_name(self, view: BytesLike, at: int) -> str:
        for label, type_name, value in self._layout.iter_values(view, at):
            if (label, type_name) == _CODEC_NAME and isinstance(value, str):
                return value
        return ""

    def audio_spec(self, view: BytesLike, at: int) -> AudioSpec | None:
        """Return the spec of an audio block; None if it is incomplete or impossible."""
        audio_format = AudioFormat.PCM
        if ("audio_format", _U8) in self._places:
            audio_format = _valid(AudioFormat, self._get(view, at, "audio_format", _U8))
        sample_format = _valid(SampleFormat, self._get(view, at, "audio_sample_format", _U8))
        spec = AudioSpec(
            audio_format,
            sample_format,
            self._get(view, at, "audio_channel_count", _U8),
            self._get(view, at, "audio_sample_rate"),
            self._get(view, at, "audio_sample_count"),
            self._get(view, at, "audio_sample_stride", _U8),
            self._get(view, at, "audio_stereo_pair_count", _U8),
        )
        if not (audio_format and sample_format and spec.channel_count and spec.sample_rate):
            return None
        slack = spec.frame_nbytes - spec.min_frame_nbytes
        return spec if 0 <= slack <= _MAX_FRAME_SLACK * spec.channel_count else None


BlockFields = tuple[LayoutFields, BytesLike, int]
"""Fields of a metadata block, the payload that holds it, and the block's position in bytes."""


def fit_pcm(spec: AudioSpec, nbytes: int | None) -> tuple[AudioSpec | None, int | None]:
    """Fill in the sample count or size of PCM from the other; (None, None) if they conflict."""
    if not spec.sample_count:
        stride = spec.frame_nbytes
        if nbytes is None or not stride or nbytes % stride:
            return None, None
        return replace(spec, sample_count=nbytes // stride), nbytes
    agree = spec.pcm_nbytes is not None and nbytes in (None, spec.pcm_nbytes)
    return (spec, spec.pcm_nbytes) if agree else (None, None)


def _valid(numbers: Any, value: int) -> Any:
    """Return `value` as a member of the enum `numbers`, or the member 0 if it is out of range."""
    return numbers(value) if value < len(numbers) else numbers(0)
