"""Arrays in Zstandard files, such as the clip that ships with the project."""

import io
from pathlib import Path

import numpy as np
import zstandard

SHIPPED = Path(__file__).resolve().parents[1] / "data" / "bbb_16x240x320x3_u8.npy.zst"


def load_array(path: Path = SHIPPED) -> np.ndarray:
    """Return the array of a compressed ``.npy`` file."""
    with path.open("rb") as stream:
        data = zstandard.ZstdDecompressor().stream_reader(stream).read()
    return np.load(io.BytesIO(data))
