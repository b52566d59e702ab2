"""Oracle: array chunks in plain Python and numpy, from docs/formats/arraychunk.md alone.

Slow and strict. `decode` returns the content of a chunk, or raises `RefusedError`.
"""

import math
import struct
from dataclasses import dataclass

import numpy as np
import zstandard

from .chunk_decoder import Chunk, decode_chunk
from .refused import need

FIELDS = struct.Struct("<BBBBBBHQ8s")


class Reader:
    """Bytes from a position to an end that must not be passed."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        need(0 <= at <= end <= len(data), "format", "a part lies outside of the chunk")
        self.data, self.at, self.end = data, at, end

    def take(self, size: int) -> bytes:
        need(0 <= size <= self.end - self.at, "format", "a field ends after its block")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")


@dataclass
class Plane:
    map: int
    width: int
    predictor: int
    coder: int
    shift: int
    k: int
    offset: int
    scale: bytes
    values: list[int]
    dictionary: list[int]


class Head(Chunk):
    """The first 16 bytes, as `chunk_decoder` has them of a Blosc chunk."""

    codec = "array"
    shuffle = "none"
    is_stored = False


def unpack_header(view: bytes) -> Head:
    """Return the checked header of the chunk at the beginning of `view`."""
    need(len(view) >= 16, "truncated", "the header of a chunk is cut")
    version, revision, flags, itemsize, nbytes, blocksize, cbytes = struct.unpack_from(
        "<4B3I", view
    )
    need(version == 0x82, "format", "another format")
    need((revision, flags) == (1, 0), "unsupported", "a later revision")
    need(itemsize in (1, 2, 4, 8), "format", "itemsize")
    need(0 < nbytes <= min(2**31 - 17, 8192 * cbytes + 65536), "format", "too large")
    need(0 < blocksize <= min(nbytes, 262144), "format", "blocksize")
    return Head(flags, itemsize, nbytes, blocksize, cbytes)


def decode(chunk: bytes) -> bytes:
    _, itemsize, nbytes, blocksize, cbytes = unpack_header(chunk)
    need(cbytes == len(chunk) >= 48, "format", "another size")
    head, plan_nbytes, nplanes, byte_order, *sides = struct.unpack_from("<IHBB6I", chunk, 16)
    shape, block = sides[:3], sides[3:]
    need(1 <= nplanes <= 16 and head <= cbytes, "format", "geometry")
    need(byte_order <= (itemsize > 1), "format", "byte order")
    need(all(1 <= b <= s for b, s in zip(block, shape, strict=True)), "format", "block")
    need(block[2] == shape[2] or block[:2] == [1, 1], "format", "a cut row")
    need(math.prod(shape) * nplanes * itemsize == nbytes, "format", "nbytes")
    need(math.prod(block) * nplanes * itemsize == blocksize, "format", "blocksize")
    reader = Reader(chunk, 48, head)
    planes: list[Plane] = []
    sizes: list[tuple[Plane, int, int]] = []
    for _ in range(nplanes):
        kind, width, predictor, coder, shift, k, nvalues, offset, scale = FIELDS.unpack(
            reader.take(FIELDS.size)
        )
        values = [reader.number(width) for _ in range(nvalues)]
        plane = Plane(kind, width, predictor, coder, shift, k, offset, scale, values, [])
        number = int.from_bytes(scale, "little")
        need(kind <= 3 and coder <= 2 and predictor < 32, "format", "an unknown number")
        need(predictor % 8 in (0, 1, 2, 3, 5), "format", "predictor")
        need(width in (1, 2, 4, 8) and width <= itemsize, "format", "width")
        need(shift < 8 * itemsize if kind == 1 else shift == 0, "format", "shift")
        need(kind != 0 or number > 0, "format", "factor 0")
        need(kind != 1 or number == 0, "format", "scale")
        if predictor & 16:
            need(bool(planes) and planes[-1].width == width, "format", "no plane before")
        if coder == 2:
            need(k < 8 * width and base_of(plane) + nvalues <= 256, "format", "tokens")
        else:
            need(k == 0 and nvalues == 0, "format", "residuals without bins")
        need(values == sorted(set(values)), "format", "residuals do not ascend")
        if kind == 2:
            divisor = struct.unpack("<d", scale)[0]
            need(itemsize >= 4 and math.isfinite(divisor) and divisor != 0, "format", "divisor")
        if kind == 3:
            need(1 <= offset <= min(8192, nbytes // 16 // itemsize), "format", "entries")
            sizes.append((plane, number, offset))
        planes.append(plane)
    need(reader.at == 16 + plan_nbytes, "format", "plan size")
    counts = [-(-side // step) for side, step in zip(shape, block, strict=True)]
    ends = [reader.number(4) for _ in range(math.prod(counts))]
    for plane, size, nentries in sizes:
        stored = reader.take(size)
        need(
            len(stored) >= 16 and stored[2] & 0xE2 in (0x80, 0x82, 2, 0x22, 0x42, 0x62),
            "codec",
            "dictionary",
        )
        entries = decode_chunk(stored)
        need(len(entries) == nentries * itemsize, "format", "dictionary size")
        plane.dictionary = np.frombuffer(entries, f"<u{itemsize}").tolist()
    need(reader.at == head and ends[-1] == cbytes, "format", "sizes")
    out = np.zeros((*shape, nplanes), f"<u{itemsize}")
    start = head
    for index, end in enumerate(ends):
        reader = Reader(chunk, start, end)
        place = []
        for side, step, count in zip(shape[::-1], block[::-1], counts[::-1], strict=True):
            index, at = divmod(index, count)
            place.append(slice(at * step, min(side, at * step + step)))
        z, y, x = place[::-1]
        target = out[z, y, x]
        work = np.zeros(0, "u1")
        for p, plane in enumerate(planes):
            target[..., p], work = decode_plane(reader, plane, target.shape[:3], itemsize, work)
        need(reader.at == end, "format", "a block is longer than its planes")
        start = end
    return (out.byteswap() if byte_order else out).tobytes()


def base_of(plane: Plane) -> int:
    return (8 * plane.width - plane.k + 1) << plane.k


def stream(reader: Reader, n: int, *, is_inner: bool = False) -> np.ndarray:
    head = reader.number(4)
    mode, size = head >> 30, head & 0x3FFFFFFF
    if mode == 0:
        need(size <= 255, "codec", "constant")
        return np.full(n, size, "u1")
    data = reader.take(size)
    if mode == 3:
        need(size == n, "codec", "stored")
        return np.frombuffer(data, "u1")
    if mode == 2:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            found = frame.decompress(data)
        except zstandard.ZstdError:
            found = b""
        is_whole = frame.eof and not frame.unused_data
        need(is_whole and len(found) == n, "codec", "not one frame of this size")
        return np.frombuffer(found, "u1")
    need(not is_inner, "codec", "sparse in sparse")
    inner = Reader(data, 0, size)
    common, count = inner.number(1), inner.number(4)
    need(count <= n, "codec", "count")
    bits = bitmap(stream(inner, -(-n // 8), is_inner=True), n, count)
    out = np.full(n, common, "u1")
    out[bits] = stream(inner, count, is_inner=True)
    need(inner.at == size, "codec", "a sparse stream is longer than its parts")
    return out


def bitmap(data: np.ndarray, n: int, count: int) -> np.ndarray:
    bits = np.unpackbits(data, bitorder="little")
    need(int(bits.sum()) == count and not bits[n:].any(), "codec", "bitmap")
    return bits[:n].astype(bool)


def decode_plane(
    reader: Reader, plane: Plane, shape: tuple[int, ...], itemsize: int, before: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the items of a plane of a block, and its work integers."""
    n = math.prod(shape)
    count = reader.number(4)
    need(count <= n, "codec", "exceptions")
    if count:
        mask = bitmap(stream(reader, -(-n // 8)), n, count)
        planes = stream(reader, count * itemsize).reshape(itemsize, count)
        exceptions = np.ascontiguousarray(planes.T).view(f"<u{itemsize}")[:, 0]
    residuals = (byte_planes, quotients, bins)[plane.coder](reader, plane, n)
    work = unpredict(residuals.reshape(shape), plane.predictor, before)
    items = unmap(plane, work.reshape(-1), itemsize)
    if count:
        items[mask] = exceptions
    return items.reshape(shape), work


def byte_planes(reader: Reader, plane: Plane, n: int) -> np.ndarray:
    planes = np.stack([stream(reader, n) for _ in range(plane.width)], axis=-1)
    return np.ascontiguousarray(planes).view(f"<u{plane.width}")[:, 0]


def quotients(reader: Reader, plane: Plane, n: int) -> np.ndarray:
    nclasses = reader.number(1)
    need(1 <= nclasses <= 16, "codec", "classes")
    groups = np.zeros(-(-n // 64), "u1")
    if nclasses > 1:
        groups = stream(reader, len(groups))
        need(int(groups.max()) < nclasses, "codec", "class")
    class_of = np.repeat(groups, 64)[:n]
    out = np.zeros(n, f"<u{plane.width}")
    for number in range(nclasses):
        out[class_of == number] = one_class(reader, plane, int((class_of == number).sum()))
    return out


def one_class(reader: Reader, plane: Plane, m: int) -> np.ndarray:
    shift, count = reader.number(1), reader.number(4)
    need(shift <= 8 * plane.width and count <= m, "codec", "shift")
    tokens = stream(reader, m)
    values = [int(token) << shift for token in tokens]
    for j in range(shift // 8):
        for i, byte in enumerate(reader.take(m)):
            values[i] |= byte << (8 * j)
    width = shift % 8
    bits = int.from_bytes(reader.take(-(-m * width // 8)), "little")
    if width:
        fields = np.unpackbits(np.frombuffer(bits.to_bytes(m, "little"), "u1"), bitorder="little")
        fields = fields[: m * width].reshape(m, width) @ (1 << np.arange(width))
        values = [v | int(f) << (shift // 8 * 8) for v, f in zip(values, fields, strict=True)]
    escaped = np.flatnonzero(tokens == 255).tolist()
    need(len(escaped) == count, "codec", "escapes")
    for i in escaped:
        values[i] = reader.number(plane.width)
    return np.array([v % 256**plane.width for v in values], f"<u{plane.width}")


def bins(reader: Reader, plane: Plane, n: int) -> np.ndarray:
    base, k = base_of(plane), plane.k
    start, nbits = [], []
    for token in range(base + len(plane.values)):
        m = (token >> k) - 1 if 2 << k <= token < base else 0
        nbits.append(m)
        if token >= base:
            start.append(plane.values[token - base])
        else:
            start.append(token if token < 2 << k else ((1 << k) + token % (1 << k)) << m)
    tokens = stream(reader, n).tolist()
    need(max(tokens) < len(start), "codec", "token")
    total = sum(nbits[token] for token in tokens)
    bits = "".join(f"{byte:08b}" for byte in reader.take(-(-total // 8))[::-1])
    out, at = [], len(bits)
    for token in tokens:
        m = nbits[token]
        out.append(start[token] + (int(bits[at - m : at], 2) if m else 0))
        at -= m
    return np.array(out, f"<u{plane.width}")


def unpredict(residuals: np.ndarray, predictor: int, before: np.ndarray) -> np.ndarray:
    if predictor == 0:
        return residuals
    one = residuals.dtype.type(1)
    v = (residuals >> one) ^ (np.zeros_like(residuals) - (residuals & one))
    kind, dtype = predictor & 7, v.dtype
    first = v[:, :, 0].copy()
    if kind:
        first = np.cumsum(first, axis=1, dtype=dtype)  # the first column, down each slice
    if kind == 1:
        v[:, :, 0] = first
        v = np.cumsum(v, axis=2, dtype=dtype)
    elif kind in (2, 3):
        row = np.cumsum(v[:, :1], axis=2, dtype=dtype)
        if kind == 3:
            v[:, 1:] = np.cumsum(v[:, 1:], axis=2, dtype=dtype)
        v[:, :1] = row
        v = np.cumsum(v, axis=1, dtype=dtype)
    elif kind == 5:
        v[:, :, 0] = 0
        v = np.cumsum(np.cumsum(v, axis=2, dtype=dtype), axis=2, dtype=dtype) + first[:, :, None]
    if predictor & 8:
        v = np.cumsum(v, axis=0, dtype=dtype)
    return v + before if predictor & 16 else v


def unmap(plane: Plane, work: np.ndarray, itemsize: int) -> np.ndarray:
    nbits, unsigned = 8 * itemsize, f"<u{itemsize}"
    wide = work.astype("u8")
    number = int.from_bytes(plane.scale, "little")
    if plane.map == 0:
        return (wide * np.uint64(number) + np.uint64(plane.offset)).astype(unsigned)
    if plane.map == 1:
        b = nbits - plane.shift
        everything = np.uint64(2**b - 1)
        top = np.uint64(2 ** (b - 1))
        o = (wide + np.uint64(plane.offset)) & everything
        bits = np.where(o & top, o ^ top, ~o & everything)
        return (bits << np.uint64(plane.shift)).astype(unsigned)
    if plane.map == 2:
        k = (wide + np.uint64(plane.offset)).view("i8").astype("f8")
        with np.errstate(over="ignore"):
            quotient = (k / struct.unpack("<d", plane.scale)[0]).astype(f"<f{itemsize}")
        return quotient.view(unsigned)
    need(int(work.max()) < len(plane.dictionary), "codec", "rank")
    return np.array(plane.dictionary, unsigned)[work]
