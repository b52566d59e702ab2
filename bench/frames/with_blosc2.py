"""python-blosc2: an NDArray for each clip."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import blosc2
import numpy as np

from frames.contenders import Contender, Frames, ReadClip


class Blosc2(Contender):
    """A b2nd file for each clip, a chunk for each frame."""

    name = files = "blosc2"
    note = "a b2nd file for each clip, chunk = frame, zstd-1, byte shuffle; no checksums"
    libraries = "blosc2 {blosc2}"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        path.mkdir()
        params = blosc2.CParams(
            codec=blosc2.Codec.ZSTD, clevel=1, filters=[blosc2.Filter.SHUFFLE], typesize=1
        )
        for key in ids:
            place, chunks = str(path / f"{key}.b2nd"), (1, *frames.shape[1:])
            blosc2.asarray(frames, chunks=chunks, urlpath=place, mode="w", cparams=params)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        clips = {each.stem: blosc2.open(str(each), mode="r") for each in path.iterdir()}

        def read(key: str, selection: slice) -> Frames:
            frames: np.ndarray = clips[key][selection]
            return frames

        yield read
