"""Records of a chunk: frames encoded as JPEG and decoded, on several threads."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...plugin import (
    ByteSource,
    ErrorsAt,
    FormatError,
    Piece,
    TruncatedError,
    fetch,
    image,
    map_ordered,
    resolve_nthreads,
)
from ..utils import img_to_jpeg_bytes, jpeg_bytes_to_img
from .format import ImgInfo, check_jpeg, frame_info

# Cost of encoding or decoding a stored byte of a JPEG relative to Blosc; scales the number of
# threads. A byte stands for about 7 pixels, each of which takes 5 times as long to encode, and 7
# to decode.
_WORK_PER_STORED_BYTE = 50
_WORK_PER_PIXEL_BYTE = 5


def read_records(
    source: ByteSource,
    id_: str,
    wanted: Sequence[tuple[int, Any]],
    decoder: Callable[[bytes], Any],
) -> list[Any]:
    """Decode frames of an item from its data file; `id_` is for messages.

    `wanted` has the ordinal and place of each frame. GulpIO2's own decoder runs in threads, any
    other in order in the calling thread.
    """

    def label(k: int) -> tuple[str]:
        return (f"item {id_!r:.80}, frame {numbers[k]}",)

    numbers = [number for number, _ in wanted]
    infos: list[ImgInfo] = []
    with ErrorsAt(lambda: label(len(infos))):
        for _, triplet in wanted:
            infos.append(frame_info(triplet))
    _check_ends(id_, numbers, infos, source.size())
    in_threads = decoder is jpeg_bytes_to_img
    frames: list[Any] = [None] * len(infos)
    budget = _Budget(id_, source.size(), len(infos), len(set(numbers)))

    def decoded(k: int, data: bytes) -> Any:
        with ErrorsAt(label, k):
            return decoder(data)

    def piece(k: int) -> Piece:
        info = infos[k]

        def decode(record: memoryview) -> None:
            data = bytes(record[: len(record) - info.pad])
            frames[k] = decoded(k, data) if in_threads else data
            budget.spend(frames[k].nbytes if in_threads else len(data))

        return Piece(source, info.loc, info.length, decode)

    work = _WORK_PER_STORED_BYTE * sum(info.length for info in infos) if in_threads else 0
    fetch([piece(k) for k in range(len(infos))], nthreads=None, nbytes=work)
    if in_threads:
        return frames
    return [decoded(k, data) for k, data in enumerate(frames)]


def _check_ends(id_: str, numbers: list[int], infos: list[ImgInfo], size: int) -> None:
    for number, info in zip(numbers, infos, strict=True):
        if info.loc + info.length > size:
            raise TruncatedError(
                f"item {id_!r:.80}, frame {number}: its record ends at byte "
                f"{info.loc + info.length}, the file has {size}",
                offset=info.loc,
            )


class _Budget:
    """Memory limit for the frames of one call: what their file can hold without shared records.

    A frame that is selected several times counts once.
    """

    def __init__(self, id_: str, size: int, nframes: int, distinct: int) -> None:
        self._id = id_
        repeats = -(-nframes // distinct) if distinct else 1
        self._left = (image.MAX_NBYTES + image.MAX_EXPANSION * size) * repeats

    def spend(self, nbytes: int) -> None:
        """Count the bytes of a frame; concurrent calls may miss some."""
        self._left -= nbytes
        if self._left < 0:
            raise FormatError(
                f"item {self._id!r:.80}: its frames take far more memory than the file can hold"
            )


def encode_frame(frame: Any) -> bytes:
    """Encode a frame as JPEG; bytes of a JPEG are returned unchanged."""
    if not isinstance(frame, bytes | bytearray | memoryview):
        return _encoder()(frame)
    check_jpeg(frame)
    return bytes(frame)


def _encoder() -> Callable[[Any], bytes]:
    """Return the encoder of frames: ``fileio.img_to_jpeg_bytes``.

    Programs replace it there, to store frames with other settings or unchanged.
    """
    return getattr(sys.modules.get("bloscpack.gulp.fileio"), "img_to_jpeg_bytes", img_to_jpeg_bytes)


def encode_frames(frames: Iterable[Any]) -> Iterator[bytes]:
    """Encode frames as JPEG, on as many threads as the work justifies.

    An encoder set by the caller runs in order, in the calling thread.
    """
    if _encoder() is not img_to_jpeg_bytes:
        return map(encode_frame, frames)
    if not isinstance(frames, Sequence | np.ndarray):
        frames = list(frames)
    work = sum(getattr(frame, "nbytes", 0) for frame in frames) * _WORK_PER_PIXEL_BYTE
    return map_ordered(encode_frame, frames, resolve_nthreads(None, work))
