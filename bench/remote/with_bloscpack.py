"""Our files: an array, and the same frames in a frame store."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from peers.data import Spec
from peers.with_bloscpack import Ours as OurFile

import bloscpack as bp
from remote.contenders import CLIP, OPEN, Contender


class Ours(Contender):
    """`bloscpack.open` of a URL."""

    note = (
        "a file of `bloscpack.save`, opened by `bloscpack.open` with its defaults: the checksum of "
        "each chunk is compared, and the version of the object with every answer"
    )

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "array.blp"
        OurFile().write(path, array, spec)
        return path

    def open(self, url: str, options: dict[str, Any]) -> AbstractContextManager[Any]:
        return bp.open(url, storage_options=options)

    def iterate(self, array: Any, nrows: int) -> Iterator[np.ndarray]:
        return islice(array, nrows)


class OurStore(Ours):
    """`bloscpack.frames.open` of a URL."""

    note = (
        "the same frames as clips in a file of `bloscpack.frames.create`, with its defaults, which "
        "compress more and check each frame"
    )
    works = (OPEN, CLIP)

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "clips.blp"
        with bp.frames.create(path) as store:
            for start in range(0, len(array), nclip):
                store.append(str(start), array[start : start + nclip])
        return path

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        with bp.frames.open(url, storage_options=options) as store:
            yield _Clips(store)


class _Clips:
    """An array over a store of clips of one size, read clip by clip."""

    def __init__(self, store: Any) -> None:
        self._store = store
        first = store["0"]
        self.shape = (len(store) * len(first), *first.shape[1:])
        self.dtype = first.dtype

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._store[str(rows.start)][:]
