"""Small videos for tests, made by PyAV."""

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from bloscpack.media.pyav import restore_scheduling

_MS = Fraction(1, 1000)
Frames = npt.NDArray[np.uint8]

# 16.16 fixed point, row by row: [a b u, c d v, x y w]; w is 2.30.
MATRICES = {
    "none": (1, 0, 0, 1),
    "clockwise": (0, 1, -1, 0),
    "half": (-1, 0, 0, -1),
    "counterclockwise": (0, -1, 1, 0),
    "upside_down": (1, 0, 0, -1),
    "mirror": (-1, 0, 0, 1),
    "transpose": (0, 1, 1, 0),
    "antitranspose": (0, -1, -1, 0),
}


def moving(count: int, height: int = 48, width: int = 64) -> Frames:
    """Return distinct frames: a moving bright column, and the frame number in a corner."""
    frames = np.zeros((count, height, width, 3), np.uint8)
    frames[..., 0] = np.linspace(0, 200, width, dtype=np.uint8)
    frames[:, : height // 2, :, 1] = 120
    for number in range(count):
        left = 2 * number % (width - 8)
        frames[number, :, left : left + 8] = 255
        frames[number, -8:, -8:] = number % 256
    return frames


def write_video(
    path: Path,
    frames: Frames,
    *,
    codec: str = "png",
    rate: int = 30,
    times: Sequence[int] | None = None,
    options: dict[str, str] | None = None,
    faststart: bool = False,
    aspect: Fraction | None = None,
) -> Path:
    """Write a video; `times` are the times of the frames in ms.

    The codec "png" keeps the pixels as they are (in .mov and .mkv).
    """
    flags = {"movflags": "faststart"} if faststart else {}
    with restore_scheduling(), av.open(str(path), "w", options=flags) as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = {"png": "rgb24", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        if times is not None:
            stream.time_base = stream.codec_context.time_base = _MS
        for number, array in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(array, "rgb24")
            if times is not None:
                frame.pts, frame.time_base = times[number], _MS
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def set_matrix(path: Path, name: str) -> None:
    """Write a display matrix into the only track of a .mov or .mp4 file."""
    set_matrix_values(path, MATRICES[name])


def set_matrix_values(path: Path, values: tuple[float, float, float, float]) -> None:
    """Write the four matrix entries of rotation and mirroring."""
    data = bytearray(path.read_bytes())
    header = data.index(b"tkhd") + 4
    # Version and flags; times, id, reserved, duration of version 0; reserved, layer, volume.
    matrix = header + 4 + 5 * 4 + 2 * 4 + 4 * 2
    a, b, c, d = (round(value * 65536) for value in values)
    data[matrix : matrix + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)


def describe_pixels(path: Path, box: bytes) -> None:
    """Add a box to the description of the samples of an mp4 file of H.264, which ends with moov."""
    data = bytearray(path.read_bytes())
    at, end = data.rindex(b"moov") - 4, 0
    for name in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"avc1"):
        at = data.index(name, at) - 4
        (nbytes,) = struct.unpack_from(">I", data, at)
        struct.pack_into(">I", data, at, nbytes + len(box))
        end = at + nbytes
    data[end:end] = box
    path.write_bytes(data)


def write_hidden(path: Path, frames: Frames, hidden: int, group: int) -> Path:
    """Write an mp4 file of H.264 whose edit list hides the first frames."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"g": str(group), "bf": "0"})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"

        def mux(packets: list[Any]) -> None:
            for packet in packets:
                shift = int(hidden / 30 / packet.time_base)
                packet.pts, packet.dts = packet.pts - shift, packet.dts - shift
                container.mux(packet)

        for pixels in frames:
            mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        mux(stream.encode(None))
    return path
