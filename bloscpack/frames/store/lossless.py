"""The lossless frame codec: which filters suit a clip, and chunks from frames and back.

A chunk is the residuals of a frame, or of a few small ones, as a Blosc chunk. Which filters it has
stands beside it in the index. What suits a clip is found by trying on a sample of it: cameras,
animation, depth, masks and features differ more than any rule knows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from ..._ext import frame as _kernel
from ...exceptions import CodecError
from ...format.codec import (
    CHUNK_HEADER_SIZE,
    MAX_TYPESIZE,
    CodecParams,
    Shuffle,
    decode_into,
    encode,
)
from ...parallel.scratch import Scratch
from ...parallel.threads import map_ordered
from ...types import AnyArray, BytesLike

# Frames that refer to each other, none to more than 3 others; see `reference_of`.
GROUP_FRAMES = 8
PRESETS = ("fast", "small")

_MAX_CHANNELS = 4
_SAMPLE_NBYTES = 1 << 16
_SAMPLE_BANDS = 4
_MAX_TIME_PLACES = 8
# How much smaller a dearer way must be. Frames that refer to others cost a single read up to three
# more; sums along rows cost 20 us a frame of 320 x 240; long matches are slower than literals.
_WORTH_TIME = {"fast": 0.7, "small": 0.8}
_WORTH_LEFT = {"fast": 0.92, "small": 0.97}
_WORTH_MATCHES = 0.9
# Masks, of which nearly nothing is left, are read fast by Zstandard too.
_WORTH_ZSTD = 0.75
_TINY = 32


class Filter(IntFlag):
    """What was done to a frame before the codec, in this order; stored on disk.

    The meaning of each is in ``ext/frame.pyx`` and docs/formats/frames.md.
    """

    PLANES = _kernel.PLANES
    UP = _kernel.UP
    LEFT = _kernel.LEFT
    ZIGZAG = _kernel.ZIGZAG
    TIME = _kernel.TIME
    BITS = _kernel.BITS
    STRIDED = 0x40  # with TIME: which frame is referred to


ALL_FILTERS = sum(Filter)
# As plain numbers, which are ten times as fast.
TIME, _BITS, _STRIDED = int(Filter.TIME), int(Filter.BITS), int(Filter.STRIDED)


class Geometry(NamedTuple):
    """How the filters see a chunk: rows of pixels of channels of items."""

    rows: int
    width: int
    channels: int
    itemsize: int

    @classmethod
    def of(cls, shape: Sequence[int], itemsize: int) -> "Geometry":
        """Return that of an array of `shape`, none of whose lengths is 0.

        Up to 4 items along a last axis of three or more are channels; what stands before the last
        axis that is none are rows.
        """
        channels = 1
        if len(shape) >= 3 and shape[-1] <= _MAX_CHANNELS:
            *shape, channels = shape
        rows = 1
        for length in shape[:-1]:
            rows *= length
        return cls(rows, shape[-1] if shape else 1, channels, itemsize)


@dataclass(frozen=True, slots=True)
class Scheme:
    """How the frames of a clip are encoded.

    Attributes
    ----------
    params : CodecParams
        The codec of a frame by itself.
    filters : int
        Its filters.
    time : Scheme or None
        The codec and the filters, TIME among them, of a frame that refers to another; None if none
        does.
    """

    params: CodecParams
    filters: int = 0
    time: "Scheme | None" = None


def choose(frames: Sequence[AnyArray], preset: str) -> Scheme:
    """Return the scheme for a clip of these chunks, found by trying on a sample.

    Parameters
    ----------
    frames : sequence of ndarray
        Frames (or groups of small ones) of one shape and dtype, C-contiguous; not empty.
    preset : {"fast", "small"}
        LZ4, decoded fastest; or Zstandard.

    Notes
    -----
    Depends on the frames and the preset alone. About 64 KiB of one frame are looked at, and 16
    KiB of up to 32 others.
    """
    sample = _band(frames[len(frames) // 2])
    best, best_size = None, 0
    for scheme in _candidates(Geometry.of(sample.shape, sample.itemsize), sample.dtype, preset):
        size = _trial_size(sample, None, scheme)
        if preset == "fast" and _is_zstd(scheme) and size * _TINY > sample.nbytes:
            continue
        if best is None or size < best_size * _worth(scheme, best, preset):
            best, best_size = scheme, size
    if best is None:  # there is always a candidate
        raise ValueError(f"no way to encode {sample.dtype}")
    return replace(_fitted(best, frames[0]), time=_choose_time(frames, best, preset))


def _choose_time(frames: Sequence[AnyArray], alone: Scheme, preset: str) -> Scheme | None:
    """Return how frames refer to others, if that is worth it."""
    nplaces = min(_MAX_TIME_PLACES, len(frames) // 4)
    if not nplaces or frames[0].itemsize not in (1, 2, 4, 8):
        return None
    places = [len(frames) * (2 * k + 1) // (2 * nplaces) for k in range(nplaces)]
    bands = [_band(frames[place], _SAMPLE_NBYTES // 4) for place in places]
    alone_sizes = [_trial_size(band, None, alone) for band in bands]
    best, best_size = None, _WORTH_TIME[preset] * sum(alone_sizes)
    filters = int(_TIME_OF[preset]) | alone.filters & ~(Filter.UP | Filter.LEFT)
    # How often frames of a group refer so many back.
    distances = Counter(k - reference_of(k, filters) for k in range(1, GROUP_FRAMES))
    for params in dict.fromkeys((alone.params, _matches(preset, frames[0].itemsize))):
        scheme = Scheme(params, filters)
        size = sum(alone_sizes) / GROUP_FRAMES
        for back, weight in distances.items():
            for place, band, alone_size in zip(places, bands, alone_sizes, strict=True):
                reference = _band(frames[max(place - back, 0)], _SAMPLE_NBYTES // 4)
                trial = min(_trial_size(band, reference, scheme), alone_size)
                size += trial * weight / GROUP_FRAMES
        if size < best_size * (1.0 if best is None else _WORTH_MATCHES):
            best, best_size = scheme, size
    return None if best is None else _fitted(best, frames[0])


def encode_group(frames: Sequence[AnyArray], scheme: Scheme) -> Iterator[tuple[bytes, int]]:
    """Yield the chunk and the filters of each of up to `GROUP_FRAMES` frames that belong together.

    Without `Scheme.time` they may be any number.
    """
    key_size = 0
    for index, frame in enumerate(frames):
        if not index or scheme.time is None:
            chunk, filters = _encode(frame, None, scheme)
            key_size = len(chunk)
        else:
            reference = frames[reference_of(index, scheme.time.filters)]
            chunk, filters = _encode(frame, reference, scheme.time)
            if len(chunk) >= key_size:  # a cut, or the camera moves: alone it may be smaller
                alone = _encode(frame, None, scheme)
                if len(alone[0]) < len(chunk):
                    chunk, filters = alone
        yield chunk, filters


def encode_clip(
    frames: Sequence[AnyArray], scheme: Scheme, nthreads: int
) -> Iterator[tuple[bytes, int]]:
    """Yield the chunk and the filters of every frame, in order, encoded on `nthreads` threads."""

    def encode_at(first: int) -> list[tuple[bytes, int]]:
        group = [frames[k] for k in range(first, min(first + step, len(frames)))]
        return list(encode_group(group, scheme))

    step = 1 if scheme.time is None else GROUP_FRAMES
    for group in map_ordered(encode_at, range(0, len(frames), step), nthreads):
        yield from group


def reference_of(index: int, filters: int) -> int:
    """Return the frame of a group that frame `index` of it refers to, if it does.

    The nearest one of a tree in which every second, fourth or eighth frame of the group needs none
    of those between. With STRIDED the odd ones need none of those between them either, but for the
    first of the group; they refer to frames that are further away.
    """
    if not filters & _STRIDED:
        return index - (index & -index)
    half = index >> 1
    return index - 2 * (half & -half) if half else 0


def is_aligned(array: AnyArray) -> bool:
    """Return whether a contiguous array lies where the kernel may see it: numpy allows more."""
    address: int = array.__array_interface__["data"][0]
    return array.itemsize not in (2, 4, 8) or address % array.itemsize == 0


def decode_chunk(
    chunk: BytesLike, filters: int, geometry: Geometry, reference: BytesLike | None, out: memoryview
) -> None:
    """Decode a chunk into `out`, writable bytes of exactly its size, aligned to its items.

    Parameters
    ----------
    chunk : bytes-like
        As `encode_group` gave it; checked already against its digest, but trusted in nothing.
    filters : int
        Its filters.
    geometry : Geometry
        Of what it holds.
    reference : bytes-like or None
        The frame it refers to, where `filters` has TIME.
    out : memoryview of bytes
        Where the frame goes; overlaps the others nowhere.

    Raises
    ------
    CodecError
        The chunk does not decode to a frame of this form with these filters.
    """
    if not filters:
        decode_into(chunk, out)
        return
    nbytes = len(out)
    with Scratch(2 * nbytes if filters & _BITS else nbytes) as residuals:
        decode_into(chunk, residuals[:nbytes])
        if not _kernel.decode(residuals, reference, out, *geometry, _of_pixels(filters)):
            raise CodecError(f"filters {filters:#x} are not for {nbytes} bytes as {geometry}")


def _encode(frame: AnyArray, reference: AnyArray | None, scheme: Scheme) -> tuple[bytes, int]:
    raw = _bytes_of(frame)
    filters = scheme.filters
    if filters:
        residuals = bytearray(len(raw))
        base = None if reference is None else _bytes_of(reference)
        geometry = Geometry.of(frame.shape, frame.itemsize)
        if not _kernel.encode(raw, base, residuals, *geometry, _of_pixels(filters)):
            raise CodecError(f"filters {filters:#x} are not for {len(raw)} bytes as {geometry}")
        chunk = encode(residuals, scheme.params)
        if len(chunk) < len(raw) + CHUNK_HEADER_SIZE:
            return chunk, filters
    # Without filters what cannot be made smaller is at least read as it is.
    return encode(raw, scheme.params), 0


def _of_pixels(filters: int) -> int:
    """Return the filters that the kernel knows."""
    return filters & ~_STRIDED if filters & TIME else filters


def _bytes_of(array: AnyArray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _band(frame: AnyArray, nbytes: int = _SAMPLE_NBYTES) -> AnyArray:
    """Return bands of rows from all over a frame, of about `nbytes`, as one frame."""
    rows, width, channels, itemsize = Geometry.of(frame.shape, frame.itemsize)
    pixels = frame.reshape(rows, width, channels)
    count = max(1, nbytes // (_SAMPLE_BANDS * width * channels * itemsize))
    if _SAMPLE_BANDS * count >= rows:
        return pixels
    step = (rows - count) // (_SAMPLE_BANDS - 1)
    return np.concatenate([pixels[k * step : k * step + count] for k in range(_SAMPLE_BANDS)])


def _trial_size(sample: AnyArray, reference: AnyArray | None, scheme: Scheme) -> int:
    scheme = _fitted(scheme, sample)
    if scheme.params.codec == "lz4hc":  # as good for comparing, and faster
        scheme = replace(scheme, params=replace(scheme.params, clevel=3))
    return len(_encode(sample, reference, scheme)[0])


def _matches(preset: str, itemsize: int) -> CodecParams:
    """Return the codec of a preset for what repeats itself."""
    if preset == "fast":
        # Level 9 would be 1 to 2 % smaller, and take four times as long.
        return CodecParams("lz4hc", 5, Shuffle.BYTE, itemsize)
    if preset == "small":
        return CodecParams("zstd", 2, Shuffle.BYTE, itemsize)
    raise ValueError(f"preset must be one of {', '.join(PRESETS)}, not {preset!r}")


def _candidates(geometry: Geometry, dtype: np.dtype[Any], preset: str) -> Iterator[Scheme]:
    """Yield what to try on a clip, the cheapest to decode first."""
    channels, itemsize = geometry.channels, geometry.itemsize
    matches = _matches(preset, min(itemsize, MAX_TYPESIZE))
    # Shuffled by pixels, each channel has bytes of its own.
    typesize = min(itemsize * channels, MAX_TYPESIZE)
    yield Scheme(replace(matches, typesize=typesize))
    if itemsize > 1:
        yield Scheme(replace(matches, shuffle=Shuffle.BIT))
    zstd = _matches("small", min(itemsize, MAX_TYPESIZE))
    if preset == "fast":
        yield Scheme(replace(zstd, typesize=typesize))
    if dtype.kind == "b":
        yield Scheme(zstd, int(Filter.BITS))
    if itemsize not in (1, 2, 4, 8):
        return
    extra = Filter(0)
    if channels in (3, 4) and itemsize <= 2:
        extra |= Filter.PLANES
    else:
        matches = replace(matches, typesize=typesize)
    if itemsize > 1 and dtype.kind in "iu":
        extra |= Filter.ZIGZAG
    for predictor in (Filter.UP, Filter.UP | Filter.LEFT):
        yield Scheme(_residual(preset, matches), int(extra | predictor | _BITS_OF[preset]))
        yield Scheme(matches, int(extra | predictor))


# LZ4 does not know that small numbers are more frequent than others; as bit planes they repeat.
_BITS_OF = {"fast": Filter.BITS | Filter.ZIGZAG, "small": Filter(0)}
# Clips are read with strides, from any frame on: from odd ones in two thirds of the time, for 15 %
# more bytes.
_TIME_OF = {"fast": Filter.TIME | Filter.STRIDED, "small": Filter.TIME}


def _residual(preset: str, matches: CodecParams) -> CodecParams:
    """Return the codec of a preset for what does not repeat itself."""
    if preset == "fast":
        return CodecParams("lz4", 9, Shuffle.NONE, 1, residual=True)
    return replace(matches, clevel=1, residual=True)


def _is_zstd(scheme: Scheme) -> bool:
    return scheme.params.codec == "zstd"


def _worth(scheme: Scheme, best: Scheme, preset: str) -> float:
    """Return the part of the size of `best` that `scheme` must not exceed to be preferred."""
    worth = 1.0
    if scheme.filters & Filter.LEFT and not best.filters & Filter.LEFT:
        worth *= _WORTH_LEFT[preset]
    if not scheme.params.residual and best.params.residual:
        worth *= _WORTH_MATCHES
    if preset == "fast" and _is_zstd(scheme) and not _is_zstd(best):
        worth *= _WORTH_ZSTD
    return worth


# Each block of residuals has Huffman codes of its own: they should fit what they are for.
_RESIDUAL_BLOCK = 48 << 10
_MATCHES_BLOCK = 256 << 10
_MIN_BLOCK = 512


def _fitted(scheme: Scheme, frame: AnyArray) -> Scheme:
    """Return the scheme with blocks for frames like this one.

    They end with the planes, for LZ4 with those of bits, and hold a multiple of 8 items: C-Blosc
    leaves out the bit shuffle of others without a word.
    """
    params = scheme.params
    if scheme.filters & _BITS and not _is_zstd(scheme):
        planes = (
            Geometry.of(frame.shape, frame.itemsize).channels
            if scheme.filters & Filter.PLANES
            else 1
        )
        blocksize = max(_MIN_BLOCK, frame.nbytes // (8 * frame.itemsize * planes))
        return replace(scheme, params=replace(params, blocksize=min(blocksize, frame.nbytes)))
    target = _RESIDUAL_BLOCK if params.residual else _MATCHES_BLOCK
    nbytes = frame.nbytes
    if scheme.filters & Filter.PLANES:
        nbytes //= Geometry.of(frame.shape, frame.itemsize).channels
        if not params.residual and 2 * nbytes <= target:
            nbytes = frame.nbytes
    nblocks = max(1, round(nbytes / target))
    step = 8 * params.typesize
    blocksize = ceil(nbytes / nblocks / step) * step
    return replace(scheme, params=replace(params, blocksize=min(blocksize, frame.nbytes)))
