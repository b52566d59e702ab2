"""python-blosc2: an NDArray for each clip."""

from pathlib import Path
from typing import Any

import blosc2
import numpy as np

from frames.contenders import ClipFiles


class Blosc2(ClipFiles):
    """A b2nd file for each clip, a chunk for each frame."""

    name = files = "blosc2"
    note = "a b2nd file for each clip, chunk = frame, zstd-1, byte shuffle; no checksums"
    libraries = "blosc2 {blosc2}"
    suffix = ".b2nd"

    def write_clip(self, path: Path, coded: np.ndarray) -> None:
        params = blosc2.CParams(
            codec=blosc2.Codec.ZSTD, clevel=1, filters=[blosc2.Filter.SHUFFLE], typesize=1
        )
        chunks = (1, *coded.shape[1:])
        blosc2.asarray(coded, chunks=chunks, urlpath=str(path), mode="w", cparams=params)

    def open_clip(self, path: Path) -> Any:
        return blosc2.open(str(path), mode="r")
