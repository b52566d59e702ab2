"""The lossless frame codec: chooses filters for a clip, and encodes and decodes chunks.

A chunk holds the residuals of a frame, or of a few small ones, as a Blosc chunk; its filters are
stored in the index. Filters are chosen by trying them on a sample of the clip, as cameras,
animation, depth, masks and features differ more than any fixed rule covers.
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
    ARRAY_CHUNK_VERSION,
    CHUNK_HEADER_SIZE,
    MAX_TYPESIZE,
    CodecParams,
    Shuffle,
    decode_into,
    encode,
    uncompressed_content,
)
from ...parallel.imports import importing
from ...parallel.scratch import Scratch
from ...parallel.threads import map_ordered
from ...types import AnyArray, BytesLike

# Frames that refer to each other; reading one needs at most 3 others, see `reference_of`.
GROUP_FRAMES = 8
# Frames of 320 x 240 would need 3 to 4 % fewer bytes than "small" with an ideal coder and the
# median predictor of JPEG-LS, and 6 to 11 % with contexts of the neighbours. But that decodes one
# pixel after the other.
PRESETS = ("fast", "small")
# Packed residuals have at least one byte for as many bytes of a frame.
PACKED_EXPANSION = 32

_MAX_CHANNELS = 4
_SAMPLE_NBYTES = 1 << 16
_SAMPLE_BANDS = 4
_MAX_TIME_PLACES = 8
# Size, relative to a cheaper scheme, below which a costlier one is preferred. Frames that refer to
# others cost a single read up to three more: of packed ones, 3.6 times the time, and 1.6 times that
# of a clip with stride 2. Row sums cost 20 us per frame of 320 x 240; long matches are slower to
# decode than literals.
_WORTH_TIME = {"fast": 0.7, "packed": 0.65, "small": 0.8}
_WORTH_LEFT = {"fast": 0.92, "small": 0.97}
_WORTH_MATCHES = 0.9
# Masks compress to almost nothing, and then Zstandard decodes fast, too.
_WORTH_ZSTD = 0.75
_TINY = 32
_TINY_CLEVEL = 6  # longer matches are decoded faster, too
# Size, relative to filters and Blosc, below which array chunks are preferred, by the size of items.
# Zstandard decodes wide items at half the speed of array chunks, and bytes as fast.
_WORTH_ARRAY = {
    ("fast", 4): 0.5,
    ("fast", 8): 0.5,
    ("small", 2): 0.97,
    ("small", 4): 0.85,
    ("small", 8): 0.85,
}
_MIN_ARRAY_NBYTES = 1 << 16  # the plan of an array chunk takes up to 30 us to unpack
_ARRAY_SAMPLE_NBYTES = 1 << 17


class Filter(IntFlag):
    """Transforms applied to a frame before the codec, in this order; stored on disk.

    ``ext/frame.pyx`` and docs/formats/frames.md define each of them.
    """

    PLANES = _kernel.PLANES
    UP = _kernel.UP
    LEFT = _kernel.LEFT
    ZIGZAG = _kernel.ZIGZAG
    TIME = _kernel.TIME
    BITS = _kernel.BITS
    STRIDED = 0x40  # with TIME: selects which frame is referred to
    ARRAY = 0x80  # without the others: an array chunk
    PACKED = 0xA0  # both bits: the last filter, for items of one byte


# As plain ints, which are ten times as fast as IntFlag members.
TIME, _BITS, _STRIDED = int(Filter.TIME), int(Filter.BITS), int(Filter.STRIDED)
_ARRAY, _ARRAY_START = int(Filter.ARRAY), bytes([ARRAY_CHUNK_VERSION])
_PACKED = int(Filter.PACKED)


class Geometry(NamedTuple):
    """Layout of a chunk for the filters: rows of pixels of channels of items."""

    rows: int
    width: int
    channels: int
    itemsize: int

    @classmethod
    def of(cls, shape: Sequence[int], itemsize: int) -> "Geometry":
        """Return the geometry of an array of `shape`, all of whose lengths are positive.

        A last axis of up to 4 items, in an array of three or more axes, holds channels. The axes
        before the last axis that does not hold channels are rows.
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
    """Encoding of the frames of a clip."""

    params: CodecParams  # codec of a frame that does not refer to another
    filters: int = 0  # filters of such a frame
    # Codec and filters, including TIME, of a frame that refers to another; None if no frame of the
    # clip does.
    time: "Scheme | None" = None


