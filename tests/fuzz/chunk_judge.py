"""Decoding of damaged Blosc chunks beside guard pages.

Input and output end at a protected page, so that an access one byte too far kills the process. Each
chunk is decoded twice, with the heap (glibc's M_PERTURB) and the output filled with a different
byte each time: output bytes that differ were not written by the decoder.
"""

import ctypes
import mmap
import struct
from functools import cache
from random import Random

from mutation import chunk_fields, damage

from bloscpack._ext import snappy
from bloscpack.exceptions import CodecError, FormatError, UnsupportedError
from bloscpack.format.codec import (
    CODECS,
    ChunkHeader,
    CodecParams,
    decode_blocks_into,
    decode_into,
    decode_range_into,
    encode,
    extent_of_range,
)

ERRORS = (FormatError, CodecError, UnsupportedError)
# Larger than any output of the cases; a chunk that declares more is not decoded.
AREA_NBYTES = 1 << 20
# Decoded size and block size of the chunks that are damaged; 0 lets C-Blosc choose.
SIZES = ((40, 0), (700, 0), (5001, 1024), (9000, 4096), (600, 128))
SNAPPY = 0x40
NOT_SPLIT = 0x10
_M_PERTURB = -6
_PROT_NONE = 0

_libc = ctypes.CDLL(None, use_errno=True)


