"""Small pictures for tests, and PyAV as an independent decoder."""

from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]

DECODERS = {b"hvcC": "hevc", b"avcC": "h264", b"av1C": "libdav1d"}


def photo(width: int, height: int, seed: int = 0) -> Pixels:
    """Return a smooth RGB picture with edges in it, of any size."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (4, 5, 3), dtype="u1")
    pixels = np.array(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))
    pixels[height // 3 : height // 2, width // 4 : width // 2] //= 3
    return pixels


def noise(width: int, height: int, seed: int = 0) -> Pixels:
    """Return a picture of independent random pixels."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype="u1")


def save(path: Path, pixels: Any, orientation: int | None = None, **options: Any) -> Path:
    """Write a picture in the format of the suffix, optionally with an EXIF orientation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    if orientation is not None:
        exif = image.getexif()
        exif[0x0112] = orientation
        options["exif"] = exif
    image.save(path, **options)
    return path


def decode_frame(config_kind: bytes, config: bytes, payload: bytes) -> Any:
    """Return the only frame that PyAV decodes from a payload."""
    context: Any = av.CodecContext.create(DECODERS[config_kind], "r")
    context.extradata = config
    context.thread_count = 1
    (frame,) = context.decode(av.Packet(payload)) + context.decode(None)
    return frame


def planes_of(frame: Any) -> list[Pixels]:
    """Return the planes of a PyAV frame, without line padding."""
    return [
        np.frombuffer(plane, "u1").reshape(plane.height, plane.line_size)[:, : plane.width]
        for plane in frame.planes
    ]


def psnr(one: Any, other: Any) -> float:
    """Return the PSNR of two 8-bit arrays in dB."""
    error = float(((one.astype(float) - other.astype(float)) ** 2).mean())
    return float("inf") if not error else float(10 * np.log10(255**2 / error))
