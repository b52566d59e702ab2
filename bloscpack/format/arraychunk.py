"""Array chunks: header, plan and decoding (docs/formats/arraychunk.md).

A chunk of an array is stored as residuals of a prediction along its axes. The first 16 bytes are
those of a Blosc-1 chunk but for the version byte. All checks are arithmetic on sizes, before
anything is allocated; the kernel then checks each block as it decodes it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag
from functools import lru_cache
from math import isfinite
from struct import Struct
from typing import NamedTuple

from ..exceptions import CodecError, FormatError, TruncatedError, UnsupportedError
from ..parallel.imports import compiled_kernels
from ..types import BlockRun, BytesLike, StridedItems
from .bytefield import unpack_fields

with compiled_kernels():
    from .._ext import arraychunk as _arraychunk
    from .._ext import blosc as _blosc

VERSION = 0x82
REVISION = 1
# Bounds the memory that a short file can make a reader allocate.
MAX_EXPANSION = 8192
FREE_EXPANSION = 1 << 16
MAX_BLOCK_NBYTES = 1 << 18
MAX_PLANES = 16
MAX_ENTRIES = 8192
MIN_CHUNK_PER_DICTIONARY = 16  # a dictionary has at most nbytes / 16 bytes
WIDTHS = (1, 2, 4, 8)

_HEADER = Struct("<BBBBIII")
_GEOMETRY = Struct("<IHBB6I")
_FIELDS = Struct("<BBBBBBHQQ")
_END_SIZE = 4
_BLOSC_MEMCPY, _BLOSC_ZSTD = 0x02, 4  # flag and stream format of a Blosc-1 chunk
PLAN_START = _HEADER.size + _GEOMETRY.size
_DOUBLE = Struct("<d")
_U64 = Struct("<Q")


class Map(IntEnum):
    """How work integers become items; stored on disk."""

    OFFSET = 0
    FLOAT = 1
    QUOTIENT = 2
    RANK = 3


class Coder(IntEnum):
    """How residuals are coded; stored on disk."""

    PLANES = 0
    QUOTIENTS = 1
    BINS = 2


class Predictor(IntFlag):
    """Predictors of a work integer, and what is subtracted first; stored on disk."""

    NONE = 0
    LEFT = 1
    UP = 2
    LORENZO = 3
    SECOND = 5
    AFTER_SLICE = 8
    AFTER_PLANE = 16


_PREDICTORS = {
    base + after
    for base in (
        Predictor.NONE,
        Predictor.LEFT,
        Predictor.UP,
        Predictor.LORENZO,
        Predictor.SECOND,
    )
    for after in (0, 8, 16, 24)
}


_LAST_MAP, _LAST_CODER = max(Map), max(Coder)


class ArrayChunkHeader(NamedTuple):
    """Header of an array chunk, its first 16 bytes."""

    # 0x82, 1 and 0.
    version: int
    revision: int
    flags: int
    itemsize: int  # bytes per item
    nbytes: int  # decoded size in bytes
    blocksize: int  # decoded size of a whole block in bytes
    cbytes: int  # stored size in bytes, including this header

    def check(self) -> None:
        """Check all fields.

        Raises
        ------
        FormatError
            A field is out of range, or the chunk is too small for its content.
        UnsupportedError
            The chunk has a later revision.
        """
        version, revision, flags, itemsize, nbytes, blocksize, cbytes = self
        if version != VERSION:
            raise FormatError(f"array chunk header: version is {version:#x}, expected {VERSION:#x}")
        if revision != REVISION or flags:
            raise UnsupportedError(
                f"array chunk header: revision {revision} with flags {flags:#x}; this package "
                f"reads revision {REVISION}"
            )
        if itemsize not in WIDTHS:
            raise FormatError(f"array chunk header: items of {itemsize} bytes")
        if not 0 < nbytes <= _blosc.MAX_NBYTES:
            raise FormatError(
                f"array chunk header: decoded size {nbytes} is not 1 to {_blosc.MAX_NBYTES}"
            )
        if nbytes > MAX_EXPANSION * cbytes + FREE_EXPANSION:
            raise FormatError(f"array chunk header: {cbytes} bytes cannot decode to {nbytes}")
        most = min(nbytes, MAX_BLOCK_NBYTES)
        if not 0 < blocksize <= most:
            raise FormatError(f"array chunk header: block size {blocksize} is not 1 to {most}")


@dataclass(frozen=True, slots=True)
class PlanePlan:
    """How the items of one plane are stored."""

    # See the format page.
    map: int
    width: int
    predictor: int = 0
    coder: int = 0
    shift: int = 0
    k: int = 0
    offset: int = 0  # of `Map.OFFSET`, `Map.FLOAT` and `Map.QUOTIENT`, modulo 2^64
    scale: int = 0  # factor of `Map.OFFSET`; the bits of the divisor of `Map.QUOTIENT`; else 0
    values: bytes = b""  # frequent residuals of `Coder.BINS`, `width` bytes each, ascending
    dictionary: bytes = b""  # entries of `Map.RANK`, as items
    stored_dictionary: bytes = b""  # the Blosc chunk of them

    @property
    def divisor(self) -> float:
        """Divisor of `Map.QUOTIENT`, else 1."""
        if self.map != Map.QUOTIENT:
            return 1.0
        value: float = _DOUBLE.unpack(_U64.pack(self.scale))[0]
        return value

    def pack(self, itemsize: int) -> bytes:
        """Return the bytes of the plan, without the dictionary."""
        offset, scale = self.offset, self.scale
        if self.map == Map.RANK:
            offset, scale = len(self.dictionary) // itemsize, len(self.stored_dictionary)
        nvalues = len(self.values) // self.width
        fields = (self.map, self.width, self.predictor, self.coder, self.shift, self.k)
        return _FIELDS.pack(*fields, nvalues, offset, scale) + self.values


def scale_of(divisor: float) -> int:
    """Return the `scale` of a divisor."""
    bits: int = _U64.unpack(_DOUBLE.pack(divisor))[0]
    return bits


@dataclass(frozen=True, slots=True)
class Plan:
    """Geometry of a chunk, and how each of its planes is stored."""

    itemsize: int  # bytes per item
    # Points of the chunk and of a block on each axis; a point has one item of each plane.
    shape: tuple[int, int, int]
    block: tuple[int, int, int]
    planes: tuple[PlanePlan, ...]  # at most 16
    is_big_endian: bool = False  # the bytes of each item are in reverse order

    @property
    def nbytes(self) -> int:
        """Decoded size of the chunk in bytes."""
        d, h, w = self.shape
        return d * h * w * len(self.planes) * self.itemsize

    @property
    def blocksize(self) -> int:
        """Decoded size of a whole block in bytes."""
        d, h, w = self.block
        return d * h * w * len(self.planes) * self.itemsize

    @property
    def nblocks(self) -> int:
        """Number of blocks."""
        nblocks = 1
        for side, step in zip(self.shape, self.block, strict=True):
            nblocks *= -(-side // step)
        return nblocks

    def block_place(self, index: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Return the first point of block `index` on each axis, and its points on each axis."""
        start, sides = [], []
        for side, step in zip(self.shape[::-1], self.block[::-1], strict=True):
            index, at = divmod(index, -(-side // step))
            start.append(at * step)
            sides.append(min(step, side - at * step))
        return (start[2], start[1], start[0]), (sides[2], sides[1], sides[0])

    def kernel(self) -> _arraychunk.Kernel:
        """Return the kernel of the plan, which encodes and decodes its blocks."""
        return _arraychunk.Kernel(
            self.itemsize,
            self.shape,
            self.block,
            [
                (
                    plane.map,
                    plane.width,
                    plane.predictor,
                    plane.coder,
                    plane.shift,
                    plane.k,
                    plane.offset,
                    plane.scale,
                    plane.divisor,
                    plane.values,
                    plane.dictionary,
                )
                for plane in self.planes
            ],
            self.is_big_endian,
        )

    def table_start(self) -> int:
        """Return the position of the table of the ends of blocks in a packed chunk."""
        return PLAN_START + sum(_FIELDS.size + len(plane.values) for plane in self.planes)

    def pack(self, sizes: list[int], blocks: bytes) -> bytes:
        """Return the chunk with this plan, and `blocks` of these stored sizes."""
        packed = b"".join(plane.pack(self.itemsize) for plane in self.planes)
        dictionaries = b"".join(plane.stored_dictionary for plane in self.planes)
        plan_nbytes = _GEOMETRY.size + len(packed)
        at = _HEADER.size + plan_nbytes + _END_SIZE * len(sizes) + len(dictionaries)
        head_nbytes, ends = at, []
        for size in sizes:
            at += size
            ends.append(at)
        return b"".join(
            (
                _HEADER.pack(VERSION, REVISION, 0, self.itemsize, self.nbytes, self.blocksize, at),
                _GEOMETRY.pack(
                    head_nbytes,
                    plan_nbytes,
                    len(self.planes),
                    self.is_big_endian,
                    *self.shape,
                    *self.block,
                ),
                packed,
                Struct(f"<{len(ends)}I").pack(*ends),
                dictionaries,
                blocks,
            )
        )


@dataclass(frozen=True, slots=True)
class ArrayChunkHead:
    """Everything in front of the blocks of an array chunk."""

    header: ArrayChunkHeader  # the first 16 bytes
    plan: Plan  # geometry and planes
    ends: bytes  # the start of block 0 and the end of each block, as u32
    kernel: _arraychunk.Kernel = field(compare=False, repr=False)  # kernel of the plan

    @staticmethod
    def size(view: BytesLike) -> int:
        """Return the size of the head of a chunk, from its first `PLAN_START` bytes."""
        head_nbytes: int = unpack_fields(_GEOMETRY, view, _HEADER.size, "array chunk plan")[0]
        return head_nbytes

    @classmethod
    def unpack(cls, view: BytesLike) -> "ArrayChunkHead":
        """Unpack and check the head of a chunk; `view` has at least the head.

        Raises
        ------
        TruncatedError
            `view` ends before the head does.
        FormatError, UnsupportedError
            A field is out of range, or the sizes contradict each other.
        CodecError
            A dictionary is damaged.
        """
        header = ArrayChunkHeader(*unpack_fields(_HEADER, view, 0, "array chunk header"))
        header.check()
        head_nbytes, plan_nbytes, *_ = unpack_fields(
            _GEOMETRY, view, _HEADER.size, "array chunk plan"
        )
        if not PLAN_START <= head_nbytes <= header.cbytes:
            raise FormatError(
                f"array chunk plan: head of {head_nbytes} bytes, expected {PLAN_START} to "
                f"{header.cbytes}"
            )
        view = memoryview(view)[:head_nbytes]
        if len(view) < head_nbytes:
            raise TruncatedError(
                f"array chunk head: found {len(view)} of {head_nbytes} bytes", offset=len(view)
            )
        at = _HEADER.size + plan_nbytes
        if not PLAN_START <= at <= head_nbytes:
            raise FormatError(
                f"array chunk plan: declared as {plan_nbytes} bytes in a head of {head_nbytes}"
            )
        packed = bytes(view[_HEADER.size + _END_SIZE : at])
        plan, kernel = _plan_of(*header[3:6], packed)
        dictionaries = 0
        if kernel is None:
            dictionaries = sum(each.scale for each in plan.planes if each.map == Map.RANK)
        table = at + _END_SIZE * plan.nblocks
        if table + dictionaries != head_nbytes:
            raise FormatError(
                f"array chunk plan: {plan.nblocks} blocks and {dictionaries} bytes of dictionaries "
                f"do not end at {head_nbytes}"
            )
        ends = Struct("<I").pack(head_nbytes) + bytes(view[at:table])
        if int.from_bytes(ends[-_END_SIZE:], "little") != header.cbytes:
            raise FormatError("array chunk: the last block does not end with the chunk")
        if kernel is None:
            planes = tuple(_with_dictionaries(view[table:], plan.planes, header.itemsize))
            plan = replace(plan, planes=planes)
            kernel = plan.kernel()
        return cls(header, plan, ends, kernel)

    def extent(self, index: int) -> tuple[int, int]:
        """Return the stored range of block `index`, as positions in the chunk."""
        low = int.from_bytes(self.ends[4 * index : 4 * index + 4], "little")
        high = int.from_bytes(self.ends[4 * index + 4 : 4 * index + 8], "little")
        if not low <= high <= self.header.cbytes:
            raise FormatError(f"array chunk: block {index} is stored from {low} to {high}")
        return low, high

    def decode_into(self, chunk: BytesLike, out: BytesLike) -> None:
        """Decode all of `chunk` into `out`, a writable buffer of exactly the decoded size.

        The GIL is released; safe from many threads.

        Raises
        ------
        CodecError
            A block is damaged, or `out` has another size.
        """
        if len(chunk) != self.header.cbytes or len(out) != self.header.nbytes:
            raise CodecError(
                f"the array chunk of {self.header.cbytes} bytes decodes to {self.header.nbytes}; "
                f"got {len(chunk)} for {len(out)}"
            )
        _check_code(self.kernel.decode_into(self.ends, chunk, 0, 0, self.plan.nblocks, out), None)

    def decode_block_into(self, stored: BytesLike, low: int, index: int, out: BytesLike) -> None:
        """Decode block `index` alone into `out`, of exactly its size.

        `stored` are the bytes of the chunk from position `low` on, at least those of `extent`.
        The items are in C order of slices, rows, points and planes. Raises as `decode_into` does.
        """
        _check_code(self.kernel.decode_into(self.ends, stored, low, index, 1, out), index)

    def decode_run_into(self, stored: BytesLike, run: BlockRun, out: BytesLike) -> None:
        """Decode the blocks of `run`, whose stored bytes are `stored`, to their places in `out`.

        `out` has the size of the whole content; the rest of it stays as it is. Raises as
        `decode_into` does.
        """
        count = run.stop - run.first
        code = self.kernel.decode_into(self.ends, stored, run.low, run.first, count, out)
        _check_code(code, run.first)

    def runs_of_items(self, items: StridedItems) -> list[BlockRun] | None:
        """Return the runs of adjacent blocks that hold `items`.

        None unless the axes of the items are within slices, rows and points of the chunk, whose
        writer chose these.
        """
        box = self._box_of(items)
        if box is None:
            return None
        slices, (row, last_row), (x, last_x) = box
        (_, height, width), (d, h, w) = self.plan.shape, self.plan.block
        rows, columns = -(-height // h), -(-width // w)
        found: list[tuple[int, int]] = []
        for slab in sorted({at // d for at in slices}):
            for band in range(row // h, last_row // h + 1):
                start = (slab * rows + band) * columns
                first, stop = start + x // w, start + last_x // w + 1
                if found and found[-1][1] == first:
                    first = found.pop()[0]
                found.append((first, stop))
        return [BlockRun(first, stop, *self._extent_of_run(first, stop)) for first, stop in found]

    def _extent_of_run(self, first: int, stop: int) -> tuple[int, int]:
        """Return the stored range of blocks `first` to `stop`; those within may be damaged."""
        low, high = self.extent(first)[0], self.extent(stop - 1)[1]
        if low > high:
            raise FormatError(
                f"array chunk: blocks {first} to {stop - 1} are stored from {low} to {high}"
            )
        return low, high

    def _box_of(
        self, items: StridedItems
    ) -> tuple[list[int], tuple[int, int], tuple[int, int]] | None:
        """Return the slices, the first and last row, and the first and last point of `items`.

        None if an axis crosses from one row, or slice, to the next.
        """
        point = len(self.plan.planes) * self.header.itemsize
        depth, height, width = self.plan.shape
        row_nbytes, slice_nbytes = width * point, height * width * point
        offset, axes = items.offset, []
        for length, stride in zip(items.shape, items.strides, strict=True):
            if length > 1:
                offset += min(stride, 0) * (length - 1)
                axes.append((length, abs(stride)))
        z, rest = divmod(offset, slice_nbytes)
        row, low = divmod(rest, row_nbytes)
        last_row, high, slices = row, low + items.itemsize - 1, [z]
        for length, stride in axes:
            if stride >= slice_nbytes:
                if stride % slice_nbytes:
                    return None
                step = stride // slice_nbytes
                slices = [at + step * index for at in slices for index in range(length)]
            elif stride >= row_nbytes:
                if stride % row_nbytes:
                    return None
                last_row += (length - 1) * stride // row_nbytes
            else:
                high += (length - 1) * stride
        if z < 0 or max(slices) >= depth or last_row >= height or high >= row_nbytes:
            return None
        return slices, (row, last_row), (low // point, high // point)

    def blocks_of_range(self, start: int, stop: int) -> Iterator[int]:
        """Yield the blocks, ascending, that may hold bytes `start` to `stop` of the content."""
        point = len(self.plan.planes) * self.header.itemsize
        (depth, height, width), (d, h, w) = self.plan.shape, self.plan.block
        rows, columns = -(-height // h), -(-width // w)
        first, last = start // point, (stop - 1) // point
        low, high = first // (height * width), last // (height * width)

        def index(at: int) -> int:
            y, x = divmod(at % (height * width), width)
            return (y // h) * columns + x // w

        for z in range(low // d, high // d + 1):
            # With several slices in a block, those between the first and the last are whole.
            is_one = max(low, z * d) == min(high, z * d + d - 1, depth - 1)
            begin = index(first) if z == low // d and (is_one or d == 1) else 0
            end = index(last) + 1 if z == high // d and (is_one or d == 1) else rows * columns
            yield from range(z * rows * columns + begin, z * rows * columns + end)

    def extent_of_range(self, start: int, stop: int) -> tuple[int, int]:
        """Return the stored range of the blocks that hold bytes `start` to `stop` of the content.

        Raises
        ------
        CodecError
            The chunk has no such bytes.
        FormatError
            The ends of the blocks are damaged.
        """
        if not 0 <= start < stop <= self.header.nbytes:
            raise CodecError(f"the chunk has no blocks for its bytes {start} to {stop}")
        extents = [self.extent(index) for index in self.blocks_of_range(start, stop)]
        return extents[0][0], extents[-1][1]

    def decode_range_into(self, stored: BytesLike, low: int, start: int, out: BytesLike) -> None:
        """Decode bytes ``start`` to ``start + len(out)`` of the content into `out`.

        `stored` are the bytes of the chunk from position `low` on, at least those of
        `extent_of_range`. Raises as `decode_into` does.
        """
        stop = start + len(out)
        if start == stop:
            return
        if not 0 <= start < stop <= self.header.nbytes:
            raise CodecError(f"the chunk has no bytes {start} to {stop}")
        target = memoryview(out)
        point = len(self.plan.planes) * self.header.itemsize
        _, height, width = self.plan.shape
        for index in self.blocks_of_range(start, stop):
            (z, y, x), (d, h, w) = self.plan.block_place(index)
            run = h * w * point
            at = ((z * height + y) * width + x) * point
            if d == 1 and start <= at and at + run <= stop:
                self.decode_block_into(stored, low, index, target[at - start : at - start + run])
                continue
            content = memoryview(bytearray(d * run))
            self.decode_block_into(stored, low, index, content)
            for slice_ in range(d):
                at = (((z + slice_) * height + y) * width + x) * point
                begin, end = max(at, start), min(at + run, stop)
                if begin < end:
                    part = content[slice_ * run + begin - at : slice_ * run + end - at]
                    target[begin - start : end - start] = part


def _check_code(code: int, index: int | None) -> None:
    if code:
        where = "a block" if index is None else f"block {index}"
        if code == _arraychunk.NO_MEMORY:
            raise CodecError(f"array chunk: not enough memory for {where}", code=code)
        raise CodecError(f"array chunk: {where} is damaged", code=code)


# Frames of a clip and chunks of an array often have equal plans; unpacking one takes 10 to 40 us.
@lru_cache(maxsize=32)
def _plan_of(
    itemsize: int, nbytes: int, blocksize: int, packed: bytes
) -> tuple[Plan, _arraychunk.Kernel | None]:
    """Return a plan and its kernel, or None if it needs dictionaries, see `_unpack_plane`.

    `packed` are the bytes of the plan after the size of the head, which differs from chunk to
    chunk; the other arguments are fields of the header.
    """
    view = memoryview(bytes(_HEADER.size + _END_SIZE) + packed)  # positions as in the chunk
    _, _, nplanes, byte_order, *sides = unpack_fields(
        _GEOMETRY, view, _HEADER.size, "array chunk plan"
    )
    if byte_order > (itemsize > 1):
        raise FormatError(f"array chunk plan: byte order {byte_order} of items of {itemsize} bytes")
    shape = (sides[0], sides[1], sides[2])
    block = (sides[3], sides[4], sides[5])
    _check_geometry((itemsize, nbytes, blocksize), nplanes, shape, block)
    at = PLAN_START
    planes: list[PlanePlan] = []
    for index in range(nplanes):
        plane, at = _unpack_plane(view, at, index, itemsize, nbytes, planes)
        planes.append(plane)
    if at != len(view):
        raise FormatError(
            f"array chunk plan: {at - _HEADER.size} bytes, declared as {len(view) - _HEADER.size}"
        )
    plan = Plan(itemsize, shape, block, tuple(planes), bool(byte_order))
    has_dictionaries = any(plane.map == Map.RANK for plane in planes)
    return plan, None if has_dictionaries else plan.kernel()


def _check_geometry(
    sizes: tuple[int, int, int],
    nplanes: int,
    shape: tuple[int, int, int],
    block: tuple[int, int, int],
) -> None:
    if not 1 <= nplanes <= MAX_PLANES:
        raise FormatError(f"array chunk plan: {nplanes} planes, expected 1 to {MAX_PLANES}")
    for side, step in zip(shape, block, strict=True):
        if not 1 <= step <= side:
            raise FormatError(f"array chunk plan: blocks of {block} in a chunk of {shape}")
    if block[2] != shape[2] and block[:2] != (1, 1):  # a slice must be one run of the content
        raise FormatError(f"array chunk plan: blocks of {block} cut several rows of {shape[2]}")
    itemsize, nbytes, blocksize = sizes
    point = nplanes * itemsize
    if shape[0] * shape[1] * shape[2] * point != nbytes:
        raise FormatError(f"array chunk plan: {shape} points of {point} bytes are not {nbytes}")
    if block[0] * block[1] * block[2] * point != blocksize:
        raise FormatError(f"array chunk plan: {block} points of {point} bytes are not {blocksize}")


def _unpack_plane(
    view: memoryview,
    at: int,
    index: int,
    itemsize: int,
    nbytes: int,
    planes: list[PlanePlan],
) -> tuple[PlanePlan, int]:
    """Return the plan of a plane, and the position after it.

    Instead of a dictionary it has, in `offset` and `scale`, the number of entries and their stored
    size.
    """
    what = f"array chunk plan, plane {index}"
    map_id, width, predictor, coder, shift, k, nvalues, offset, scale = unpack_fields(
        _FIELDS, view, at, what
    )
    at += _FIELDS.size
    if map_id > _LAST_MAP or coder > _LAST_CODER or predictor not in _PREDICTORS:
        raise UnsupportedError(f"{what}: map {map_id}, predictor {predictor}, coder {coder}")
    if width not in WIDTHS or width > itemsize:
        raise FormatError(f"{what}: integers of {width} bytes for items of {itemsize}")
    if predictor & Predictor.AFTER_PLANE and (not planes or planes[-1].width != width):
        raise FormatError(f"{what}: there is no plane before it of equal width")
    values = bytes(view[at : at + nvalues * width])
    at += nvalues * width
    _check_coder(what, coder, width, k, nvalues, values)
    _check_map(what, itemsize, nbytes, map_id, shift, offset, scale)
    plane = PlanePlan(map_id, width, predictor, coder, shift, k, offset, scale, values)
    return plane, at


def _check_coder(what: str, coder: int, width: int, k: int, nvalues: int, values: bytes) -> None:
    if coder == Coder.BINS:
        # A token is a byte, and frequent residuals get the numbers that buckets leave.
        room = 256 - (8 * width - k + 1 << k) if k < 8 * width else -1
        if nvalues > room:
            raise FormatError(f"{what}: {nvalues} frequent residuals with k {k}")
    elif k or nvalues:
        raise FormatError(f"{what}: k {k} and {nvalues} residuals with coder {coder}")
    if len(values) != nvalues * width:
        raise FormatError(f"{what}: the frequent residuals are cut")
    if not _arraychunk.is_ascending(values, width):
        raise FormatError(f"{what}: the frequent residuals do not ascend")


def _check_map(
    what: str, itemsize: int, nbytes: int, map_id: int, shift: int, offset: int, scale: int
) -> None:
    if shift >= 8 * itemsize or (shift and map_id != Map.FLOAT):
        raise FormatError(f"{what}: shift {shift} of map {map_id}")
    if map_id == Map.OFFSET and scale == 0:
        raise FormatError(f"{what}: factor 0")
    if map_id == Map.FLOAT and scale:
        raise FormatError(f"{what}: scale {scale} of map {map_id}")
    if map_id == Map.QUOTIENT:
        divisor = _DOUBLE.unpack(_U64.pack(scale))[0]
        if itemsize < WIDTHS[2] or not isfinite(divisor) or divisor == 0:
            raise FormatError(f"{what}: division by {divisor} for items of {itemsize} bytes")
    if map_id == Map.RANK:
        most = min(MAX_ENTRIES, nbytes // MIN_CHUNK_PER_DICTIONARY // itemsize)
        if not 1 <= offset <= most:
            raise FormatError(f"{what}: {offset} entries, expected 1 to {most}")


def _with_dictionaries(
    view: memoryview, planes: Iterable[PlanePlan], itemsize: int
) -> Iterator[PlanePlan]:
    """Yield the planes with their dictionaries, which follow each other in `view`."""
    at = 0
    for index, plane in enumerate(planes):
        if plane.map != Map.RANK:
            yield plane
            continue
        size, nbytes = plane.scale, plane.offset * itemsize
        stored = bytes(view[at : at + size])
        at += size
        what = f"array chunk: dictionary of plane {index}"
        _, _, flags, _, found, _, cbytes = unpack_fields(_HEADER, stored, 0, what)
        if cbytes != size or found != nbytes:
            raise FormatError(
                f"{what} decodes from {cbytes} to {found} bytes, expected {size} to {nbytes}"
            )
        if not flags & _BLOSC_MEMCPY and flags >> 5 != _BLOSC_ZSTD:
            raise FormatError(f"{what} is neither zstd nor uncompressed")
        entries = bytearray(nbytes)
        code = _blosc.decompress_into(stored, entries)
        if code != nbytes:
            raise CodecError(f"{what} is damaged", code=code)
        yield replace(plane, offset=0, scale=0, dictionary=bytes(entries), stored_dictionary=stored)
