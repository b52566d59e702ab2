"""Properties of the blocks of a record, with the names and values of pyvrs."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from ..block.audio import AudioSpec as StoredAudioSpec
from ..block.audio import SampleFormat
from ..block.pixels import IMAGE_FORMATS, PIXEL_FORMATS, ImageFormat, PixelFormat
from ..block.pixels import ImageSpec as StoredImageSpec


class _Spec:
    """Base of specs, whose fields are also accessible as items."""

    __slots__ = ()

    def _names(self) -> list[str]:
        return sorted(field.name for field in fields(self))  # type: ignore[arg-type]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(f"key {name!r} does not exist.")
        return getattr(self, name)

    def __len__(self) -> int:
        return len(self._names())

    def items(self) -> Iterator[tuple[str, Any]]:
        """Iterate over the names and values of all fields."""
        return ((name, self[name]) for name in self._names())


@dataclass(frozen=True, slots=True)
class ImageSpec(_Spec):
    """Properties of an image, after the conversion it was read with.

    Attributes
    ----------
    width, height : int
        In pixels; 0 if unknown.
    stride : int
        Bytes from one row to the next; 0 for images that are not raw.
    pixel_format, image_format : str
        Such as ``"grey8"`` and ``"raw"``.
    bytes_per_pixel : int
        0 for images that are not raw, and for pixels that are not whole bytes.
    buffer_size : int
        Bytes of the block.
    codec_name : str
        Name of a video or custom codec.
    codec_quality : int
        0 to 100, or 255 if unknown.
    key_frame_timestamp : float
        Video: time of the last key frame in seconds.
    key_frame_index : int
        Video: number of frames since the last key frame.
    """

    width: int
    height: int
    stride: int
    pixel_format: str
    image_format: str
    bytes_per_pixel: int
    buffer_size: int
    codec_name: str
    codec_quality: int
    key_frame_timestamp: float
    key_frame_index: int

    @classmethod
    def of(cls, spec: StoredImageSpec) -> "ImageSpec":
        """Convert a spec of `bloscpack.vrs`."""
        is_raw = spec.image_format == ImageFormat.RAW
        return cls(
            width=spec.width,
            height=spec.height,
            stride=spec.row_nbytes if is_raw else 0,
            pixel_format=str(spec.pixel_format),
            image_format=str(spec.image_format),
            bytes_per_pixel=spec.bytes_per_pixel if is_raw else 0,
            buffer_size=spec.buffer_size,
            codec_name=spec.codec_name,
            codec_quality=spec.codec_quality,
            key_frame_timestamp=spec.key_frame_timestamp or 0,
            key_frame_index=spec.key_frame_index,
        )

    def get_width(self) -> int:
        """Return the width in pixels."""
        return self.width

    def get_height(self) -> int:
        """Return the height in pixels."""
        return self.height

    def get_stride(self) -> int:
        """Return the bytes from one row to the next."""
        return self.stride

    def get_pixel_format(self) -> PixelFormat:
        """Return the pixel format as a number."""
        return PIXEL_FORMATS[self.pixel_format]

    def get_image_format(self) -> ImageFormat:
        """Return the image format as a number."""
        return IMAGE_FORMATS[self.image_format]


@dataclass(frozen=True, slots=True)
class AudioSpec(_Spec):
    """Properties of an audio block.

    Attributes
    ----------
    sample_count : int
        Samples per channel.
    sample_format : SampleFormat
        Format in the file; ``spec["sample_format"]`` is its text, such as ``"int16le"``.
    sample_frame_stride : int
        Bytes from one sample of a channel to the next.
    sample_block_stride : int
        Older name of `sample_frame_stride`.
    channel_count : int
    sample_rate : int
        Samples per second and channel.
    buffer_size : int
        Bytes of the block.
    """

    sample_count: int
    sample_format: SampleFormat
    sample_frame_stride: int
    channel_count: int
    sample_rate: int
    buffer_size: int

    @classmethod
    def of(cls, spec: StoredAudioSpec) -> "AudioSpec":
        """Convert a spec of `bloscpack.vrs`."""
        return cls(
            sample_count=spec.sample_count,
            sample_format=spec.sample_format,
            sample_frame_stride=spec.frame_nbytes,
            channel_count=spec.channel_count,
            sample_rate=spec.sample_rate,
            buffer_size=spec.buffer_size,
        )

    @property
    def sample_block_stride(self) -> int:
        """Older name of `sample_frame_stride`."""
        return self.sample_frame_stride

    def _names(self) -> list[str]:
        return sorted([*(field.name for field in fields(self)), "sample_block_stride"])

    def __getitem__(self, name: str) -> Any:
        value = _Spec.__getitem__(self, name)
        return str(value) if name == "sample_format" else value


@dataclass(frozen=True, slots=True)
class ContentBlock(_Spec):
    """Properties of a custom block.

    Attributes
    ----------
    buffer_size : int
        Bytes of the block.
    """

    buffer_size: int
