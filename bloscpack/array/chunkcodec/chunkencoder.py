"""Encoding of array chunks: the choice of map, predictor and coder of each plane.

Two steps choose. The entropy of bucketed residuals of a few blocks, without running a coder, picks
map and predictor. Trial encodings of these blocks pick the coder. A chunk that Blosc makes smaller
is a Blosc chunk; two of Blosc's blocks may be enough to know that it does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ..._ext.arraychunk import predict_into
from ...format.arraychunk import (
    FREE_EXPANSION,
    MAX_EXPANSION,
    MAX_PLANES,
    PLAN_START,
    WIDTHS,
    ArrayChunkHead,
    Coder,
    Plan,
    PlanePlan,
    Predictor,
)
from ...format.codec import CodecParams, encode
from ...types import AnyArray, BytesLike
from .chunkmaps import Mapped, distinct, maps_of

# 64 KiB is the knee: 16 KiB costs 1 to 8 % of the size, 256 KiB makes reads of a row slower.
BLOCK_NBYTES = 1 << 16
SLICES = 8  # of a block, if the slice before predicts the next
NSAMPLES = 4  # blocks that the choice of map and predictor looks at
SAMPLE_POINTS = 1 << 13  # of each of these blocks
SAMPLE_ROWS = 8  # at least, as the first row of a block is predicted from the left only
TRIAL_SHARE = 8  # the choice of coder encodes one block in eight, and at most NSAMPLES
RESIDUALS = 1 << 15  # that are counted
# A residual is frequent if it has this share of the sample, or saves as many bits.
MIN_SHARE, MIN_WORTH = 4e-4, 4e-3
# What takes longer to decode must be smaller. Byte planes of integers up to 2 bytes decode in half
# to two thirds of the time of quotients, and these in two thirds of that of bins.
NARROW = 2
NARROW_DEARNESS = {Coder.PLANES: 1.0, Coder.QUOTIENTS: 1.015, Coder.BINS: 1.03}
NEARLY = 1.02
WIDE_DEARNESS = {Coder.PLANES: 1.0, Coder.QUOTIENTS: 1.0, Coder.BINS: 1.003}
# The blocks that C-Blosc chooses for chunks of 1 MiB by default. Two of them are compressed to find
# out whether an array chunk is smaller, unless there are few.
BLOSC_BLOCK, MIN_BLOSC_BLOCKS = 1 << 17, 6
CLEARLY, EVEN = 0.95, 1.1
_ON_ROWS = (Predictor.NONE, Predictor.LEFT, Predictor.SECOND)
_ON_SLICES = (*_ON_ROWS, Predictor.UP, Predictor.LORENZO)
_AFTER_SLICE = (Predictor.NONE, Predictor.LEFT, Predictor.LORENZO)
_FLOAT_NAMES = ("float", "bfloat")

Shape = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ArrayItems:
    """Items of the chunks of an array; an `ItemEncoder`.

    Attributes
    ----------
    dtype : numpy.dtype
        Their type, of 1, 2, 4 or 8 bytes, or complex of two of these.
    row_shape : tuple of int
        Shape of the array as it is stored, without its first axis.
    """

    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]

    def encode(self, content: BytesLike, params: CodecParams) -> bytes:
        """Return an array chunk, or a Blosc chunk if that is not larger.

        Parameters
        ----------
        content : buffer
            Bytes of a chunk, in C order of its items. With one axis, they are rows of the array;
            else the axes are those of the chunk, and the last one that of the bytes of an item.
        params : CodecParams
            Parameters of the Blosc chunk.
        """
        view = memoryview(content)
        flat: BytesLike = view
        shape = self._shape_of(view.nbytes)
        if view.ndim > 1 and view.shape is not None:
            shape, flat = view.shape[:-1], view.cast("B")
        if params.rounding is not None:
            flat = params.rounding.apply(flat)
        return encode_chunk(flat, self.dtype, shape, replace(params, rounding=None, items=None))

    def _shape_of(self, nbytes: int) -> tuple[int, ...]:
        """Return the shape of `nbytes` of rows, or of items if these are not whole rows."""
        nitems = nbytes // self.dtype.itemsize
        row = prod(self.row_shape)
        return (nitems // row, *self.row_shape) if row and nitems % row == 0 else (nitems,)


def encode_chunk(
    view: BytesLike, dtype: np.dtype[Any], shape: Sequence[int], params: CodecParams
) -> bytes:
    """Return the items of a chunk as an array chunk, or as a Blosc chunk if that is not larger.

    Parameters
    ----------
    view : buffer
        Contiguous bytes of the items in C order.
    dtype : numpy.dtype
        Their type. Items that are not of 1, 2, 4 or 8 bytes (complex numbers are two of those)
        give a Blosc chunk.
    shape : sequence of int
        Items of the chunk on each axis.
    params : CodecParams
        Parameters of the Blosc chunk.
    """
    kind = kind_of(dtype)
    if kind is None or prod(shape) == 0:
        return encode(view, params)
    itemsize = dtype.itemsize
    if "complex" in dtype.name:
        itemsize, shape = itemsize // 2, (*shape, 2)
    geometry = geometry_of(shape)
    nplanes = prod(shape) // prod(geometry)
    is_big_endian = dtype.str[0] == ">"
    items = np.frombuffer(view, f">u{itemsize}" if is_big_endian else f"<u{itemsize}")
    items = items.astype(f"u{itemsize}", copy=False).reshape(*geometry, nplanes)
    found = _encode_planes(items, kind, geometry, is_big_endian)
    if found is not None and _is_clearly_smaller(found, view, params):
        return found
    blosc = encode(view, params)
    return blosc if found is None or len(blosc) <= len(found) else found


def _is_clearly_smaller(chunk: bytes, view: BytesLike, params: CodecParams) -> bool:
    """Return whether two of Blosc's blocks show that an array chunk is smaller.

    Blosc compresses each block by itself. The two are compared with their share of the chunk, which
    must be about as large in the rest of it.
    """
    view = memoryview(view)
    nblocks = -(-view.nbytes // BLOSC_BLOCK)
    if nblocks < MIN_BLOSC_BLOCKS:
        return False
    ends = np.frombuffer(ArrayChunkHead.unpack(chunk).ends, "<u4").astype("f8")
    sampled = 0.0
    for index in (nblocks // 4, 3 * nblocks // 4):
        low, high = index * BLOSC_BLOCK, (index + 1) * BLOSC_BLOCK
        share = np.interp(
            [low / view.nbytes, high / view.nbytes], np.linspace(0, 1, len(ends)), ends
        )
        size = float(share[1] - share[0])
        if size > CLEARLY * len(encode(view[low:high], params)):
            return False
        sampled += size
    return len(chunk) * 2 * BLOSC_BLOCK <= EVEN * sampled * view.nbytes


def kind_of(dtype: np.dtype[Any]) -> str | None:
    """Return ``u``, ``i`` or ``f`` for types that array chunks store, else None."""
    is_complex = "complex" in dtype.name  # those of ml_dtypes have no kind of their own
    size = dtype.itemsize // 2 if is_complex else dtype.itemsize
    if dtype.fields or dtype.subdtype or size not in WIDTHS:
        return None
    if is_complex or dtype.kind == "f" or dtype.name.startswith(_FLOAT_NAMES):
        return "f"
    if dtype.kind in "imM" or dtype.name.startswith("int"):
        return "i"
    return "u" if dtype.kind in "ub" or dtype.name.startswith("uint") else None


def geometry_of(shape: Sequence[int]) -> Shape:
    """Return slices, rows and points; a short last axis is that of the planes of a point."""
    sides = [side for side in shape if side > 1]
    if len(sides) > 1 and sides[-1] <= MAX_PLANES:
        sides.pop()
    sides = [1, 1, *sides]
    return prod(sides[:-2]), sides[-2], sides[-1]


def block_of(shape: Shape, point: int, *, deep: bool) -> Shape:
    """Return the sides of blocks of about 64 KiB; `deep` ones have several slices."""
    d, h, w = shape
    if w * point > BLOCK_NBYTES:
        return 1, 1, max(1, BLOCK_NBYTES // point)
    rows = max(1, BLOCK_NBYTES // (w * point))
    if rows >= h:
        return _even(d, rows // h), h, w
    depth = min(SLICES, d, rows) if deep else 1
    return _even(d, depth), _even(h, rows // depth), w


def _even(side: int, step: int) -> int:
    """Return a step of at most `step` (or `side`) that cuts a side into nearly equal parts."""
    return -(-side // -(-side // max(1, min(side, step))))


@dataclass(frozen=True, slots=True)
class _Choice:
    """A map and a predictor of one plane, and the size that is expected."""

    mapped: Mapped
    predictor: int
    size: float


def _encode_planes(items: AnyArray, kind: str, shape: Shape, is_big_endian: bool) -> bytes | None:
    """Return the chunk, or None if it is not smaller than the items."""
    nplanes, point = items.shape[-1], items.shape[-1] * items.itemsize
    if nplanes > MAX_PLANES:
        return None
    planes = []
    choices: list[_Choice] = []
    for index in range(nplanes):
        plane = np.ascontiguousarray(items[..., index])
        planes.append(plane)
        choices.append(_choose_map(plane, kind, shape, point, choices))
    deep = any(choice.predictor & Predictor.AFTER_SLICE for choice in choices)
    block = block_of(shape, point, deep=deep)
    plans, before = [], None
    for choice in choices:
        plans.append(_choose_coder(choice, before, shape, block, items.itemsize))
        before = choice.mapped.work
    plan = Plan(items.itemsize, shape, block, tuple(plans), is_big_endian)
    head = sum(len(p.pack(plan.itemsize)) + len(p.stored_dictionary) for p in plans)
    limit = items.nbytes - (PLAN_START + head + 4 * plan.nblocks)
    if limit <= 0:
        return None
    masks = [choice.mapped.mask for choice in choices]
    encoded = plan.kernel().encode(
        [_bytes(choice.mapped.work) for choice in choices],
        [None if mask is None else _bytes(mask) for mask in masks],
        [
            None if mask is None else _bytes(plane)
            for mask, plane in zip(masks, planes, strict=True)
        ],
        limit - 1,
    )
    if encoded is None:
        return None
    chunk = plan.pack(encoded[1], encoded[0])
    return chunk if plan.nbytes <= MAX_EXPANSION * len(chunk) + FREE_EXPANSION else None


def _bytes(array: AnyArray) -> memoryview:
    view: memoryview = np.ascontiguousarray(array).reshape(-1).view("u1").data
    return view


def _choose_map(
    plane: AnyArray, kind: str, shape: Shape, point: int, before: Sequence[_Choice]
) -> _Choice:
    """Return the map and predictor with the least estimated size."""
    best = None
    for mapped in maps_of(plane, kind):
        works = [(mapped.work, 0)]
        if before and before[-1].mapped.work.dtype == mapped.work.dtype:
            works.append((mapped.work - before[-1].mapped.work, int(Predictor.AFTER_PLANE)))
        for work, after_plane in works:
            bits, predictor = _choose_predictor(work, shape, point, is_signed=after_plane > 0)
            size = (bits / 8 * work.size + mapped.cost) * mapped.factor
            if best is None or size < best.size:
                best = _Choice(mapped, predictor | after_plane, size)
    if best is None:
        raise ValueError("an empty plane has no map")
    return best


def _choose_predictor(
    work: AnyArray, shape: Shape, point: int, *, is_signed: bool
) -> tuple[float, int]:
    """Return the least bits per item that are estimated, and the predictor."""
    found = []
    on_plane = _ON_SLICES if shape[1] > 1 else _ON_ROWS
    after_slice = _AFTER_SLICE if shape[1] > 1 else _AFTER_SLICE[:2]
    groups = [(False, on_plane[is_signed:])]  # differences of planes are predicted from the left
    if shape[0] > 1:
        groups.append((True, tuple(p | Predictor.AFTER_SLICE for p in after_slice)))
    for deep, predictors in groups:
        samples = _samples(work, _part_of(block_of(shape, point, deep=deep)))
        n = sum(sample.size for sample in samples)
        for predictor in predictors:
            bits = sum(_residuals(sample, predictor)[1] for sample in samples)
            found.append((bits / n, int(predictor)))
    return min(found)


def _samples(work: AnyArray, block: Shape) -> list[AnyArray]:
    """Return a few blocks, evenly spaced."""
    found = []
    for index in _sample_indices(work.shape, block):
        start, sides = Plan(1, work.shape, block, ()).block_place(index)
        place = tuple(slice(at, at + side) for at, side in zip(start, sides, strict=True))
        found.append(np.ascontiguousarray(work[place]))
    return found


def _part_of(block: Shape) -> Shape:
    """Return the sides of the part of a block that an estimate needs."""
    d, h, w = block
    if d == h == 1:
        return 1, 1, min(w, SAMPLE_POINTS)
    return d, min(h, max(SAMPLE_ROWS, SAMPLE_POINTS // (d * w))), w


def _sample_indices(shape: tuple[int, ...], block: Shape, most: int = NSAMPLES) -> list[int]:
    nblocks = prod(-(-side // step) for side, step in zip(shape, block, strict=True))
    steps = np.linspace(0, nblocks - 1, most + 2).astype(int)
    return sorted(set(steps[1:-1].tolist()))


def _residuals(block: AnyArray, predictor: int) -> tuple[AnyArray, float]:
    out = np.empty_like(block)
    d, h, w = block.shape
    bits = predict_into(_bytes(block), block.itemsize, d, h, w, predictor, _bytes(out))
    return out, bits


def _choose_coder(
    choice: _Choice, before: AnyArray | None, shape: Shape, block: Shape, itemsize: int
) -> PlanePlan:
    """Return the plan of a plane with the coder that makes a few blocks smallest."""
    work, after_plane = choice.mapped.work, choice.predictor & Predictor.AFTER_PLANE
    if after_plane and before is not None:
        work = work - before
    predictor = choice.predictor & ~Predictor.AFTER_PLANE
    samples = _samples(work, block)
    residuals = np.concatenate([_residuals(s, predictor)[0].reshape(-1) for s in samples])
    plain = PlanePlan(**choice.mapped.fields, predictor=predictor)
    values, counts = distinct(residuals[:: max(1, residuals.size // RESIDUALS)])

    def bins(k: int) -> PlanePlan:
        return replace(plain, coder=Coder.BINS, k=k, values=_frequent(values, counts, k))

    plan = Plan(itemsize, shape, block, ())
    indices = _sample_indices(shape, block, min(NSAMPLES, max(1, plan.nblocks // TRIAL_SHARE)))
    scale = work.size / sum(prod(plan.block_place(index)[1]) for index in indices)
    room = NSAMPLES * 8 * (BLOCK_NBYTES + (1 << 12)) * max(1, 8 // itemsize)
    data = [_bytes(work)]

    def size_of(trial: PlanePlan) -> float:
        kernel = Plan(itemsize, shape, block, (trial,)).kernel()
        encoded = kernel.encode(data, [None], [None], room, indices)
        stored = room if encoded is None else len(encoded[0])
        dearness = NARROW_DEARNESS if trial.width <= NARROW else WIDE_DEARNESS
        return (stored * scale + len(trial.values)) * dearness[Coder(trial.coder)]

    trials = [replace(plain, coder=Coder.PLANES), replace(plain, coder=Coder.QUOTIENTS), bins(2)]
    if choice.predictor and not after_plane:
        trials.append(replace(plain, coder=Coder.PLANES, predictor=Predictor.NONE))
    sizes = [size_of(trial) for trial in trials]
    if sizes[2] < NEARLY * min(sizes):  # other buckets may be better
        trials += [bins(k) for k in (1, 3) if (8 * plain.width - k + 1) << k <= 256]
        sizes += [size_of(trial) for trial in trials[len(sizes) :]]
    best = trials[min(range(len(sizes)), key=sizes.__getitem__)]
    return replace(best, predictor=best.predictor | after_plane)


def _frequent(values: AnyArray, counts: AnyArray, k: int) -> bytes:
    """Return residuals that deserve a token of their own, by the bits it saves."""
    width = values.itemsize
    room = 256 - ((8 * width - k + 1) << k)
    large = values >= values.dtype.type(2 << k) if 2 << k < 256**width else values < 0
    values, counts = values[large], counts[large]
    total = int(counts.sum()) or 1
    nbits = np.maximum(0, np.floor(np.log2(values.astype("f8"))).astype("i8") - k)
    worth = counts * nbits
    order = np.argsort(-worth, kind="stable")[:room]
    order = order[(counts[order] >= total * MIN_SHARE) | (worth[order] > total * MIN_WORTH)]
    return np.sort(values[order]).tobytes()
