"""Types and base classes that several modules share, and records of options."""

import os
from collections.abc import Callable, Mapping
from typing import (
    Any,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypedDict,
)

import numpy as np

AnyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
IntArray: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Path: TypeAlias = str | os.PathLike[str]
BytesLike: TypeAlias = bytes | bytearray | memoryview
Progress: TypeAlias = Callable[[int, int], object]
"""Called with the amount done and the total, which is -1 if unknown."""


class Updates(Protocol):
    """Progress bar in the style of tqdm."""

    def update(self, n: int, /) -> object:
        """Advance by an amount."""


ProgressOption: TypeAlias = Progress | Updates | bool | None


class Closeable(Protocol):
    """Object with a ``close`` method."""

    def close(self) -> None:
        """Close the object."""


class ClosedOnExit:
    """Base class of objects that the end of a ``with`` block closes."""

    __slots__ = ()

    def __enter__(self) -> Self:
        """Return the object, which the end of the block closes."""
        return self

    def __exit__(self: Closeable, *exc: object) -> None:
        """Close it."""
        self.close()


# Words that parameters take, for type checkers and editors; at run time each function checks them.
Mode: TypeAlias = Literal["r", "a"]
ArrayMode: TypeAlias = Literal["r", "a", "r+"]
Codec: TypeAlias = Literal["zstd", "lz4", "lz4hc", "blosclz", "zlib", "auto"]
Shuffle: TypeAlias = Literal["auto", "none", "byte", "bit"] | int
Access: TypeAlias = Literal["rows", "tiles", "series"]
FrameCodec: TypeAlias = Literal["lossless", "jpeg", "video"]
VideoEncoder: TypeAlias = Literal["h264", "h265", "vp9", "av1"]
VideoPackets: TypeAlias = Literal["copy", "recode"]
PictureCodec: TypeAlias = Literal["hevc", "h264", "av1"]
FramePreset: TypeAlias = Literal["fast", "small", "raw"]
Subsampling: TypeAlias = Literal["444", "422", "420"]
OnLostChunk: TypeAlias = Literal["raise", "fill", "skip"]
OnBadItem: TypeAlias = Literal["skip", "raise"]
FrameLayout: TypeAlias = Literal["thwc", "tchw", "cthw"]


class FrameOptions(TypedDict, total=False):
    """Options of the encoding of frames, as `bloscpack.frames.create` documents them."""

    codec: FrameCodec | None
    preset: FramePreset | None
    quality: int | None
    subsampling: Subsampling | None
    crf: float | None
    gop: int | None
    encoder: VideoEncoder | None


FRAME_DEFAULTS: Mapping[str, Any] = {
    "codec": "lossless",
    "preset": "fast",
    "quality": 90,
    "subsampling": "444",
    "crf": 18,
    "gop": 8,
    "encoder": "h264",
}


class StridedItems(NamedTuple):
    """Items of a chunk, as `numpy.ndarray` takes them: all in bytes but `shape`."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def span(self) -> tuple[int, int]:
        """Start of the first of them, and end of the last, in bytes."""
        ends = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(min(end, 0) for end in ends)
        return low, self.offset + sum(max(end, 0) for end in ends) + self.itemsize


class BlockRun(NamedTuple):
    """Adjacent blocks of a chunk.

    Attributes
    ----------
    first, stop : int
        The first block, and the one behind the last.
    low, high : int
        Their stored range, as positions in the chunk.
    """

    first: int
    stop: int
    low: int
    high: int
