"""Frames that are kept exactly: how each clip is filtered and compressed, and back."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..codec import CodecParams, Shuffle, decode_into, encode
from ..storage.memory import as_bytes
from ..threads import map_ordered
from ..wire import BytesLike
from .format import FrameFormat

AnyArray = np.ndarray[Any, np.dtype[Any]]

# Filter flag, stored on disk: the frame is coded against an earlier one.
TIME = 0x80
PRESETS = ("fast", "small")


class Scheme(NamedTuple):
    """How the frames of a clip are coded."""

    params: CodecParams
    filter_id: int


def choose(frames: AnyArray, preset: str) -> Scheme:
    """Return how to code `frames`, or frames like them."""
    codec = "lz4" if preset == "fast" else "zstd"
    return Scheme(CodecParams(codec, 5, Shuffle.BYTE, min(frames.dtype.itemsize, 255)), 0)


def encode_clip(frames: AnyArray, scheme: Scheme, nthreads: int) -> Iterator[tuple[bytes, int]]:
    """Yield stored bytes and filter of each chunk of `frames`, in order."""
    group = FrameFormat.lossless(frames.dtype, frames.shape[1:]).group

    def code(start: int) -> tuple[bytes, int]:
        data = np.ascontiguousarray(frames[start : start + group]).view("u1").reshape(-1)
        return encode(as_bytes(data), scheme.params), scheme.filter_id

    return map_ordered(code, range(0, len(frames), group), nthreads)


def decode(
    view: BytesLike,
    filter_id: int,
    form: FrameFormat,
    out: AnyArray,
    reference: AnyArray | None,
) -> None:
    """Decode a chunk into `out`, a frame or the frames of a group."""
    decode_into(view, as_bytes(out.reshape(-1).view("u1")))
