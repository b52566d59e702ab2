"""WAV files: every sample format of VRS, read back by the standard library or by bytes."""

import io
import struct
import wave

import numpy as np
import pytest

from bloscpack.exceptions import TruncatedError, UnsupportedError
from bloscpack.vrs.block.audio import AudioFormat, AudioSpec, SampleFormat, audio_view
from bloscpack.vrs.block.wav import wav_header, wav_samples

PCM = [
    sample
    for sample in SampleFormat
    if sample and not sample.name.startswith("F") and not sample.name.endswith("LAW")
]


def spec_of(sample: SampleFormat, count: int = 40, channels: int = 2, stride: int = 0) -> AudioSpec:
    return AudioSpec(AudioFormat.PCM, sample, channels, 8000, count, stride)


def noise(nbytes: int) -> bytes:
    return bytes(range(256)) * (nbytes // 256) + np.random.default_rng(3).bytes(nbytes % 256)


def wav_of(buffer: bytes, spec: AudioSpec) -> bytes:
    samples = wav_samples(buffer, spec)
    return wav_header(spec, len(samples)) + samples + b"\0" * (len(samples) % 2)


@pytest.mark.parametrize("sample", PCM)
@pytest.mark.parametrize("padding", [0, 3])
def test_integers_are_read_by_the_standard_library(sample: SampleFormat, padding: int) -> None:
    width = spec_of(sample).bytes_per_sample
    stride = 2 * width + padding
    spec = spec_of(sample, stride=stride)
    buffer = noise(40 * stride)
    with wave.open(io.BytesIO(wav_of(buffer, spec))) as stream:
        assert stream.getparams()[:4] == (2, width, 8000, 40)
        data = stream.readframes(40)
    # WAV stores one byte as 0 to 255 with silence at 128, and more bytes as two's complement.
    bits = 8 * width
    numbers = [
        int.from_bytes(data[at : at + width], "little", signed=width > 1)
        - (128 if width == 1 else 0)
        for at in range(0, len(data), width)
    ]
    expected = audio_view(buffer, spec).astype(np.int64).ravel()
    if sample.name.startswith("U"):
        expected -= 1 << (bits - 1)
    assert numbers == expected.tolist()


@pytest.mark.parametrize(
    ("sample", "tag", "dtype"),
    [
        (SampleFormat.F32_LE, 3, "<f4"),
        (SampleFormat.F32_BE, 3, ">f4"),
        (SampleFormat.F64_LE, 3, "<f8"),
        (SampleFormat.F64_BE, 3, ">f8"),
        (SampleFormat.A_LAW, 6, "u1"),
        (SampleFormat.MU_LAW, 7, "u1"),
    ],
)
def test_other_formats_byte_by_byte(sample: SampleFormat, tag: int, dtype: str) -> None:
    values = np.arange(9).reshape(3, 3).astype(dtype)
    spec, width = spec_of(sample, 3, 3), values.itemsize
    data = wav_of(values.tobytes(), spec)
    nbytes = 9 * width
    assert data[:12] == struct.pack("<4sI4s", b"RIFF", len(data) - 8, b"WAVE")
    assert data[12:38] == struct.pack(
        "<4sIHHIIHHH", b"fmt ", 18, tag, 3, 8000, 8000 * 3 * width, 3 * width, 8 * width, 0
    )
    assert data[38:50] == struct.pack("<4sII", b"fact", 4, 3)
    assert data[50:58] == struct.pack("<4sI", b"data", nbytes)
    assert data[58 : 58 + nbytes] == values.astype(values.dtype.newbyteorder("<")).tobytes()
    assert len(data) == 58 + nbytes + nbytes % 2


@pytest.mark.parametrize(
    "spec",
    [
        spec_of(SampleFormat.UNDEFINED),
        spec_of(SampleFormat.S16_LE, channels=0),
        AudioSpec(AudioFormat.PCM, SampleFormat.S16_LE, 1, 0),
        AudioSpec(AudioFormat.PCM, SampleFormat.S16_LE, 1, 1 << 32),
    ],
)
def test_formats_that_wav_does_not_have(spec: AudioSpec) -> None:
    with pytest.raises(UnsupportedError, match="WAV has no such format"):
        wav_header(spec, 0)


def test_missing_samples() -> None:
    with pytest.raises(TruncatedError):
        wav_samples(bytes(159), spec_of(SampleFormat.S16_LE))
    assert len(wav_samples(bytes(160), spec_of(SampleFormat.S16_LE))) == 160


def test_numbers_that_overflow_the_header_are_cut() -> None:
    spec = AudioSpec(AudioFormat.PCM, SampleFormat.S32_LE, 255, 0xFFFFFFFF)
    assert wav_header(spec, 0)[28:32] == b"\xff" * 4
