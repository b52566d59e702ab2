"""tensorstore: the zarr3 driver on files."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

from frames.contenders import ClipFiles, Frames


class Tensorstore(ClipFiles):
    """A Zarr array for each clip, a chunk for each frame."""

    name = files = "tensorstore"
    note = "a Zarr array for each clip, chunk = frame, zstd-1; threads as it chooses; no checksums"
    libraries = "tensorstore {tensorstore}"

    def write_clip(self, path: Path, coded: np.ndarray) -> None:
        chunk = [1, *coded.shape[1:]]
        metadata = {
            "shape": list(coded.shape),
            "data_type": coded.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 1}},
            ],
        }
        ts.open({**_spec(path), "metadata": metadata}, create=True).result().write(coded).result()

    def open_clip(self, path: Path) -> Any:
        return ts.open(_spec(path), read=True).result()

    def read_clip(self, clip: Any, selection: slice) -> Frames:
        frames: np.ndarray = clip[selection].read().result()
        return frames


def _spec(path: Path) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
