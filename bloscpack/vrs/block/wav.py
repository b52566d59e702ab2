"""WAV files of PCM audio: header and conversion of samples.

A WAV file has unsigned samples of 8 bits, signed samples of 16, 24 and 32 bits, floats of 32 and 64
bits, A-law and mu-law; all are little-endian, in frames without gaps. Samples of VRS are converted
without loss. Source: Multimedia Programming Interface and Data Specifications 1.0 (IBM, Microsoft,
1991) and the format tags of RFC 2361.
"""

from struct import Struct

import numpy as np

from ...plugin import AnyArray, BytesLike, UnsupportedError
from .audio import AudioSpec, SampleFormat, audio_view

_RIFF = Struct("<4sI4s")
# Format tag, channels, frames per second, bytes per second and per frame, bits per sample.
_FORMAT = Struct("<4sIHHIIHH")
_EXTENSION_SIZE = 2
_FACT = Struct("<4sII")
_CHUNK = Struct("<4sI")
_PCM, _FLOAT, _A_LAW, _MU_LAW = 1, 3, 6, 7
_TAGS = {
    SampleFormat.A_LAW: _A_LAW,
    SampleFormat.MU_LAW: _MU_LAW,
    SampleFormat.F32_LE: _FLOAT,
    SampleFormat.F32_BE: _FLOAT,
    SampleFormat.F64_LE: _FLOAT,
    SampleFormat.F64_BE: _FLOAT,
}
_UINT16, _UINT32 = 0xFFFF, 0xFFFFFFFF
_PLAIN_HEADER_SIZE = 12 + 24 + 8
HEADER_SIZE = _PLAIN_HEADER_SIZE + _EXTENSION_SIZE + 12
"""Largest header, in bytes."""
MAX_NBYTES = _UINT32 - HEADER_SIZE
"""Most bytes of samples in a file."""


def wav_header(spec: AudioSpec, nbytes: int) -> bytes:
    """Return the header of a WAV file, all bytes before the samples.

    `nbytes` of samples, at most `MAX_NBYTES`, are as `wav_samples` returns them. If it is odd, the
    caller adds a padding byte at the end of the file.
    """
    width, channels = spec.bytes_per_sample, spec.channel_count
    frame_nbytes = width * channels
    if not width or not 0 < channels <= _UINT16 or not 0 < spec.sample_rate <= _UINT32:
        raise UnsupportedError(
            f"audio of {channels} channels of {spec.sample_format}, {spec.sample_rate} per second: "
            "WAV has no such format"
        )
    tag = _TAGS.get(spec.sample_format, _PCM)
    byte_rate = min(spec.sample_rate * frame_nbytes, _UINT32)
    is_plain = tag == _PCM
    size = _FORMAT.size - 8 + (0 if is_plain else _EXTENSION_SIZE)
    parts = [
        _FORMAT.pack(
            b"fmt ", size, tag, channels, spec.sample_rate, byte_rate, frame_nbytes, 8 * width
        )
    ]
    if not is_plain:
        parts += [bytes(_EXTENSION_SIZE), _FACT.pack(b"fact", 4, nbytes // frame_nbytes)]
    parts.append(_CHUNK.pack(b"data", nbytes))
    body = b"".join(parts)
    return _RIFF.pack(b"RIFF", 4 + len(body) + nbytes + nbytes % 2, b"WAVE") + body


def wav_samples(buffer: BytesLike, spec: AudioSpec) -> bytes:
    """Return the samples of a block in the form that WAV stores."""
    samples = audio_view(buffer, spec)
    width = spec.bytes_per_sample
    unsigned, is_integer = samples.dtype.kind == "u", samples.dtype.kind in "ui"
    if is_integer and spec.sample_format not in _TAGS and unsigned != (width == 1):
        # Flipping the sign bit converts two's complement to offset binary, and back.
        samples = _flip_sign(samples, 8 * width)
    little = samples.astype(samples.dtype.newbyteorder("<"), copy=False)
    if width != 3:
        return little.tobytes()
    rows = np.ascontiguousarray(little).view(np.uint8)
    return rows.reshape(*samples.shape, 4)[..., :3].tobytes()


def _flip_sign(samples: AnyArray, bits: int) -> AnyArray:
    kind = np.dtype(f"u{samples.dtype.itemsize}")
    flipped: AnyArray = samples.view(kind) ^ kind.type(1 << (bits - 1))
    return flipped
