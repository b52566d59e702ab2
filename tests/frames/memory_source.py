"""A minimal source of clips in memory, which records its read calls."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from bloscpack.exceptions import NotFoundError
from bloscpack.frames.protocol import FrameSelection, read_batch, read_clip
from bloscpack.storage.batch import Piece
from bloscpack.types import AnyArray, IntArray

from ..counting import CountingBytes


class MemoryClip:
    """Raw frames, stored one after the other."""

    decode_cost = 1
    left_out: tuple[str, ...] = ()
    is_raw = is_upright = True

    def __init__(
        self, id_: str, frames: AnyArray, meta: dict[str, Any], content: CountingBytes, offset: int
    ) -> None:
        self.id = id_
        self.shape = frames.shape
        self.dtype = frames.dtype
        self._meta = meta
        self._content = content
        self._offset = offset

    @property
    def meta(self) -> dict[str, Any]:
        return dict(self._meta)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, selection: FrameSelection) -> AnyArray:
        return self.read(selection)

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        return read_clip(self, selection, out=out, nthreads=None)

    def read_images(self, selection: FrameSelection = None) -> list[bytes] | None:
        return None

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        return self.shape[1:]

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterable[Piece]:
        nbytes = int(np.prod(self.shape[1:])) * self.dtype.itemsize
        for index, frame in zip(indices.tolist(), frames, strict=True):
            into = frame.reshape(-1).view(np.uint8)
            yield Piece(self._content, self._offset + index * nbytes, nbytes, _Copy(into))


class _Copy:
    def __init__(self, into: AnyArray) -> None:
        self._into = into

    def __call__(self, view: memoryview) -> None:
        self._into[:] = view


class MemorySourceOfClips:
    """Clips from arrays; picklable.

    Attributes
    ----------
    batches : list of int
        Number of requests in each call of `read`.
    """

    name: str | None = None
    left_out: tuple[str, ...] = ()

    def __init__(
        self, clips: Mapping[str, AnyArray], metas: Mapping[str, dict[str, Any]] | None = None
    ) -> None:
        self._arrays = {id_: np.ascontiguousarray(frames) for id_, frames in clips.items()}
        self._metas = dict(metas or {})
        self.content = CountingBytes(b"".join(map(np.ndarray.tobytes, self._arrays.values())))
        self.batches: list[int] = []
        self.is_closed = False

    def __reduce__(self) -> Any:
        return MemorySourceOfClips, (self._arrays, self._metas)

    def keys(self) -> Sequence[str]:
        return list(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __contains__(self, key: object) -> bool:
        return key in self._arrays

    def __getitem__(self, key: str) -> MemoryClip:
        offset = 0
        for id_, frames in self._arrays.items():
            if id_ == key:
                return MemoryClip(id_, frames, self._metas.get(id_, {}), self.content, offset)
            offset += frames.nbytes
        raise NotFoundError(f"no clip {key!r}")

    def read(
        self,
        requests: Iterable[tuple[str, FrameSelection]],
        *,
        out: Any = None,
        nthreads: int | None = None,
    ) -> AnyArray | list[AnyArray]:
        wanted = [(self[id_], selection) for id_, selection in requests]
        self.batches.append(len(wanted))
        return read_batch(wanted, out=out, nthreads=nthreads)

    def close(self) -> None:
        self.is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
