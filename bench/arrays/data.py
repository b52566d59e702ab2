"""Arrays to store: measured ones where they are present, and others that ship or are made.

The measured arrays are the files ``arrays/NAME.npy.xz`` of ``shared/data`` beside the repository,
or of the folder that ``BLOSCPACK_DATA`` names.
"""

import io
import lzma
from dataclasses import dataclass
from typing import Any

import numpy as np
from frames.data import FOLDER
from peers.data import field
from race.arrays import load_array
from race.races import Setting

_KINDS = {
    "float grids": ("theta_f4", "colpex_f4", "a1b_f4", "orog_f4"),
    "packed fields": ("pmsl_f4", "sst_f4"),
    "images of 16 bits": ("dem_i2", "mri4d_i2", "trace_i2"),
    "float images": ("spitzer_f4", "wiener_f8"),
    "labels": ("labels_i4",),
    "points, tables": ("cloud_org_f4", "flights_f4"),
    "signals": ("ecg_i2",),
    "counts": ("counts_u2",),
    "embeddings": ("embed_f4", "embed_bf16"),
    "time stamps": ("stamps_i8",),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}

# How much is done: in a full run, and in a try.
SETTINGS = {
    "nmeasured": (None, 2),  # measured arrays to take; None: all
    "nmade": (1 << 19, 1 << 13),  # items of an array that is made
    "nframes": (16, 1),
    "nrounds": (11, 2),  # of reads
    "nwrites": (3, 1),  # rounds of writes
    "cube": ((64, 2048, 2048), (8, 512, 512)),
    "tile": (256, 64),
    "nplaces": (97, 5),  # distinct tiles, series, or rows
}


@dataclass(frozen=True, slots=True)
class Sample:
    """An array; a picture has images along its last two axes, or three with colours."""

    name: str
    kind: str
    array: np.ndarray
    is_measured: bool
    is_picture: bool = False

    @property
    def plain(self) -> np.ndarray:
        """The array, a dtype that numpy lacks as unsigned integers of its size."""
        is_plain = self.array.dtype.isbuiltin == 1
        return self.array if is_plain else self.array.view(f"u{self.array.itemsize}")

    @property
    def facts(self) -> dict[str, Any]:
        """The facts for the page, JSON values."""
        dtype, shape = self.array.dtype, self.array.shape
        return {
            "kind": self.kind,
            "about": f"{dtype}, {' x '.join(map(str, shape))}",
            "nbytes": self.array.nbytes,
            "is_measured": self.is_measured,
        }


def make_samples(setting: Setting) -> list[Sample]:
    """Return all arrays, those that were measured first."""
    found = []
    for path in sorted((FOLDER / "arrays").glob("*.npy.xz"))[: setting.nmeasured]:
        name = path.name.removesuffix(".npy.xz")
        array = np.load(io.BytesIO(lzma.decompress(path.read_bytes())))
        if name.endswith("_bf16"):
            from ml_dtypes import bfloat16

            array = array.view(bfloat16)
        kind = _KIND_OF.get(name, "others")
        found.append(Sample(name, kind, array, True, kind == "images of 16 bits"))
    return found + _make(setting)


def _make(setting: Setting) -> list[Sample]:
    n, side = setting.nmade, int(setting.nmade**0.5)
    y, x = np.mgrid[:side, :side]
    waves = np.sin(y / 31) + np.cos(x / 47) + np.sin((x + y) / 23)
    return [
        Sample("film_u1", "frames of 8 bits", load_array()[: setting.nframes], False, True),
        Sample("mask_u1", "mask, made", (waves > 0.8).astype("u1"), False),
        Sample("sensor_f4", "rounded field, made", field(max(n // 1000, 2)), False),
    ]


def make_cube(shape: tuple[int, int, int]) -> np.ndarray:
    """Return int16 images of a sensor that warms up: structure, drift and noise."""
    depth, height, width = shape
    y, x = np.mgrid[:height, :width].astype("f4")
    still = 900 * np.sin(y / 90) * np.cos(x / 120) + 200 * np.sin(x / 7 + y / 11)
    rng = np.random.default_rng(11)
    noise = rng.normal(0, 4, (height + depth, width)).astype("f4")
    cube = np.empty(shape, "i2")
    for z, image in enumerate(cube):  # noise made once and shifted: a tenth of the time
        image[...] = still * (1 + z / 500) + noise[z : z + height]
    return cube
