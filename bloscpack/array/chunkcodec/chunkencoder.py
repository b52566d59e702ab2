"""Encoding of array chunks: the choice of map, predictor and coder of each plane.

Two steps choose. The entropy of bucketed residuals of a few windows, without running a coder, picks
map and predictor. Trial encodings of a few blocks pick the coder. A chunk that Blosc makes smaller
is a Blosc chunk; Blosc encodes all of it only if it may.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..._ext.arraychunk import bins_of_blocks, entropy_of_bytes, estimate_predictors
from ...format.arraychunk import (
    FREE_EXPANSION,
    MAX_EXPANSION,
    WIDTHS,
    Coder,
    Plan,
    PlanePlan,
    Predictor,
)
from ...format.codec import CodecParams, Shuffle, encode
from ...types import AnyArray, BytesLike
from .chunkmaps import Boxes, Candidate, Mapped, Shape, bytes_of, maps_of

# 16 KiB costs 1 to 8 % of the size, 256 KiB makes reads of a part slower. Blosc takes longer for
# rows of narrow items, so their blocks can be larger, but not for tiles.
BLOCK_NBYTES = {1: 1 << 17, 2: 1 << 17, 4: 1 << 16, 8: 1 << 16}
TILE_BLOCK_NBYTES = 1 << 16
# A longer last axis has no planes of its own: each takes a choice, and has a small part of a block.
MOST_PLANES = 8
SLICES = 8  # of a block, if the slice before predicts the next
# Windows pick map and predictor.
NWINDOWS, FIRST_WINDOWS, FIRST_MARGIN, MAPS_MARGIN = 8, 2, 1.1, 1.2
RIVAL_MARGIN = 1.03  # predictors that the trial blocks decide on, too
WINDOW_POINTS = 1 << 10
WINDOW_SLICES, WINDOW_ROWS, WINDOW_WIDTH = 2, 8, 256
# The choice of coder encodes half of one block in eight, and at most of TRIAL_BLOCKS.
TRIAL_SHARE = 8
TRIAL_BLOCKS, TRIAL_ROWS = 2, 8
RESIDUALS = 1 << 12  # that are counted
# What takes longer to decode must be smaller. Byte planes of integers up to 2 bytes decode in half
# to two thirds of the time of quotients, and these in two thirds of that of bins.
NARROW = 2
NARROW_DEARNESS: dict[int, float] = {Coder.PLANES: 1.0, Coder.QUOTIENTS: 1.015, Coder.BINS: 1.06}
WIDE_DEARNESS: dict[int, float] = {Coder.PLANES: 1.0, Coder.QUOTIENTS: 1.0, Coder.BINS: 1.005}
# Array chunks may take several times as long to decode as Blosc chunks, so they must be smaller.
WORTH = 0.96
# Blosc does not encode all of a chunk that by the trials is smaller by this factor. What repeats
# is smaller in all of a chunk than in the trials.
SURE, SURE_IF_REPEATING, REPEATING = 0.96, 0.7, 0.2
DRIFT = 1.25  # how much larger all of a chunk may be than the trials, as it is for Blosc too
VERY_SMALL = 64  # what Blosc makes smaller by this factor, it encodes in no time
HOPELESS, HOPELESS_BITS = 1.0, 1.3
# Large blocks and a higher level save a tenth or more of what Blosc makes smaller by this factor.
MOSTLY_REPEATS, REPEATS_CLEVEL, REPEATS_BLOCK_NBYTES = 32, 5, 1 << 18
# A chunk gets them at once, without trials, if in pieces of it so few items differ from the point
# before.
PIECES, PIECE_ITEMS, MAX_CHANGES = 8, 1 << 10, 0.02
# Items of 4 and 8 bytes may repeat as a whole if fewer of some items are distinct.
REPEATS_ITEMS, REPEATS_DISTINCT = 1 << 11, 0.8
MIN_SCALE = 3.0  # points of a chunk for each point of the trials
# Byte planes are tried if their entropy is this near to that of bins, or if Blosc gets as near.
PLANES_MARGIN, MATCHES_PAY = 1.08, 1.08
NEVER, LATER = 255, 7  # streams before matches are tried, if nothing repeats in the trials
REPEATS, SURE_REPEATS = 0.96, 0.7  # of the entropy of its bytes, if Blosc finds matches
# Numbers of explicit bits of coder 2, by the width of integers.
_BINS_OF = {
    width: tuple(k for k in (1, 2, 3) if (8 * width - k + 1) << k <= 256) for width in WIDTHS
}
# As numbers: operators of `IntFlag` take longer than all else that is done for a predictor.
_AFTER_PLANE, _AFTER_SLICE = int(Predictor.AFTER_PLANE), int(Predictor.AFTER_SLICE)
_ON_ROWS = (int(Predictor.NONE), int(Predictor.LEFT), int(Predictor.SECOND))
_ON_SLICES = (*_ON_ROWS, int(Predictor.UP), int(Predictor.LORENZO))
_BETWEEN_SLICES = tuple(
    predictor | _AFTER_SLICE
    for predictor in (int(Predictor.NONE), int(Predictor.LEFT), int(Predictor.LORENZO))
)
# Third differences, over two axes: for smooth grids of 8 bytes, such as those of coordinates.
_THIRD = int(Predictor.SECOND) | _AFTER_SLICE
_FLOAT_NAMES = ("float", "bfloat")


@dataclass(frozen=True, slots=True)
class ArrayItems:
    """Items of the chunks of an array; an `ItemEncoder`."""

    dtype: np.dtype[Any]  # their type, of 1, 2, 4 or 8 bytes, or complex of two of these
    row_shape: tuple[int, ...]  # shape of the array as it is stored, without its first axis
    access: str | None = None  # "series" if readers take these along the first axis of a grid

    def encode(self, content: BytesLike, params: CodecParams) -> bytes:
        """Return an array chunk, or a Blosc chunk unless that is much larger.

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
        access = "rows"
        if view.ndim > 1 and view.shape is not None:
            shape, flat = view.shape[:-1], view.cast("B")
            access = self.access or "tiles"
        if params.rounding is not None:
            flat = params.rounding.apply(flat)
        return encode_chunk(flat, self.dtype, shape, _of_blosc(params), access=access)

    def _shape_of(self, nbytes: int) -> tuple[int, ...]:
        """Return the shape of `nbytes` of rows, or of items if these are not whole rows."""
        nitems = nbytes // self.dtype.itemsize
        row = prod(self.row_shape)
        return (nitems // row, *self.row_shape) if row and nitems % row == 0 else (nitems,)


@lru_cache(maxsize=16)
def _of_blosc(params: CodecParams) -> CodecParams:
    """Return the parameters of Blosc chunks of items that are rounded already."""
    return replace(params, rounding=None, items=None)


def encode_chunk(
    view: BytesLike,
    dtype: np.dtype[Any],
    shape: Sequence[int],
    params: CodecParams,
    *,
    access: str = "rows",
) -> bytes:
    """Return the items as an array chunk if it is much smaller than a Blosc chunk, else as that.

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
    access : {"rows", "tiles", "series"}
        How the chunk will be read, which decides on the shape of blocks.
    """
    kind = kind_of(dtype)
    if kind is None or prod(shape) == 0:
        return encode(view, params)
    itemsize = dtype.itemsize
    if _is_complex(dtype):
        itemsize, shape = itemsize // 2, (*shape, 2)
    geometry = geometry_of(shape)
    nplanes = prod(shape) // prod(geometry)
    is_big_endian = dtype.str[0] == ">"
    items = np.frombuffer(view, f">u{itemsize}" if is_big_endian else f"<u{itemsize}")
    if _mostly_repeats(items, nplanes):
        chunk = _encode_repeats(view, params)
        if len(chunk) * MOSTLY_REPEATS <= len(view):
            return chunk
    items = items.astype(f"u{itemsize}", copy=False).reshape(*geometry, nplanes)
    choice, params = _choose(items, kind, params, is_big_endian=is_big_endian, access=access)
    if choice is None:
        return _encode_blosc(view, params)
    expected = choice.blosc_nbytes
    if expected is not None and choice.nbytes > HOPELESS * expected:
        return _encode_blosc(view, params)
    sure = 0.0
    if expected is not None and expected * VERY_SMALL > len(view):
        sure = expected * (SURE if expected > REPEATING * len(view) else SURE_IF_REPEATING)
    if choice.nbytes > sure:
        blosc = _encode_blosc(view, params)
        return _encode_items(items, choice, int(WORTH * len(blosc))) or blosc
    found = _encode_items(items, choice, len(view))
    if found is not None and len(found) <= DRIFT * SURE * (expected or 0.0):
        return found
    blosc = _encode_blosc(view, params)
    return blosc if found is None or WORTH * len(blosc) < len(found) else found


def _encode_blosc(view: BytesLike, params: CodecParams) -> bytes:
    """Return a Blosc chunk, of large blocks and a high level if its content mostly repeats."""
    chunk = encode(view, params)
    if len(chunk) * MOSTLY_REPEATS > len(view):
        return chunk
    return min(chunk, _encode_repeats(view, params), key=len)


def _encode_repeats(view: BytesLike, params: CodecParams) -> bytes:
    # Level 5 takes half as long again for bytes, and saves nothing.
    clevel = max(params.clevel, REPEATS_CLEVEL - (params.typesize == 1))
    return encode(view, replace(params, clevel=clevel, blocksize=REPEATS_BLOCK_NBYTES))


def _mostly_repeats(items: AnyArray, nplanes: int) -> bool:
    """Return whether in pieces of a chunk nearly all items are those of the point before."""
    if items.size < PIECES * PIECE_ITEMS:
        return False
    pieces = items[: items.size // PIECES * PIECES].reshape(PIECES, -1)[:, :PIECE_ITEMS]
    changes = int(np.count_nonzero(pieces[:, nplanes:] != pieces[:, :-nplanes]))
    return changes <= MAX_CHANGES * pieces.size


@lru_cache(maxsize=64)
def _is_complex(dtype: np.dtype[Any]) -> bool:
    return "complex" in dtype.name  # those of ml_dtypes have no kind of their own


@lru_cache(maxsize=64)  # the name of a dtype is made by 30 calls
def kind_of(dtype: np.dtype[Any]) -> str | None:
    """Return ``u``, ``i`` or ``f`` for types that array chunks store, else None."""
    is_complex = _is_complex(dtype)
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
    if len(sides) > 1 and sides[-1] <= MOST_PLANES:
        sides.pop()
    sides = [1, 1, *sides]
    return prod(sides[:-2]), sides[-2], sides[-1]


def block_of(
    shape: Shape, nplanes: int, itemsize: int, *, deep: bool, access: str = "rows"
) -> Shape:
    """Return the sides of blocks; `deep` ones have several slices, and those for series all."""
    d, h, w = shape
    nbytes = TILE_BLOCK_NBYTES if access == "tiles" else BLOCK_NBYTES[itemsize]
    npoints = nbytes // (nplanes * itemsize)
    if w > npoints:
        return 1, 1, max(1, npoints)
    rows = max(1, npoints // w)
    if access == "series":
        depth = _even(d, rows)
        return depth, _even(h, rows // depth), w
    if rows >= h:
        return _even(d, rows // h), h, w
    depth = min(SLICES, d, rows) if deep else 1
    return _even(d, depth), _even(h, rows // depth), w


def _even(side: int, step: int) -> int:
    """Return a step of at most `step` (or `side`) that cuts a side into nearly equal parts."""
    return -(-side // -(-side // max(1, min(side, step))))


@dataclass(frozen=True, slots=True)
class _PlaneChoice:
    """A map and a predictor of one plane, and the sizes by predictors that are nearly as good."""

    mapped: Mapped
    predictor: int
    rivals: dict[int, float]


@dataclass(frozen=True, slots=True)
class _Choice:
    """The plan of a chunk, its planes, and the sizes to expect of it and of a Blosc chunk.

    The latter is None if the trials were most of the chunk.
    """

    plan: Plan
    planes: tuple[Mapped, ...]
    nbytes: float
    blosc_nbytes: float | None
    repeats: bool


@dataclass(frozen=True, slots=True)
class _Trial:
    """Halves of blocks, all of the same sides, that are encoded to choose coders."""

    boxes: Boxes  # where they are
    scale: float  # points of the chunk for each point of these blocks

    @property
    def shape(self) -> Shape:
        """Points of the blocks, one behind the other, on each axis."""
        d, h, w = self.boxes.sides
        return len(self.boxes.starts) * d, h, w

    def take(self, work: AnyArray) -> AnyArray:
        """Return these blocks of an array, one behind the other."""
        return self.boxes.take(work).reshape(*self.shape, *work.shape[3:])

    def nbytes(self, plane: PlanePlan, itemsize: int, work: AnyArray, *, repeats: bool) -> int:
        """Return the stored size of the blocks with a plan, for the work integers of `take`."""
        kernel = Plan(itemsize, self.shape, self.boxes.sides, (plane,)).kernel()
        room = 2 * work.nbytes + 64 * itemsize * len(self.boxes.starts)
        return kernel.encoded_size([bytes_of(work)], room, 0 if repeats else NEVER)


# All chunks of an array but the last have one shape.
@lru_cache(maxsize=16)
def _trial_of(shape: Shape, block: Shape) -> _Trial:
    """Return the blocks to try."""
    nblocks = prod(-(-side // step) for side, step in zip(shape, block, strict=True))
    count = min(TRIAL_BLOCKS, max(1, nblocks // TRIAL_SHARE))
    plan = Plan(1, shape, block, ())
    starts: list[Shape] = []
    sides = block
    for index in range(count):
        start, (d, h, w) = plan.block_place((2 * index + 1) * nblocks // (2 * count))
        if h >= 2 * TRIAL_ROWS:
            h = -(-h // 2)
        elif d >= 2 * TRIAL_ROWS:
            d = -(-d // 2)
        if not starts:
            sides = d, h, w
        if sides == (d, h, w):
            starts.append(start)
    return _Trial(Boxes(tuple(starts), sides), prod(shape) / (len(starts) * prod(sides)))


def _choose(
    items: AnyArray, kind: str, params: CodecParams, *, is_big_endian: bool, access: str
) -> tuple[_Choice | None, CodecParams]:
    """Return the plan of a chunk, or None if Blosc makes it smaller, and parameters for Blosc.

    The last axis of `items` is that of planes.
    """
    shape, nplanes, itemsize = items.shape[:3], items.shape[3], items.itemsize
    chosen: list[_PlaneChoice] = []
    for index in range(nplanes):
        plane = np.ascontiguousarray(items[..., index])
        before = chosen[-1].mapped if chosen else None
        chosen.append(_choose_map(plane, kind, nplanes, before))
    if itemsize == 8 and nplanes == 1 and shape[0] == 1 < shape[1]:
        chosen[0] = _of_rows(chosen[0])
        shape = chosen[0].mapped.work.shape
        items = items.reshape(*shape, 1)
    deep = any(choice.predictor & _AFTER_SLICE for choice in chosen)
    block = block_of(shape, nplanes, itemsize, deep=deep, access=access)
    trial = _trial_of(shape, block)
    content = trial.take(items)
    if is_big_endian:
        content.byteswap(inplace=True)
    params, blosc_nbytes = _try_blosc(content, params)
    coded = [
        _Coded.of(chosen[index - 1] if index else None, choice, trial)
        for index, choice in enumerate(chosen)
    ]
    bits = sum([each.bits for each in coded])
    if 1 < bits < content.size / 2:
        bits += content.size / 8  # Huffman codes of a bitmap take a bit for each of its bytes
    if bits > HOPELESS_BITS * 8 * blosc_nbytes:
        return None, params  # byte planes with matches at best, which Blosc has too
    # Blosc sees what repeats, which entropies do not.
    entropy = entropy_of_bytes(bytes_of(content), itemsize)
    repeats = 8 * blosc_nbytes < max(
        min(MATCHES_PAY * bits, REPEATS * entropy), SURE_REPEATS * entropy
    )
    plans, nbytes = [], 0.0
    for each in coded:
        plane_plan, stored = each.choose_coder(trial, itemsize, repeats=repeats)
        plans.append(plane_plan)
        nbytes += stored * trial.scale
    plan = Plan(itemsize, shape, block, tuple(plans), is_big_endian)
    mapped = tuple(choice.mapped for choice in chosen)
    # Trials that are most of the chunk would be encoded twice.
    expected = blosc_nbytes * trial.scale if trial.scale >= MIN_SCALE else None
    return _Choice(plan, mapped, nbytes + _head_nbytes(plan), expected, repeats), params


def _try_blosc(content: AnyArray, params: CodecParams) -> tuple[CodecParams, int]:
    """Return the parameters by which Blosc makes trial blocks smaller, and that size.

    Items that repeat as they are need no shuffle, which breaks their matches.
    """
    nbytes = len(encode(bytes_of(content), params))
    if content.itemsize < 4 or content.size < REPEATS_ITEMS:
        return params, nbytes
    some = np.sort(content.reshape(-1)[:: content.size // REPEATS_ITEMS])
    if np.count_nonzero(some[1:] != some[:-1]) > REPEATS_DISTINCT * len(some):
        return params, nbytes
    plain = replace(params, shuffle=Shuffle.NONE, blocksize=REPEATS_BLOCK_NBYTES)
    without = len(encode(bytes_of(content), plain))
    return (plain, without) if without < WORTH * nbytes else (params, nbytes)


def _head_nbytes(plan: Plan) -> int:
    dictionaries = sum([len(plane.stored_dictionary) for plane in plan.planes])
    return plan.table_start() + dictionaries + 4 * plan.nblocks


def _encode_items(items: AnyArray, choice: _Choice, most: int) -> bytes | None:
    """Return the array chunk, or None if it would have more than `most` bytes."""
    plan, planes = choice.plan, choice.planes
    head = plan.pack([0] * plan.nblocks, b"")
    limit = most - len(head)
    if limit < 0:
        return None
    masks = [mapped.mask for mapped in planes]
    chunk = plan.kernel().encode_chunk(
        [bytes_of(mapped.work) for mapped in planes],
        [None if mask is None else bytes_of(mask) for mask in masks],
        [
            None if mask is None else bytes_of(np.ascontiguousarray(items[..., index]))
            for index, mask in enumerate(masks)
        ],
        head,
        plan.table_start(),
        limit,
        0 if choice.repeats else LATER,
    )
    if chunk is None:
        return None
    return chunk if plan.nbytes <= MAX_EXPANSION * len(chunk) + FREE_EXPANSION else None


def _choose_map(plane: AnyArray, kind: str, nplanes: int, before: Mapped | None) -> _PlaneChoice:
    """Return the map and predictor with the least estimated size."""
    windows = _windows_of(plane.shape, nplanes, plane.itemsize)
    earlier = None if before is None else windows.take(before.work)
    found: list[_Guess] = []
    for candidate in maps_of(plane, kind, windows):
        works = [(candidate.work, 0)]
        if earlier is not None and earlier.dtype == candidate.work.dtype:
            works.append((candidate.work - earlier, _AFTER_PLANE))
        for work, after_plane in works:
            predictors = _predictors_of(plane.shape, is_signed=after_plane > 0)
            # A first look rules most predictors and maps out.
            few = np.ascontiguousarray(work[:: max(1, len(work) // FIRST_WINDOWS)])
            guesses = _guess(candidate, work, few, plane.size, predictors, after_plane)
            most = FIRST_MARGIN * min(map(_SIZE, guesses))
            found += [guess for guess in guesses if guess[0] <= most]
    found.sort(key=_SIZE)
    most = MAPS_MARGIN * found[0].size
    nlikely = len([guess for guess in found if guess[0] <= most])
    found[:nlikely] = _look_again(found[:nlikely], plane.size)
    for guess in found:
        mapped = guess.candidate.apply()
        if mapped is not None and (
            before is None
            or not guess.predictor & _AFTER_PLANE
            or mapped.work.dtype == before.work.dtype
        ):
            rivals = {
                each.predictor: each.size
                for each in found
                if each.candidate is guess.candidate
                and each.size <= RIVAL_MARGIN * guess.size
                and not (each.predictor ^ guess.predictor) & (_AFTER_SLICE | _AFTER_PLANE)
            }
            return _PlaneChoice(mapped, guess.predictor, rivals)
    raise ValueError("a plane has no map")


_SIZE = itemgetter(0)


def _of_rows(choice: _PlaneChoice) -> _PlaneChoice:
    """Return a choice whose slices are the rows of the only slice, if third differences pay."""
    mapped = choice.mapped
    _, h, w = mapped.work.shape
    windows = _windows_of(mapped.work.shape, 1, 8).take(mapped.work)
    [before] = _estimate(windows, [choice.predictor])
    [bits] = _estimate(windows.swapaxes(1, 2), [_THIRD])
    if bits > WORTH * before:
        return choice
    mask = None if mapped.mask is None else mapped.mask.reshape(h, 1, w)
    rows = Mapped(mapped.work.reshape(h, 1, w), mapped.fields, mask)
    return _PlaneChoice(rows, _THIRD, {_THIRD: bits})


class _Guess(NamedTuple):
    """The size to expect of a plane by a map and a predictor, and the windows for both."""

    size: float
    candidate: Candidate
    predictor: int
    work: AnyArray


def _guess(
    candidate: Candidate,
    work: AnyArray,
    few: AnyArray,
    nitems: int,
    predictors: list[int],
    after_plane: int,
) -> list[_Guess]:
    """Return the sizes by the entropy of a few windows, for each predictor."""
    cost, factor = candidate.cost, candidate.factor
    return [
        _Guess((bits / 8 * nitems + cost) * factor, candidate, predictor | after_plane, work)
        for predictor, bits in zip(predictors, _estimate(few, predictors), strict=True)
    ]


def _look_again(guesses: list[_Guess], nitems: int) -> list[_Guess]:
    """Return guesses by all windows, the least size first."""
    found = []
    groups: dict[int, list[_Guess]] = {}
    for guess in guesses:
        groups.setdefault(id(guess.work), []).append(guess)
    for same in groups.values():
        predictors = [guess.predictor & ~_AFTER_PLANE for guess in same]
        after_plane = same[0].predictor & _AFTER_PLANE
        work = same[0].work
        found += _guess(same[0].candidate, work, work, nitems, predictors, after_plane)
    return sorted(found, key=_SIZE)


def _estimate(work: AnyArray, predictors: list[int]) -> list[float]:
    """Return the bits per item that windows may need with each predictor."""
    _, d, h, w = work.shape
    bits = estimate_predictors(bytes_of(work), work.itemsize, d, h, w, predictors)
    return [each / work.size for each in bits]


def _predictors_of(shape: Shape, *, is_signed: bool) -> list[int]:
    # Differences are predicted from the left.
    predictors = list((_ON_SLICES if shape[1] > 1 else _ON_ROWS)[is_signed:])
    if shape[0] > 1:
        predictors += _BETWEEN_SLICES
    return predictors


def _windows_of(shape: Shape, nplanes: int, itemsize: int) -> Boxes:
    """Return windows spread over the axes; or one, if it has all points."""
    _, h, w = shape
    if h == 1:
        sides = 1, 1, min(w, WINDOW_POINTS)
    else:
        # No more slices and rows than blocks have: the first ones are predicted less well.
        depth = min(WINDOW_SLICES, block_of(shape, nplanes, itemsize, deep=True)[0])
        width = min(w, WINDOW_WIDTH)
        rows = max(WINDOW_ROWS, WINDOW_POINTS // (depth * width))
        sides = depth, min(rows, block_of(shape, nplanes, itemsize, deep=False)[1]), width
    return _spread(shape, sides)


@lru_cache(maxsize=16)
def _spread(shape: Shape, sides: Shape) -> Boxes:
    if sides == shape:
        return Boxes(((0, 0, 0),), sides)
    starts = []
    for index in range(NWINDOWS):
        z, y, x = (
            (whole - side) * (index * step % NWINDOWS) // (NWINDOWS - 1)
            for whole, side, step in zip(shape, sides, (1, 3, 5), strict=True)
        )
        starts.append((z, y, x))
    return Boxes(tuple(starts), sides)


@dataclass(frozen=True, slots=True)
class _Coded:
    """Trial blocks of a plane, and the plan of bins, with the bits that it needs by entropy."""

    work: AnyArray
    fields: dict[str, Any]  # of plans of the map
    after_plane: int
    residuals: AnyArray
    bins: PlanePlan
    bits: float

    @classmethod
    def of(cls, before: _PlaneChoice | None, choice: _PlaneChoice, trial: _Trial) -> "_Coded":
        work = trial.take(choice.mapped.work)
        after_plane = choice.predictor & _AFTER_PLANE
        if after_plane and before is not None:
            work = work - trial.take(before.mapped.work)
        d, h, w = trial.boxes.sides
        predictors = [p & ~_AFTER_PLANE for p in choice.rivals]
        if len(predictors) > 1:
            again = _estimate(work.reshape(-1, d, h, w), predictors)
            sizes = list(choice.rivals.values())
            units = max(min(again), 1e-9), max(min(sizes), 1e-9)
            sums = [a / units[0] + b / units[1] for a, b in zip(again, sizes, strict=True)]
            predictors = [predictors[sums.index(min(sums))]]
        fields = choice.mapped.fields
        residuals = np.empty_like(work)
        bins, bits = _best_bins(fields, predictors[0], work, (d, h, w), residuals)
        return cls(work, fields, after_plane, residuals, bins, bits)

    def choose_coder(
        self, trial: _Trial, itemsize: int, *, repeats: bool
    ) -> tuple[PlanePlan, float]:
        """Return the plan with the coder that makes the blocks smallest, and their size."""
        fields, predictor = self.fields, self.bins.predictor
        plain = PlanePlan(**fields, predictor=predictor, coder=int(Coder.PLANES))
        quotients = PlanePlan(**fields, predictor=predictor, coder=int(Coder.QUOTIENTS))
        most = PLANES_MARGIN * self.bits
        trials = [quotients]
        if repeats or entropy_of_bytes(bytes_of(self.residuals), plain.width) < most:
            trials.append(plain)
        if (plain.predictor and not self.after_plane) and (
            repeats or entropy_of_bytes(bytes_of(self.work), plain.width) < most
        ):
            trials.append(PlanePlan(**fields, coder=int(Coder.PLANES)))
        trials.append(self.bins)
        dearness = NARROW_DEARNESS if plain.width <= NARROW else WIDE_DEARNESS
        sizes: list[tuple[float, float]] = []
        for each in trials:
            # Bins, whose entropy is known, are tried if they may win.
            least = dearness[Coder.BINS] * self.bits / 8
            if each is self.bins and not repeats and least > min(sizes)[0]:
                break
            stored = (
                trial.nbytes(each, itemsize, self.work, repeats=repeats)
                + len(each.values) / trial.scale
            )
            sizes.append((stored * dearness[each.coder], stored))
        best = min(range(len(sizes)), key=sizes.__getitem__)
        plan = trials[best]
        if self.after_plane:
            plan = replace(plan, predictor=plan.predictor | self.after_plane)
        return plan, sizes[best][1]


def _best_bins(
    fields: dict[str, Any], predictor: int, work: AnyArray, sides: Shape, residuals: AnyArray
) -> tuple[PlanePlan, float]:
    """Return the plan of bins whose k needs the fewest bits by entropy, and these.

    `work` are blocks of these sides, whose residuals are written to `residuals`.
    """
    width = work.itemsize
    choices = _BINS_OF[width]
    step = max(1, work.size // RESIDUALS)
    source, target = bytes_of(work), bytes_of(residuals)
    found = bins_of_blocks(source, width, *sides, predictor, step, choices, target)
    scale = work.size / -(-work.size // step)
    bits, k, frequents = min(
        [
            (bits * scale + 8 * len(values), k, values)
            for k, (bits, values) in zip(choices, found, strict=True)
        ]
    )
    plan = PlanePlan(**fields, predictor=predictor, coder=int(Coder.BINS), k=k, values=frequents)
    return plan, bits