class GuardedArea:
    """Memory that ends at a protected page."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, AREA_NBYTES + mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        protect = _libc.mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(address + AREA_NBYTES, mmap.PAGESIZE, _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
        self._view = memoryview(self._map)

    def last(self, nbytes: int) -> memoryview:
        """Return the last `nbytes` before the guard page."""
        return self._view[AREA_NBYTES - nbytes : AREA_NBYTES]

    def holding(self, data: bytes) -> memoryview:
        view = self.last(len(data))
        view[:] = data
        return view


@cache
def areas() -> tuple[GuardedArea, GuardedArea]:
    return GuardedArea(), GuardedArea()


@cache
def chunks() -> list[tuple[str, bytes]]:
    """Valid chunks: every codec, filter and kind of item, one block and many, split or not."""
    rng = Random(1)
    found = []
    for codec in CODECS:
        for typesize in (1, 2, 3, 4, 8, 16, 17, 255):
            for shuffle in (0, 1, 2):
                for nbytes, blocksize in SIZES:
                    steps = b"".join(
                        struct.pack("<I", value // 3 + rng.randrange(2))
                        for value in range(nbytes // 4 + 1)
                    )
                    params = CodecParams(codec, rng.choice((1, 5, 9)), shuffle, typesize, blocksize)
                    what = f"{codec} typesize {typesize} shuffle {shuffle} {nbytes}/{blocksize}"
                    found.append((what, encode(steps[:nbytes], params)))
    for typesize in (1, 4, 16, 32):
        for filtered in (0, 1, 4):
            what = f"snappy typesize {typesize} filter {filtered}"
            found.append((what, snappy_chunk(rng, typesize, SNAPPY | NOT_SPLIT | filtered)))
            found.append((what + " split", snappy_chunk(rng, typesize, SNAPPY | filtered)))
    return found


def snappy_stream(rng: Random, nbytes: int) -> bytes:
    """Return a valid Snappy stream that decodes to `nbytes` arbitrary bytes."""
    stream, done = bytearray(), 0
    left = nbytes
    while True:
        stream.append(left & 0x7F | (0x80 if left > 0x7F else 0))
        left >>= 7
        if not left:
            break
    while done < nbytes:
        left = nbytes - done
        kind = rng.randrange(4) if done >= 12 and left >= 12 else 0
        if kind == 0:
            length = min(left, rng.choice((1, 20, 60, 61, 200)))
            wide = length > 60
            stream += bytes((60 << 2, length - 1)) if wide else bytes(((length - 1) << 2,))
            stream += rng.randbytes(length)
        elif kind == 1:
            length, offset = rng.randrange(4, 12), rng.randrange(1, min(done, 2000) + 1)
            stream += bytes((offset >> 8 << 5 | (length - 4) << 2 | 1, offset & 0xFF))
        else:
            length, offset = rng.randrange(1, min(left, 64) + 1), rng.randrange(1, done + 1)
            stream.append((length - 1) << 2 | kind)
            stream += offset.to_bytes(2 if kind == 2 else 4, "little")
        done += length
    return bytes(stream)


def snappy_chunk(rng: Random, typesize: int, flags: int) -> bytes:
    """Return a valid chunk of two blocks and a shorter one; the wheel's C-Blosc cannot make it."""
    sizes = (4096, 4096, 700)
    starts, body = [], b""
    for index, nbytes in enumerate(sizes):
        starts.append(16 + 4 * len(sizes) + len(body))
        split = not flags & NOT_SPLIT and typesize <= 16 and index < 2
        nstreams = typesize if split else 1
        for _ in range(nstreams):
            stream = snappy_stream(rng, nbytes // nstreams)
            body += struct.pack("<i", len(stream)) + stream
    head = struct.pack("<BBBB", 2, 1, flags, typesize)
    cbytes = 16 + 4 * len(sizes) + len(body)
    head += struct.pack("<III", sum(sizes), sizes[0], cbytes)
    return head + struct.pack("<3I", *starts) + body


def run_case(rng: Random) -> tuple[str, list[str], int]:
    if rng.random() < 0.1:
        return snappy_case(rng)
    what, chunk = rng.choice(chunks())
    data = bytearray(chunk)
    what = f"{what}: {damage(rng, data, chunk_fields(0))}"
    if len(data) >= 16 and rng.random() < 0.9:
        # A chunk whose stored size is not its length is refused immediately.
        data[12:16] = struct.pack("<I", len(data))
    return what, judge(bytes(data), rng), 2 * AREA_NBYTES


def snappy_case(rng: Random) -> tuple[str, list[str], int]:
    """Run our Snappy decoder alone on a damaged stream, with an output of about its size."""
    nbytes = rng.choice((1, 5, 60, 300, 3000))
    data = bytearray(snappy_stream(rng, nbytes))
    what = f"snappy stream of {nbytes}: {damage(rng, data, [(0, 1), (1, 1), (2, 4)])}"
    room = max(1, nbytes + rng.choice((0, 0, 0, -1, 1)))
    if rng.random() < 0.5:  # the declared size, so that more than the size is checked
        declared = 0
        for shift, byte in enumerate(data[:3]):
            declared |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                break
        room = min(max(declared, 1), AREA_NBYTES)
    results = []
    for fill in (0x55, 0xAA):
        source, target = areas()
        view, out = source.holding(bytes(data)), target.last(room)
        out[:] = bytes((fill,)) * room
        results.append(bytes(out) if snappy.decompress_into(view, out) else None)
    faults = [] if results[0] == results[1] else ["the result depends on what was there before"]
    return what, faults, 2 * AREA_NBYTES


def judge(chunk: bytes, rng: Random) -> list[str]:
    """Return the faults found while decoding `chunk`."""
    try:
        header = ChunkHeader.unpack(chunk)
    except ERRORS:
        header = None
    except Exception as err:
        return [f"ChunkHeader.unpack: {type(err).__name__}: {err}"]
    faults: list[str] = []
    # The kernel is called even with a bad header, as it must not rely on its caller.
    raw_nbytes = int.from_bytes(chunk[4:8], "little")
    nbytes = header.nbytes if header else raw_nbytes
    if nbytes > AREA_NBYTES:
        return faults
    whole = _decode(chunk, nbytes, None, faults)
    wrong = min(max(0, nbytes + rng.choice((-1, 1, 8))), AREA_NBYTES)
    if wrong != nbytes and _decode(chunk, wrong, None, faults) is not None:
        faults.append(f"whole: {wrong} bytes from a chunk of {nbytes}")
    typesize = chunk[3] if len(chunk) > 3 else 1
    count = nbytes // typesize if typesize else 1
    for _ in range(3):
        start = rng.randrange(count + 1)
        nitems = rng.choice((1, 2, 9, count)) if rng.random() < 0.9 else 1 << 31
        at, room = start * typesize, nitems * typesize
        if room > AREA_NBYTES:
            continue
        part = _decode(chunk, room, at, faults)
        if whole is not None and part is not None and part != whole[at : at + room]:
            faults.append(f"bytes {at} + {room}: not what the whole has there")
        blocks = _decode(chunk, room, at, faults, by_blocks=True)
        if part is not None and blocks is not None and part != blocks:
            faults.append(f"bytes {at} + {room}: other by their blocks alone")
    return faults


def _decode(
    chunk: bytes, room: int, start: int | None, faults: list[str], *, by_blocks: bool = False
) -> bytes | None:
    what = f"whole into {room}" if start is None else f"bytes {start} + {room}"
    results = []
    for fill in (0x55, 0xAA):
        _libc.mallopt(_M_PERTURB, fill)
        source, target = areas()
        view, out = source.holding(chunk), target.last(room)
        out[:] = bytes((fill,)) * room
        try:
            if start is None:
                decode_into(view, out)
            elif by_blocks:
                head = chunk[: ChunkHeader.unpack(chunk).head_size(chunk)]
                low, high = extent_of_range(head, start, start + room)
                # Only the extent is present: the source ends where the extent ends.
                stored, view = source.holding(chunk[low:high]), memoryview(chunk)
                decode_blocks_into(head, stored, low, start, out)
            else:
                decode_range_into(view, start, out)
        except ERRORS:
            results.append(None)
        except Exception as err:
            faults.append(f"{what}: {type(err).__name__}: {err}")
            results.append(None)
        else:
            results.append(bytes(out))
        if view != chunk:
            faults.append(f"{what}: the input was changed")
    _libc.mallopt(_M_PERTURB, 0)
    if results[0] != results[1]:
        faults.append(f"{what}: the result depends on what was in memory before")
    return results[0]
