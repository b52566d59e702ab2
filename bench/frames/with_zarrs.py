"""zarrs: its codec pipeline in zarr."""

from pathlib import Path
from typing import Any

import numpy as np
import zarr
import zarrs  # noqa: F401 - zarr works without it
from zarr.codecs import ZstdCodec

from frames.contenders import ClipFiles


class Zarrs(ClipFiles):
    """A Zarr array for each clip, a chunk for each frame."""

    name = files = "zarrs"
    note = "zarr with the codec pipeline of zarrs: an array for each clip, chunk = frame, zstd-1"
    libraries = "zarr {zarr}, zarrs {zarrs}"

    def __init__(self) -> None:
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})

    def write_clip(self, path: Path, coded: np.ndarray) -> None:
        chunk = (1, *coded.shape[1:])
        stored = zarr.create_array(
            str(path),
            shape=coded.shape,
            dtype=coded.dtype,
            chunks=chunk,
            compressors=[ZstdCodec(level=1)],
        )
        stored[:] = coded

    def open_clip(self, path: Path) -> Any:
        return zarr.open_array(str(path), mode="r")
