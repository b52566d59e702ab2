"""Audio blocks of VRS: sample formats, sizes and strides, and samples as arrays.

PCM is frames of one sample per channel, `frame_nbytes` apart. `audio_view` shares memory with the
bytes if numpy has the sample format and it is in the machine's byte order. Samples of 24 bits are
widened and samples in the other byte order are swapped, both into a copy.

Contract: any bytes and any spec give a value, a `FormatError` or an `UnsupportedError`.
Layout: docs/formats/vrs.md.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ...plugin import AnyArray, BytesLike, FormatError, TruncatedError, UnsupportedError


class AudioFormat(IntEnum):
    """Coding of an audio block. Stored on disk."""

    UNDEFINED = 0
    PCM = 1
    OPUS = 2

    def __str__(self) -> str:
        return self.name.lower()


class SampleFormat(IntEnum):
    """Format of a sample. Numbers and texts are stored on disk; the names are the reference's."""

    UNDEFINED = 0
    S8 = 1
    U8 = 2
    A_LAW = 3
    MU_LAW = 4
    S16_LE = 5
    U16_LE = 6
    S16_BE = 7
    U16_BE = 8
    S24_LE = 9
    U24_LE = 10
    S24_BE = 11
    U24_BE = 12
    S32_LE = 13
    U32_LE = 14
    S32_BE = 15
    U32_BE = 16
    F32_LE = 17
    F32_BE = 18
    F64_LE = 19
    F64_BE = 20

    def __str__(self) -> str:
        return _SAMPLES[self][0]


# Text in format strings, and dtype; "3" stands for three bytes.
_SAMPLES = {
    SampleFormat.UNDEFINED: ("undefined", ""),
    SampleFormat.S8: ("int8", "i1"),
    SampleFormat.U8: ("uint8", "u1"),
    SampleFormat.A_LAW: ("uint8alaw", "u1"),
    SampleFormat.MU_LAW: ("uint8mulaw", "u1"),
    SampleFormat.S16_LE: ("int16le", "<i2"),
    SampleFormat.U16_LE: ("uint16le", "<u2"),
    SampleFormat.S16_BE: ("int16be", ">i2"),
    SampleFormat.U16_BE: ("uint16be", ">u2"),
    SampleFormat.S24_LE: ("int24le", "<i3"),
    SampleFormat.U24_LE: ("uint24le", "<u3"),
    SampleFormat.S24_BE: ("int24be", ">i3"),
    SampleFormat.U24_BE: ("uint24be", ">u3"),
    SampleFormat.S32_LE: ("int32le", "<i4"),
    SampleFormat.U32_LE: ("uint32le", "<u4"),
    SampleFormat.S32_BE: ("int32be", ">i4"),
    SampleFormat.U32_BE: ("uint32be", ">u4"),
    SampleFormat.F32_LE: ("float32le", "<f4"),
    SampleFormat.F32_BE: ("float32be", ">f4"),
    SampleFormat.F64_LE: ("float64le", "<f8"),
    SampleFormat.F64_BE: ("float64be", ">f8"),
}
SAMPLE_FORMATS = {text: sample for sample, (text, _dtype) in _SAMPLES.items()}
"""Sample format by the text of format strings."""
AUDIO_FORMATS = {str(audio): audio for audio in AudioFormat}
"""Audio format by the text of format strings."""


