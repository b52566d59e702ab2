"""tensorstore: the zarr3 driver on files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

from frames.contenders import Contender, Frames, ReadClip


class Tensorstore(Contender):
    """A Zarr array for each clip, a chunk for each frame."""

    name = files = "tensorstore"
    note = "a Zarr array for each clip, chunk = frame, zstd-1; threads as it chooses; no checksums"
    libraries = "tensorstore {tensorstore}"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        chunk = [1, *frames.shape[1:]]
        metadata = {
            "shape": list(frames.shape),
            "data_type": frames.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 1}},
            ],
        }
        for key in ids:
            spec = {**_spec(path / key), "metadata": metadata}
            ts.open(spec, create=True).result().write(frames).result()

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        clips = {each.name: ts.open(_spec(each), read=True).result() for each in path.iterdir()}

        def read(key: str, selection: slice) -> Frames:
            frames: np.ndarray = clips[key][selection].read().result()
            return frames

        yield read


def _spec(path: Path) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
