"""Small pictures of each codec and pixel format, encoded once for all tests."""

import functools
import io
import os
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from bloscpack.benzina.codec.codecconfig import split_obus, unit_kind
from bloscpack.benzina.mp4.samplelayout import parse_sample
from bloscpack.media.pyav import restore_scheduling

# SVT-AV1 reads this when it is first used in a process: log errors only.
os.environ.setdefault("SVT_LOG", "1")

_X265 = "keyint=1:bframes=0:no-info=1:log-level=none:pools=none:frame-threads=1"


class Encoded(NamedTuple):
    """A picture in the form of a sample, and the encoder's output with parameter sets."""

    kind: bytes
    config: bytes
    payload: bytes
    stream: bytes


def frame_of(planes: Any, pix_fmt: str, width: int, height: int) -> Any:
    """Return a PyAV frame with these planes."""
    import av

    frame = av.VideoFrame(width, height, pix_fmt)
    for plane, samples in zip(frame.planes, planes, strict=True):
        row = samples.shape[1] * samples.itemsize
        room = np.zeros((plane.height, plane.line_size), np.uint8)
        room[:, :row] = np.ascontiguousarray(samples).view(np.uint8).reshape(-1, row)
        plane.update(room.tobytes())
    return frame


def smooth_planes(pix_fmt: str, width: int, height: int, seed: int = 0) -> list[Any]:
    """Return planes that a codec changes little: gradients with some noise."""
    import av

    components = av.VideoFormat(pix_fmt).components
    rng = np.random.default_rng(seed)
    depth = components[0].bits
    planes = []
    for index in range(len(components)):
        across, down = (0, 0) if not index or "444" in pix_fmt or "gbrp" in pix_fmt else (1, 1)
        down = 0 if "422" in pix_fmt else down
        y, x = np.mgrid[: -(-height >> down), : -(-width >> across)]
        values = 60 + 40 * index + 50 * x / width + 60 * y / height + rng.integers(0, 3, y.shape)
        dtype = np.uint8 if depth == 8 else "<u2"
        planes.append((values * (1 << (depth - 8))).astype(dtype))
    return planes


@functools.cache
def encoded(
    codec: str = "libx265",
    pix_fmt: str = "yuv420p",
    width: int = 64,
    height: int = 64,
    full_range: bool = True,
    matrix: int = 5,
    lossless: bool = False,
    seed: int = 0,
    slices: int = 1,
) -> Encoded:
    """Return a picture of `smooth_planes`, encoded."""
    av = pytest.importorskip("av", reason="no PyAV")
    options = {"crf": "4", "preset": "ultrafast", "x264-params": f"keyint=1:slices={slices}"}
    options["x265-params"] = _X265 + (":lossless=1" if lossless else "")
    if codec == "libsvtav1":
        options = {"preset": "12", "crf": "4"}
    frame = frame_of(smooth_planes(pix_fmt, width, height, seed), pix_fmt, width, height)
    frame.pts = 0
    file = io.BytesIO()
    with restore_scheduling(), av.open(file, "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=1)
        stream.metadata["handler_name"] = "bzna_input"
        context = stream.codec_context
        context.width, context.height, context.pix_fmt = width, height, pix_fmt
        context.time_base, context.thread_count = Fraction(1, 1), 1
        if codec == "libx265":
            context.codec_tag = "hvc1"
        if pix_fmt[:4] != "gbrp":
            for target in (context, frame):
                target.color_range, target.colorspace = 2 if full_range else 1, matrix
        context.options = options
        packets = [*context.encode(frame), *context.encode(None)]
        coded = b"".join(bytes(packet) for packet in packets)
        if codec != "libsvtav1":
            coded = bytes(context.extradata) + coded
        if codec == "libx265":
            # Some versions repeat the parameter sets.
            sets = av.BitStreamFilterContext("filter_units=remove_types=32-34", stream)
            packets = sets.filter(packets[0])
            packets[0].stream = stream
        container.mux(packets)
    data = file.getvalue()
    track = parse_sample(data).tracks["bzna_input"]
    payload = data[track.offset : track.offset + track.nbytes]
    config = track.config
    if codec == "libsvtav1":
        # SVT-AV1 announces another sequence header than it then writes.
        config = config[:4] + next(u for u in split_obus(payload) if unit_kind("av1", u) == 1)
    return Encoded(track.config_kind, config, payload, coded)


def split_annexb(stream: bytes) -> list[bytes]:
    """Return the NAL units of a byte stream; none of them ends with a zero byte."""
    return [unit.rstrip(b"\0") for unit in stream.split(b"\0\0\1")[1:]]


def join_units(units: Iterable[bytes]) -> bytes:
    """Return NAL units as a payload, each preceded by its size in 4 bytes."""
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


def with_matrix(codec: str, matrix: int) -> Encoded:
    """Return a picture of libx265 or libx264 that declares a code point for its colours."""
    import av

    base = encoded(codec)
    name, is_hevc = ("hevc", True) if codec == "libx265" else ("h264", False)
    with av.open(io.BytesIO(), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=1)
        change = av.BitStreamFilterContext(f"{name}_metadata=matrix_coefficients={matrix}", stream)
        (changed,) = change.filter(av.Packet(base.stream))
    old, new = (
        next(u for u in split_annexb(each) if unit_kind(name, u) == (33 if is_hevc else 7))
        for each in (base.stream, bytes(changed))
    )
    old, new = (len(sps).to_bytes(2, "big") + sps for sps in (old, new))
    assert base.config.count(old) == 1
    return base._replace(config=base.config.replace(old, new))


def without_sequence_header(payload: bytes) -> bytes:
    """Return a payload of AV1 that needs the sequence header of its configuration."""
    return b"".join(unit for unit in split_obus(payload) if unit_kind("av1", unit) != 1)


def number(value: int) -> str:
    """Return an Exp-Golomb code."""
    digits = f"{value + 1:b}"
    return "0" * (len(digits) - 1) + digits


def said_to_be(base: Encoded, pixels: int) -> tuple[bytes, bytes]:
    """Return SPS and configuration of a 64 x 64 picture, changed to an edge of `pixels`."""
    unit = split_annexb(base.stream)[1]
    bits = "".join(f"{byte:08b}" for byte in unit.replace(b"\0\0\3", b"\0\0"))
    size = number(64) * 2
    assert bits.count(size) == 1
    # Align the end of the SPS, a one and zeros, again.
    bits = bits.rstrip("0").replace(size, number(pixels) * 2)
    bits += "0" * (-len(bits) % 8)
    sps = bytearray()
    for at in range(0, len(bits), 8):
        byte = int(bits[at : at + 8], 2)
        if sps[-2:] == b"\0\0" and byte <= 3:
            sps.append(3)  # emulation prevention
        sps.append(byte)
    old, new = (len(data).to_bytes(2, "big") + data for data in (unit, bytes(sps)))
    return bytes(sps), base.config.replace(old, new)
