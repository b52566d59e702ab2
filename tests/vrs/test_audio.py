"""PCM samples of every format: values, byte order, strides, and samples that do not fit."""

import sys
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError, TruncatedError, UnsupportedError
from bloscpack.vrs.block.audio import (
    SAMPLE_FORMATS,
    AudioFormat,
    AudioSpec,
    SampleFormat,
    audio_view,
)

FORMATS = [sample for sample in SampleFormat if sample]
each_format = pytest.mark.parametrize("sample_format", FORMATS, ids=str)


def test_names_and_numbers() -> None:
    names = """
        undefined int8 uint8 uint8alaw uint8mulaw int16le uint16le int16be uint16be int24le uint24le
        int24be uint24be int32le uint32le int32be uint32be float32le float32be float64le float64be
    """
    assert list(SAMPLE_FORMATS) == names.split()
    assert [int(sample) for sample in SAMPLE_FORMATS.values()] == list(range(21))


def expected_value(stored: bytes, sample_format: SampleFormat) -> float:
    """Return one sample, computed by plain arithmetic."""
    text = str(sample_format)
    order = "big" if text.endswith("be") else "little"
    if text.startswith("float"):
        code = f"{'>' if order == 'big' else '<'}f{len(stored)}"
        return float(np.frombuffer(stored, code)[0])
    return int.from_bytes(stored, order, signed=text.startswith("int"))


@each_format
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 5])
def test_samples(sample_format: SampleFormat, channels: int, padding: int) -> None:
    nbytes = AudioSpec(sample_format=sample_format).bytes_per_sample
    stride = nbytes * channels + padding
    spec = AudioSpec(AudioFormat.PCM, sample_format, channels, 48000, 4, stride if padding else 0)
    data = np.random.default_rng(7).integers(0, 256, 4 * stride, np.uint8).tobytes()
    samples = audio_view(data, spec)
    assert samples.shape == (4, channels)
    assert samples.dtype.byteorder in "=|" or sys.byteorder == "big"
    assert samples.dtype.itemsize == (4 if nbytes == 3 else nbytes)
    for frame in range(4):
        for channel in range(channels):
            start = frame * stride + channel * nbytes
            value = expected_value(data[start : start + nbytes], sample_format)
            assert repr(samples[frame, channel].item()) == repr(value)


def test_samples_of_this_machine_are_not_copied() -> None:
    data = np.arange(8, dtype=np.uint8)
    spec = AudioSpec(AudioFormat.PCM, SampleFormat.S16_LE, 2, 8000, 2)
    assert np.shares_memory(audio_view(data.data, spec), data) == (sys.byteorder == "little")


@each_format
def test_no_samples(sample_format: SampleFormat) -> None:
    samples = audio_view(b"", AudioSpec(AudioFormat.PCM, sample_format, 2))
    assert samples.shape == (0, 2)


def test_what_does_not_fit() -> None:
    spec = AudioSpec(AudioFormat.PCM, SampleFormat.S16_BE, 2, 8000, 3)
    with pytest.raises(TruncatedError, match="3 frames of 4 bytes: found only 11 bytes"):
        audio_view(bytes(11), spec)
    spec = AudioSpec(AudioFormat.PCM, SampleFormat.S16_BE, 2, 8000, 3, 3)
    with pytest.raises(FormatError, match="frames of 3 bytes cannot hold 2 channels of int16be"):
        audio_view(bytes(12), spec)
    with pytest.raises(UnsupportedError, match="opus"):
        audio_view(bytes(12), AudioSpec(AudioFormat.OPUS, SampleFormat.S16_LE, 2))
    for unknown in (
        AudioSpec(AudioFormat.PCM, SampleFormat.UNDEFINED, 2),
        AudioSpec(AudioFormat.PCM, SampleFormat.S8, 0),
    ):
        with pytest.raises(UnsupportedError, match="needs a sample format"):
            audio_view(bytes(12), unknown)


@given(
    st.builds(
        AudioSpec,
        audio_format=st.just(AudioFormat.PCM),
        sample_format=st.sampled_from(SampleFormat),
        channel_count=st.integers(0, 255),
        sample_count=st.integers(0, 0xFFFFFFFF),
        sample_frame_stride=st.integers(0, 255),
    ),
    st.binary(max_size=50),
)
def test_any_spec_with_any_bytes(spec: AudioSpec, data: bytes) -> None:
    with suppress(FormatError, UnsupportedError):
        assert audio_view(data, spec).nbytes <= 2 * len(data)