@dataclass(frozen=True, slots=True)
class AudioSpec:
    """Properties of an audio block. Numbers are 0 if unknown.

    Attributes
    ----------
    audio_format : AudioFormat
        Coding of the bytes.
    sample_format : SampleFormat
        Format of the decoded samples.
    channel_count : int
        Samples per frame.
    sample_rate : int
        Frames per second.
    sample_count : int
        Frames in the block.
    sample_frame_stride : int
        Bytes from one frame to the next, as stored; 0 for the smallest possible, see
        `frame_nbytes`.
    stereo_pair_count : int
        Opus: number of channel pairs that are coded together.
    buffer_size : int
        Bytes of the block.
    """

    audio_format: AudioFormat = AudioFormat.UNDEFINED
    sample_format: SampleFormat = SampleFormat.UNDEFINED
    channel_count: int = 0
    sample_rate: int = 0
    sample_count: int = 0
    sample_frame_stride: int = 0
    stereo_pair_count: int = 0
    buffer_size: int = 0

    @property
    def bytes_per_sample(self) -> int:
        """Bytes of a sample in the file."""
        code = _SAMPLES[self.sample_format][1]
        return int(code[-1]) if code else 0

    @property
    def sample_dtype(self) -> np.dtype[Any] | None:
        """Dtype of a sample in the file; None for 24 bits or an unknown format."""
        code = _SAMPLES[self.sample_format][1]
        return np.dtype(code) if code and code[-1] != "3" else None

    @property
    def min_frame_nbytes(self) -> int:
        """Bytes of the samples of one frame."""
        return self.bytes_per_sample * self.channel_count

    @property
    def frame_nbytes(self) -> int:
        """Bytes from one frame to the next."""
        return self.sample_frame_stride or self.min_frame_nbytes

    @property
    def pcm_nbytes(self) -> int | None:
        """Bytes of the samples as PCM; None if format, channels or sample count are unknown."""
        return self.frame_nbytes * self.sample_count or None


def audio_view(buffer: BytesLike, spec: AudioSpec) -> AnyArray:
    """Return PCM samples as an array.

    Parameters
    ----------
    buffer : bytes-like
        The bytes of the block; bytes after the samples are ignored.
    spec : AudioSpec
        With sample format, channels and sample count.

    Returns
    -------
    ndarray
        ``(samples, channels)`` of the sample format, in the byte order of the machine. A view of
        `buffer`, or a copy if samples are swapped or widened from 24 bits to int32 or uint32.
        A-law and mu-law samples are not decoded and have dtype uint8.

    Raises
    ------
    FormatError
        The samples do not fit into `buffer` (`TruncatedError`), or a frame is larger than its
        stride.
    UnsupportedError
        The audio is not PCM, or its sample format or number of channels is unknown.
    """
    if spec.audio_format != AudioFormat.PCM:
        raise UnsupportedError(f"{spec.audio_format} audio: only PCM is decoded")
    code = _SAMPLES[spec.sample_format][1]
    if not code or not spec.channel_count:
        raise UnsupportedError("PCM audio needs a sample format and a number of channels")
    shape, stride = (spec.sample_count, spec.channel_count), spec.frame_nbytes
    if stride < spec.min_frame_nbytes:
        raise FormatError(
            f"audio frames of {stride} bytes cannot hold {spec.channel_count} channels"
            f" of {spec.sample_format}"
        )
    if len(buffer) < stride * spec.sample_count:
        raise TruncatedError(
            f"audio of {spec.sample_count} frames of {stride} bytes: found only {len(buffer)} bytes"
        )
    if spec.bytes_per_sample == 3:
        samples = np.ndarray((*shape, 3), np.uint8, buffer, 0, (stride, 3, 1))
        return _widen(samples, code)
    samples = np.ndarray(shape, np.dtype(code), buffer, 0, (stride, spec.bytes_per_sample))
    return samples.astype(samples.dtype.newbyteorder("="), copy=False)


def _widen(samples: AnyArray, code: str) -> AnyArray:
    """Convert samples of three bytes to int32 or uint32 of the same values."""
    low, middle, high = (
        samples[..., i].astype(np.uint32) for i in ((0, 1, 2) if code[0] == "<" else (2, 1, 0))
    )
    if code[1] == "u":
        return high << 16 | middle << 8 | low
    # The arithmetic right shift extends the sign.
    return (high << 24 | middle << 16 | low << 8).view(np.int32) >> 8
