"""Small pictures of each codec and pixel format, encoded once for all tests."""

import functools
import io
import os
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from bloscpack.benzina.codec.av1sequence import split_obus
from bloscpack.benzina.codec.codecconfig import (
    join_units,
    pack_av1c,
    pack_avcc,
    pack_hvcc,
    split_annexb,
    strip_delimiters,
    unit_kind,
)
from bloscpack.benzina.codec.encoder import restore_scheduling

# SVT-AV1 reads this when it is first used in a process: log errors only.
os.environ.setdefault("SVT_LOG", "1")

KINDS = {"hevc": b"hvcC", "h264": b"avcC", "libdav1d": b"av1C"}
_X265 = "keyint=1:bframes=0:no-info=1:log-level=none:pools=none:frame-threads=1"
_PARAMETERS = {"hevc": {32, 33, 34}, "h264": {7, 8}}


class Encoded(NamedTuple):
    """A picture in the form of a sample, and the encoder's output."""

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
    name = {"libx265": "hevc", "libx264": "h264", "libsvtav1": "libdav1d"}[codec]
    options = {"crf": "4", "preset": "ultrafast", "x264-params": f"keyint=1:slices={slices}"}
    options["x265-params"] = _X265 + (":lossless=1" if lossless else "")
    if codec == "libsvtav1":
        options = {"preset": "12", "crf": "4"}
    context = av.CodecContext.create(codec, "w")
    context.width, context.height, context.pix_fmt = width, height, pix_fmt
    context.time_base, context.thread_count = Fraction(1, 1), 1
    frame = frame_of(smooth_planes(pix_fmt, width, height, seed), pix_fmt, width, height)
    frame.pts = 0
    if pix_fmt[:4] != "gbrp":
        for target in (context, frame):
            target.color_range, target.colorspace = 2 if full_range else 1, matrix
    context.options = options
    with restore_scheduling():
        packets = [*context.encode(frame), *context.encode(None)]
    stream = b"".join(bytes(packet) for packet in packets)
    if name == "libdav1d":
        return Encoded(KINDS[name], pack_av1c(stream), strip_delimiters(stream), stream)
    units = split_annexb(stream)
    config = pack_hvcc(units) if name == "hevc" else pack_avcc(units)
    kept = [unit for unit in units if unit_kind(name, unit) not in _PARAMETERS[name]]
    return Encoded(KINDS[name], config, join_units(kept), stream)


@functools.cache
def muxed(codec: str) -> bytes:
    """Return an mp4 of one picture from FFmpeg's own muxer."""
    av = pytest.importorskip("av", reason="no PyAV")
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=1)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        if codec == "libx265":
            # With the other entry type, the pictures may contain more parameter sets.
            stream.codec_context.codec_tag = "hvc1"
        stream.options = {"x265-params": _X265, "preset": "12" if "av1" in codec else "ultrafast"}
        frame = frame_of(smooth_planes("yuv420p", 64, 64), "yuv420p", 64, 64)
        with restore_scheduling():
            container.mux([*stream.encode(frame), *stream.encode(None)])
    return file.getvalue()


def without_sequence_header(payload: bytes) -> bytes:
    """Return a payload of AV1 that needs the sequence header of its configuration."""
    return b"".join(obu.data for obu in split_obus(payload) if obu.kind != 1)


def number(value: int) -> str:
    """Return an Exp-Golomb code."""
    digits = f"{value + 1:b}"
    return "0" * (len(digits) - 1) + digits


def said_to_be(base: Encoded, pixels: int) -> tuple[bytes, bytes]:
    """Return SPS and configuration of a 64 x 64 picture, changed to an edge of `pixels`."""
    units = split_annexb(base.stream)
    # The SPS of the picture before and after its size.
    bits = "".join(f"{byte:08b}" for byte in units[1])
    size = number(64) * 2
    assert bits.count(size) == 1
    bits = bits.replace(size, number(pixels) * 2)
    bits += "0" * (-len(bits) % 8)
    sps = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    assert len(sps) < 256
    config = base.config.replace(
        len(units[1]).to_bytes(2, "big") + units[1], len(sps).to_bytes(2, "big") + sps
    )
    return sps, config
