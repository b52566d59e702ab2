"""Decoding alone: chunks of a lossless clip in memory, and their decoder."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

import bloscpack as bp
from bloscpack.frames.store import lossless
from bloscpack.frames.store.lossless import Filter, Geometry, Scheme
from bloscpack.media import image

Decode = Callable[[str, int], np.ndarray]


class BareClip:
    """The chunks of a lossless clip with their filters, one chunk for each frame."""

    def __init__(
        self, chunks: list[tuple[bytes, int]], shape: tuple[int, ...], dtype: np.dtype
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self._chunks = chunks
        self._geometry = Geometry.of(shape[1:], dtype.itemsize)

    @classmethod
    def encode(cls, frames: np.ndarray, scheme: Scheme) -> "BareClip":
        """Encode frames as a store does, on one thread."""
        return cls(list(lossless.encode_clip(frames, scheme, 1)), frames.shape, frames.dtype)

    @classmethod
    def read(cls, clip: bp.frames.StoreClip, content: memoryview) -> "BareClip":
        """Copy the chunks of a clip from the bytes of a file."""
        chunks = [
            (bytes(content[start : start + nbytes]), filters)
            for (start, nbytes), filters in zip(clip.chunk_extents(), clip._filters, strict=True)
        ]
        return cls(chunks, clip.shape, clip.dtype)

    @property
    def cbytes(self) -> int:
        """Stored bytes of all frames."""
        return sum(len(chunk) for chunk, _ in self._chunks)

    def decode(self, number: int) -> np.ndarray:
        """Return one frame, decoded with those it refers to."""
        reference = None
        if self._chunks[number][1] & Filter.TIME:
            reference = _bytes_of(self.decode(self._before(number)))
        frame = np.empty(self.shape[1:], self.dtype)
        self._decode(number, reference, frame)
        return frame

    def decode_first(self, count: int) -> np.ndarray:
        """Return the first frames, each decoded once, in order."""
        frames = np.empty((count, *self.shape[1:]), self.dtype)
        for number, frame in enumerate(frames):
            reference = None
            if self._chunks[number][1] & Filter.TIME:
                reference = _bytes_of(frames[self._before(number)])
            self._decode(number, reference, frame)
        return frames

    def _decode(self, number: int, reference: memoryview | None, frame: np.ndarray) -> None:
        chunk, filters = self._chunks[number]
        lossless.decode_chunk(chunk, filters, self._geometry, reference, _bytes_of(frame))

    def _before(self, number: int) -> int:
        """Return the frame that a frame of the clip refers to."""
        inside = number % lossless.GROUP_FRAMES
        return number - inside + lossless.reference_of(inside, self._chunks[number][1])


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def bare_frames(path: Path) -> Decode:
    """Return a function that decodes a frame of a store from memory to a new array."""
    with bp.frames.open(path) as store:
        first = store[store.keys()[0]]
        if first.codec == "image":
            shape = first.shape[1:]
            images = {key: store[key].read_images() for key in store}

            def decode_image(key: str, number: int) -> np.ndarray:
                frame = np.empty(shape, np.uint8)
                image.decode_into(images[key][number], frame)
                return frame

            return decode_image
        content = memoryview(path.read_bytes())
        clips = {key: BareClip.read(store[key], content) for key in store}
    return lambda key, number: clips[key].decode(number)