def choose(frames: Sequence[AnyArray], preset: str) -> Scheme:
    """Return the scheme for a clip of these chunks, chosen by trials on a sample.

    `frames` (or groups of small ones) are C-contiguous and of one shape and dtype. The preset
    "fast" packs bits or is LZ4, decoded fastest; "small" is Zstandard. The result depends on both
    alone. The sample is about 64 KiB of one frame and 16 KiB each of up to 32 others.
    """
    sample = _band(frames[len(frames) // 2])
    best, best_size = None, 0
    for scheme in _candidates(Geometry.of(sample.shape, sample.itemsize), sample.dtype, preset):
        size = _trial_size(sample, None, scheme)
        if preset == "fast" and _is_zstd(scheme) and size * _TINY > sample.nbytes:
            continue
        if best is None or size < best_size * _worth(scheme, best, preset):
            best, best_size = scheme, size
    if best is None:  # cannot happen: there is always a candidate
        raise ValueError(f"no scheme encodes {sample.dtype}")
    if _is_zstd(best) and not best.params.residual and best_size * _TINY < sample.nbytes:
        best = replace(best, params=replace(best.params, clevel=_TINY_CLEVEL))
    scheme = replace(_fit_blocks(best, frames[0]), time=_choose_time(frames, best, preset))
    return _choose_array(frames, scheme, preset)


def _choose_array(frames: Sequence[AnyArray], scheme: Scheme, preset: str) -> Scheme:
    """Return the scheme of array chunks if they are worth their costs, else `scheme`."""
    frame = frames[0]
    worth = _WORTH_ARRAY.get((preset, frame.itemsize))
    if worth is None or frame.nbytes < _MIN_ARRAY_NBYTES:
        return scheme
    with importing:
        from ...array.chunkcodec.chunkencoder import ArrayItems, kind_of

    if kind_of(frame.dtype) is None:
        return scheme
    # The codec is that of the Blosc chunks that take the place of larger array chunks.
    items = ArrayItems(frame.dtype, frame.shape[1:])
    array = Scheme(replace(_matches("small", frame.itemsize), items=items), _ARRAY)
    count = 1 if scheme.time is None else GROUP_FRAMES
    start = len(frames) // 2 // count * count
    group = [_middle(each) for each in frames[start : start + count]]

    def nbytes(scheme: Scheme) -> int:
        return sum(len(chunk) for chunk, _ in encode_group(group, scheme))

    fitted = _fit_blocks(scheme, group[0])
    if scheme.time is not None:
        fitted = replace(fitted, time=_fit_blocks(scheme.time, group[0]))
    return array if nbytes(array) < worth * nbytes(fitted) else scheme


def _middle(frame: AnyArray) -> AnyArray:
    """Return the middle of a frame on its first axis, about `_ARRAY_SAMPLE_NBYTES`."""
    count = max(1, _ARRAY_SAMPLE_NBYTES * len(frame) // frame.nbytes)
    start = max(0, len(frame) - count) // 2
    return frame[start : start + count]


def _choose_time(frames: Sequence[AnyArray], alone: Scheme, preset: str) -> Scheme | None:
    """Return the scheme of frames that refer to others, or None if it saves too little."""
    nplaces = min(_MAX_TIME_PLACES, len(frames) // 4)
    if not nplaces or frames[0].itemsize not in (1, 2, 4, 8):
        return None
    places = [len(frames) * (2 * k + 1) // (2 * nplaces) for k in range(nplaces)]
    bands = [_band(frames[place], _SAMPLE_NBYTES // 4) for place in places]
    alone_sizes = [_trial_size(band, None, alone) for band in bands]
    worth = _WORTH_TIME["packed" if is_packed(alone.filters) else preset]
    best, best_size = None, worth * sum(alone_sizes)
    for scheme in _time_candidates(alone, preset, frames[0].itemsize):
        # Number of frames of a group that refer back by each distance.
        distances = Counter(k - reference_of(k, scheme.filters) for k in range(1, GROUP_FRAMES))
        size = sum(alone_sizes) / GROUP_FRAMES
        for back, weight in distances.items():
            for place, band, alone_size in zip(places, bands, alone_sizes, strict=True):
                reference = _band(frames[max(place - back, 0)], _SAMPLE_NBYTES // 4)
                trial = min(_trial_size(band, reference, scheme), alone_size)
                size += trial * weight / GROUP_FRAMES
        is_cheap = best is None or is_packed(scheme.filters)
        if size < best_size * (1.0 if is_cheap else _WORTH_MATCHES):
            best, best_size = scheme, size
    return None if best is None else _fit_blocks(best, frames[0])


def _time_candidates(alone: Scheme, preset: str, itemsize: int) -> Iterator[Scheme]:
    """Yield the schemes to try on frames that refer to others, the cheapest to decode first."""
    filters = alone.filters & ~(Filter.UP | Filter.LEFT)
    if is_packed(filters):
        # They are decoded so fast that references further away, with STRIDED, do not pay.
        yield Scheme(alone.params, filters | TIME)
        yield Scheme(alone.params, filters | TIME | int(Filter.UP))
        filters = filters & ~_PACKED | int(_BITS_OF[preset])
    else:
        yield Scheme(alone.params, filters | int(_TIME_OF[preset]))
    matches = _matches(preset, itemsize)
    if matches != alone.params:
        yield Scheme(matches, filters | int(_TIME_OF[preset]))


def encode_group(frames: Sequence[AnyArray], scheme: Scheme) -> Iterator[tuple[bytes, int]]:
    """Yield the chunk and the filters of each of up to `GROUP_FRAMES` frames of one group.

    Without `Scheme.time` there may be any number of frames.
    """
    key_size = 0
    for index, frame in enumerate(frames):
        if not index or scheme.time is None:
            chunk, filters = _encode(frame, None, scheme)
            key_size = len(chunk)
        else:
            reference = frames[reference_of(index, scheme.time.filters)]
            chunk, filters = _encode(frame, reference, scheme.time)
            if len(chunk) >= key_size:  # after a cut or a camera move, it may be smaller alone
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
    """Return the frame of a group that frame `index` refers to.

    References form a tree: a reader of every second, fourth or eighth frame of the group needs none
    of the frames in between, because each frame refers to the nearest frame that allows this. With
    STRIDED, odd frames need none of the frames between them either, except the first of the group;
    they refer to frames that are further away.
    """
    if not filters & _STRIDED:
        return index - (index & -index)
    half = index >> 1
    return index - 2 * (half & -half) if half else 0


def is_packed(filters: int) -> bool:
    """Return whether residuals are packed, 8-bit items each in as few bits as needed."""
    return filters & _PACKED == _PACKED


def is_aligned(array: AnyArray) -> bool:
    """Return whether a contiguous array is aligned to its items; numpy does not guarantee it."""
    address: int = array.__array_interface__["data"][0]
    return array.itemsize not in (2, 4, 8) or address % array.itemsize == 0


def decode_chunk(
    chunk: BytesLike, filters: int, geometry: Geometry, reference: BytesLike | None, out: memoryview
) -> None:
    """Decode a chunk into `out`, writable bytes of exactly its size, aligned to its items.

    The digest of the chunk has been checked, but the content is not trusted. `reference` is the
    frame that it refers to, if `filters` has TIME. `out` must not overlap the other buffers.
    """
    is_array = chunk[:1] == _ARRAY_START
    if is_array != (filters == _ARRAY):
        kind = "an array chunk" if is_array else "a Blosc chunk"
        raise CodecError(f"filters {filters:#x} are not for {kind}")
    if is_array or not filters:
        decode_into(chunk, out)
        return
    nbytes = len(out)
    flags = _pixel_filters(filters)
    if is_packed(filters):
        rows, width, channels, itemsize = geometry
        packed = uncompressed_content(chunk)
        if packed is None or itemsize != 1:
            is_decoded = False
        else:
            is_decoded = _kernel.unpack(packed, reference, out, rows, width, channels, flags)
    else:
        with Scratch(2 * nbytes if filters & _BITS else nbytes) as residuals:
            decode_into(chunk, residuals[:nbytes])
            is_decoded = _kernel.decode(residuals, reference, out, *geometry, flags)
    if not is_decoded:
        content = f"{len(chunk)} bytes packed" if is_packed(filters) else "residuals"
        raise CodecError(
            f"filters {filters:#x} are not for {nbytes} bytes as {geometry} from {content}"
        )


def _encode(frame: AnyArray, reference: AnyArray | None, scheme: Scheme) -> tuple[bytes, int]:
    raw = _bytes_of(frame)
    filters = scheme.filters
    if filters == _ARRAY:
        chunk = encode(raw, scheme.params)
        return chunk, _ARRAY if chunk[0] == ARRAY_CHUNK_VERSION else 0
    if filters:
        residuals = bytearray(len(raw))
        base = None if reference is None else _bytes_of(reference)
        geometry = Geometry.of(frame.shape, frame.itemsize)
        flags = _pixel_filters(filters)
        if not _kernel.encode(raw, base, residuals, *geometry, flags):
            raise CodecError(f"filters {filters:#x} are not for {len(raw)} bytes as {geometry}")
        content: BytesLike | None = residuals
        if is_packed(filters):
            content = _kernel.pack(residuals, *geometry[:3], flags)
        if content is None:
            raise CodecError(f"filters {filters:#x} are not for {geometry}")
        chunk = encode(content, scheme.params)
        if len(chunk) < len(raw) + CHUNK_HEADER_SIZE:
            return chunk, filters
    # Without filters, incompressible data are at least fast to read.
    return encode(raw, scheme.params), 0


def _pixel_filters(filters: int) -> int:
    """Return the filters that the kernel takes as flags."""
    if is_packed(filters):
        filters &= ~_PACKED
    return filters & ~_STRIDED if filters & TIME else filters


def _bytes_of(array: AnyArray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _band(frame: AnyArray, nbytes: int = _SAMPLE_NBYTES) -> AnyArray:
    """Return bands of rows from the whole frame, about `nbytes` in total, as one frame."""
    rows, width, channels, itemsize = Geometry.of(frame.shape, frame.itemsize)
    pixels = frame.reshape(rows, width, channels)
    count = max(1, nbytes // (_SAMPLE_BANDS * width * channels * itemsize))
    if _SAMPLE_BANDS * count >= rows:
        return pixels
    step = (rows - count) // (_SAMPLE_BANDS - 1)
    return np.concatenate([pixels[k * step : k * step + count] for k in range(_SAMPLE_BANDS)])


def _trial_size(sample: AnyArray, reference: AnyArray | None, scheme: Scheme) -> int:
    scheme = _fit_blocks(scheme, sample)
    if scheme.params.codec == "lz4hc":  # lz4 ranks schemes as well, and is faster
        scheme = replace(scheme, params=replace(scheme.params, clevel=3))
    return len(_encode(sample, reference, scheme)[0])


def _matches(preset: str, itemsize: int) -> CodecParams:
    """Return the codec of a preset for repetitive data."""
    if preset == "fast":
        # Level 9 would be 1 to 2 % smaller, but take four times as long.
        return CodecParams("lz4hc", 5, Shuffle.BYTE, itemsize)
    if preset == "small":
        return CodecParams("zstd", 2, Shuffle.BYTE, itemsize)
    raise ValueError(f"preset must be one of {', '.join(PRESETS)}, not {preset!r}")


def _candidates(geometry: Geometry, dtype: np.dtype[Any], preset: str) -> Iterator[Scheme]:
    """Yield the schemes to try on a clip, the cheapest to decode first."""
    channels, itemsize = geometry.channels, geometry.itemsize
    matches = _matches(preset, min(itemsize, MAX_TYPESIZE))
    # When whole pixels are shuffled, the bytes of each channel are separate.
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
        if preset == "fast" and itemsize == 1:
            yield Scheme(_UNCOMPRESSED, int(extra | predictor | Filter.PACKED))
        else:
            yield Scheme(_residual(preset, matches), int(extra | predictor | _BITS_OF[preset]))
        yield Scheme(matches, int(extra | predictor))


# Codec of packed residuals. They do not repeat.
_UNCOMPRESSED = CodecParams("lz4", 0, Shuffle.NONE, 1, residual=True)
# LZ4 has no entropy coder, so small numbers only compress if their bit planes repeat.
_BITS_OF = {"fast": Filter.BITS | Filter.ZIGZAG, "small": Filter(0)}
# Clips are read with a stride from any frame on. STRIDED reads from odd frames take two thirds of
# the time, for 15 % more bytes.
_TIME_OF = {"fast": Filter.TIME | Filter.STRIDED, "small": Filter.TIME}


def _residual(preset: str, matches: CodecParams) -> CodecParams:
    """Return the codec of a preset for residuals, which do not repeat."""
    if preset == "fast":
        return CodecParams("lz4", 9, Shuffle.NONE, 1, residual=True)
    return replace(matches, clevel=1, residual=True)


def _is_zstd(scheme: Scheme) -> bool:
    return scheme.params.codec == "zstd"


def _worth(scheme: Scheme, best: Scheme, preset: str) -> float:
    """Return the fraction of the size of `best` below which `scheme` is preferred."""
    worth = 1.0
    if scheme.filters & Filter.LEFT and not best.filters & Filter.LEFT:
        worth *= _WORTH_LEFT[preset]
    if not scheme.params.residual and best.params.residual:
        worth *= _WORTH_MATCHES
    if preset == "fast" and _is_zstd(scheme) and not _is_zstd(best):
        worth *= _WORTH_ZSTD
    return worth


# Each block of residuals has its own Huffman codes, so blocks should match parts of similar data.
_RESIDUAL_BLOCK = 48 << 10
_MATCHES_BLOCK = 256 << 10
_MIN_BLOCK = 512


def _fit_blocks(scheme: Scheme, frame: AnyArray) -> Scheme:
    """Return the scheme with a block size that suits frames like this one.

    Blocks end at the ends of planes (of bit planes for LZ4) and hold a multiple of 8 items, because
    C-Blosc silently skips the bit shuffle of other sizes.
    """
    params = scheme.params
    if is_packed(scheme.filters):
        return scheme
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
