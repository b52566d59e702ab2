# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because buffers are indexed by the constant 0 after their length was checked to
# be positive, and otherwise through pointers whose distance to the end is compared before each read.
"""Payloads of sensor records: LZ4 and Zstandard frames, and gathering of extents of records.

A frame is one LZ4 frame (lz4_Frame_format.md 1.6.2) or one Zstandard frame (RFC 8878, section 3.1)
and ends where its bytes end. The kernel handles frames and rows of bytes; it does not know records,
files or presets. Decoding does not trust any field: `limit_of` computes the most bytes that a frame
can hold from the sizes of its blocks, before memory is allocated, and `decode_into` fills exactly
its output buffer. Failures are returned as negative codes; the caller turns them into exceptions.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from block cimport (
    ZSTD_CCtx,
    ZSTD_CCtx_setParameter,
    ZSTD_DCtx,
    ZSTD_c_compressionLevel,
    ZSTD_compress2,
    ZSTD_createCCtx,
    ZSTD_createDCtx,
    ZSTD_decompressDCtx,
    ZSTD_freeCCtx,
    ZSTD_freeDCtx,
    ZSTD_isError,
    little_endian,
    put_little_endian,
)
from lz4_c cimport LZ4_compress_fast, LZ4_compress_HC, LZ4_decompress_safe_usingDict


# Numbers over 2^31, which Cython would hold in Python objects or variables.
cdef extern from *:
    """
    #define PRIME_1 0x9E3779B1u
    #define PRIME_2 0x85EBCA77u
    #define PRIME_3 0xC2B2AE3Du
    #define PRIME_4 0x27D4EB2Fu
    #define PRIME_5 0x165667B1u
    #define LZ4_RAW_BLOCK ((size_t) 1 << 31)
    #define ZSTD_MAGIC 0xFD2FB528u
    """
    const uint32_t PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5
    const size_t LZ4_RAW_BLOCK  # highest bit of the size of a block
    const uint32_t ZSTD_MAGIC


# The numbers of vrs/format.py: Compression. Stored on disk.
cdef enum:
    CODEC_LZ4 = 1
    CODEC_ZSTD = 2

cdef enum:
    REFUSED_HEADER = -1
    REFUSED_CUT = -2
    REFUSED_TRAILING = -3
    REFUSED_SIZE = -4
    REFUSED_BLOCK = -5
    REFUSED_CHECKSUM = -6
    REFUSED_DICTIONARY = -7
    REFUSED_MEMORY = -8
    REFUSED_ROOM = -9

LZ4 = CODEC_LZ4
ZSTD = CODEC_ZSTD
NOT_A_FRAME = REFUSED_HEADER
CUT = REFUSED_CUT
TRAILING = REFUSED_TRAILING
WRONG_SIZE = REFUSED_SIZE
BAD_BLOCK = REFUSED_BLOCK
WRONG_CHECKSUM = REFUSED_CHECKSUM
NEEDS_DICTIONARY = REFUSED_DICTIONARY
NO_MEMORY = REFUSED_MEMORY
NO_ROOM = REFUSED_ROOM


cdef inline uint64_t little_endian64(const uint8_t *source) noexcept nogil:
    return <uint64_t> little_endian(source) | <uint64_t> little_endian(source + 4) << 32


# XXH32 with seed 0, used for the three checksums of LZ4 frames (xxHash, doc/xxhash_spec.md).

cdef enum:
    STRIPE_NBYTES = 16


cdef inline uint32_t rotated(uint32_t value, int bits) noexcept nogil:
    return value << bits | value >> (32 - bits)


cdef inline uint32_t lane_of(const uint8_t *source) noexcept nogil:
    return <uint32_t> little_endian(source)


cdef inline uint32_t stirred(uint32_t lane, const uint8_t *source) noexcept nogil:
    return rotated(lane + lane_of(source) * PRIME_2, 13) * PRIME_1


cdef uint32_t xxh32(const uint8_t *source, size_t nbytes) noexcept nogil:
    cdef uint32_t a = PRIME_1 + PRIME_2, b = PRIME_2, c = 0, d = 0 - PRIME_1
    cdef uint32_t value = PRIME_5
    cdef size_t position = 0
    if nbytes >= STRIPE_NBYTES:
        while nbytes - position >= STRIPE_NBYTES:
            a = stirred(a, source + position)
            b = stirred(b, source + position + 4)
            c = stirred(c, source + position + 8)
            d = stirred(d, source + position + 12)
            position += STRIPE_NBYTES
        value = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
    value += <uint32_t> nbytes
    while nbytes - position >= 4:
        value = rotated(value + lane_of(source + position) * PRIME_3, 17) * PRIME_4
        position += 4
    while position < nbytes:
        value = rotated(value + source[position] * PRIME_5, 11) * PRIME_1
        position += 1
    value = (value ^ value >> 15) * PRIME_2
    value = (value ^ value >> 13) * PRIME_3
    return value ^ value >> 16


# LZ4 frames.

cdef enum:
    LZ4_MAGIC = 0x184D2204
    LZ4_VERSION = 1
    LZ4_WINDOW = 1 << 16
    # Each extra byte of an LZ4 length adds up to 255.
    LZ4_MAX_EXPANSION = 255
    # Bits of the first byte of the descriptor (FLG); its two highest are the version.
    LZ4_INDEPENDENT = 0x20
    LZ4_BLOCK_CHECKSUM = 0x10
    LZ4_CONTENT_SIZE = 0x08
    LZ4_CONTENT_CHECKSUM = 0x04
    LZ4_RESERVED = 0x02
    LZ4_DICTIONARY = 0x01
    # Magic, FLG, BD, content size, header checksum, as written by `encode_lz4`.
    LZ4_HEADER_NBYTES = 4 + 1 + 1 + 8 + 1
    LZ4_MIN_BLOCK_ID = 4
    LZ4_MAX_BLOCK_ID = 7


cdef struct Frame:
    size_t blocks  # position of the first block
    uint64_t limit  # most bytes the frame can hold
    uint64_t max_block  # most bytes a block can hold
    bint is_sized
    uint64_t nbytes  # content size, if the header has one
    int flags


cdef int parse_lz4(const uint8_t *source, size_t end, Frame *frame) noexcept nogil:
    """Read the header and block sizes of an LZ4 frame of `end` bytes; return 0 or an error code."""
    cdef size_t position = 6, stored, extra
    if end < 7:
        return REFUSED_CUT if end < 4 or little_endian(source) == LZ4_MAGIC else REFUSED_HEADER
    frame.flags = source[4]
    if (little_endian(source) != LZ4_MAGIC or frame.flags >> 6 != LZ4_VERSION
            or frame.flags & LZ4_RESERVED or source[5] & 0x8F
            or source[5] >> 4 < LZ4_MIN_BLOCK_ID):
        return REFUSED_HEADER
    frame.max_block = <uint64_t> 1 << (2 * (source[5] >> 4) + 8)
    frame.is_sized = frame.flags & LZ4_CONTENT_SIZE != 0
    extra = 8 if frame.is_sized else 0
    if frame.flags & LZ4_DICTIONARY:
        extra += 4
    if end - position < extra + 1:
        return REFUSED_CUT
    if frame.is_sized:
        frame.nbytes = little_endian64(source + position)
    position += extra
    if source[position] != xxh32(source + 4, position - 4) >> 8 & 0xFF:
        return REFUSED_HEADER
    if frame.flags & LZ4_DICTIONARY:
        return REFUSED_DICTIONARY
    position += 1
    frame.blocks = position
    frame.limit = 0
    extra = 4 if frame.flags & LZ4_BLOCK_CHECKSUM else 0
    while True:
        if end - position < 4:
            return REFUSED_CUT
        stored = little_endian(source + position)
        position += 4
        if stored == 0:
            break
        if stored & ~LZ4_RAW_BLOCK > frame.max_block:
            return REFUSED_BLOCK
        frame.limit += (stored & ~LZ4_RAW_BLOCK if stored & LZ4_RAW_BLOCK
                        else min(frame.max_block, LZ4_MAX_EXPANSION * <uint64_t> stored))
        stored = (stored & ~LZ4_RAW_BLOCK) + extra
        if stored > end - position:
            return REFUSED_CUT
        position += stored
    extra = 4 if frame.flags & LZ4_CONTENT_CHECKSUM else 0
    if end - position < extra:
        return REFUSED_CUT
    return REFUSED_TRAILING if end - position > extra else 0


cdef int decode_lz4(const uint8_t *source, const Frame *frame, uint8_t *out,
                    size_t nbytes) noexcept nogil:
    """Decode an LZ4 frame that `parse_lz4` accepted into `out`; return 0 or an error code."""
    cdef size_t position = frame.blocks, done = 0, stored, room, window
    cdef int length
    while True:
        stored = little_endian(source + position)
        position += 4
        if stored == 0:
            break
        room = min(nbytes - done, frame.max_block)
        if stored & LZ4_RAW_BLOCK:
            stored &= ~LZ4_RAW_BLOCK
            if stored > room:
                return REFUSED_SIZE
            memcpy(out + done, source + position, stored)
            length = <int> stored
        else:
            window = 0 if frame.flags & LZ4_INDEPENDENT else min(done, <size_t> LZ4_WINDOW)
            length = LZ4_decompress_safe_usingDict(
                <const char *> source + position, <char *> out + done, <int> stored, <int> room,
                <const char *> out + done - window, <int> window)
            if length < 0:
                return REFUSED_BLOCK
        position += stored
        if frame.flags & LZ4_BLOCK_CHECKSUM:
            if lane_of(source + position) != xxh32(source + position - stored, stored):
                return REFUSED_CHECKSUM
            position += 4
        done += length
    if done != nbytes:
        return REFUSED_SIZE
    if frame.flags & LZ4_CONTENT_CHECKSUM and lane_of(source + position) != xxh32(out, nbytes):
        return REFUSED_CHECKSUM
    return 0


cdef size_t encode_lz4(const uint8_t *source, size_t nbytes, int level, uint8_t *out,
                       size_t room) noexcept nogil:
    """Write an LZ4 frame to `out`; return its size, or 0 if `out` is too small."""
    cdef size_t position = LZ4_HEADER_NBYTES, done = 0, length, limit
    cdef int stored, block_id = LZ4_MIN_BLOCK_ID
    while block_id < LZ4_MAX_BLOCK_ID and nbytes > <size_t> 1 << (2 * block_id + 8):
        block_id += 1
    if room < LZ4_HEADER_NBYTES:
        return 0
    put_little_endian(out, LZ4_MAGIC)
    out[4] = LZ4_VERSION << 6 | LZ4_INDEPENDENT | LZ4_CONTENT_SIZE | LZ4_CONTENT_CHECKSUM
    out[5] = block_id << 4
    put_little_endian(out + 6, <uint32_t> nbytes)
    put_little_endian(out + 10, <uint64_t> nbytes >> 32)
    out[14] = xxh32(out + 4, 10) >> 8 & 0xFF
    while done < nbytes:
        length = min(nbytes - done, <size_t> 1 << (2 * block_id + 8))
        if room - position <= 4:
            return 0
        limit = min(room - position - 4, length - 1)  # LZ4 fails unless it saves a byte
        if level > 0:
            stored = LZ4_compress_HC(<const char *> source + done, <char *> out + position + 4,
                                     <int> length, <int> limit, level)
        else:
            stored = LZ4_compress_fast(<const char *> source + done, <char *> out + position + 4,
                                       <int> length, <int> limit, 1)
        if stored > 0:
            put_little_endian(out + position, stored)
            position += 4 + stored
        else:  # incompressible: store the block
            if room - position - 4 < length:
                return 0
            put_little_endian(out + position, length | LZ4_RAW_BLOCK)
            memcpy(out + position + 4, source + done, length)
            position += 4 + length
        done += length
    if room - position < 8:
        return 0
    put_little_endian(out + position, 0)
    put_little_endian(out + position + 4, xxh32(source, nbytes))
    return position + 8


# Zstandard frames.

cdef enum:
    ZSTD_MAX_BLOCK = 1 << 17
    # Bits of the frame header descriptor. Its two highest bits are the width of the content size,
    # the two lowest that of the dictionary id.
    ZSTD_SINGLE_SEGMENT = 0x20
    ZSTD_RESERVED = 0x08
    ZSTD_CHECKSUM = 0x04
    BLOCK_RAW = 0
    BLOCK_REPEATED = 1
    BLOCK_RESERVED = 3
    # zstd.h and zstd_errors.h, release 1.5
    ZSTD_c_checksumFlag = 201
    ZSTD_error_dstSize_tooSmall = 70
    ZSTD_error_checksum_wrong = 22
    ZSTD_error_memory_allocation = 64


cdef int parse_zstd(const uint8_t *source, size_t end, Frame *frame) noexcept nogil:
    """Read the header and block sizes of a frame of `end` bytes; return 0 or an error code."""
    cdef size_t position = 5, width, id_width, stored, header
    cdef bint is_last = False
    if end < 5:
        return REFUSED_CUT if end < 4 or little_endian(source) == ZSTD_MAGIC else REFUSED_HEADER
    frame.flags = source[4]
    if little_endian(source) != ZSTD_MAGIC or frame.flags & ZSTD_RESERVED:
        return REFUSED_HEADER
    width = (<size_t> 1 << (frame.flags >> 6)) & ~<size_t> 1
    if frame.flags & ZSTD_SINGLE_SEGMENT:
        width = max(width, 1)
    else:
        position += 1
    id_width = (<size_t> 1 << (frame.flags & 3)) >> 1
    if end < position or end - position < id_width + width:
        return REFUSED_CUT
    while id_width > 0:
        id_width -= 1
        if source[position]:
            return REFUSED_DICTIONARY
        position += 1
    frame.is_sized = width > 0
    frame.nbytes = 0
    for header in range(width):
        frame.nbytes |= <uint64_t> source[position + header] << (8 * header)
    if width == 2:
        frame.nbytes += 256
    position += width
    frame.blocks = position
    frame.limit = 0
    while not is_last:
        if end - position < 3:
            return REFUSED_CUT
        header = (source[position] | <size_t> source[position + 1] << 8
                  | <size_t> source[position + 2] << 16)
        position += 3
        is_last = header & 1
        stored = header >> 3
        if stored > ZSTD_MAX_BLOCK or header >> 1 & 3 == BLOCK_RESERVED:
            return REFUSED_BLOCK
        if header >> 1 & 3 == BLOCK_REPEATED:
            frame.limit += stored
            stored = 1
        else:
            frame.limit += stored if header >> 1 & 3 == BLOCK_RAW else <size_t> ZSTD_MAX_BLOCK
        if stored > end - position:
            return REFUSED_CUT
        position += stored
    stored = 4 if frame.flags & ZSTD_CHECKSUM else 0
    if end - position < stored:
        return REFUSED_CUT
    return REFUSED_TRAILING if end - position > stored else 0


cdef int decode_zstd(const uint8_t *source, size_t end, uint8_t *out, size_t nbytes,
                     Workspace workspace) noexcept nogil:
    cdef size_t length
    if workspace.dctx == NULL:
        workspace.dctx = ZSTD_createDCtx()
        if workspace.dctx == NULL:
            return REFUSED_MEMORY
    length = ZSTD_decompressDCtx(workspace.dctx, out, nbytes, source, end)
    if ZSTD_isError(length):
        if 0 - length == ZSTD_error_dstSize_tooSmall:
            return REFUSED_SIZE
        if 0 - length == ZSTD_error_memory_allocation:
            return REFUSED_MEMORY
        return REFUSED_CHECKSUM if 0 - length == ZSTD_error_checksum_wrong else REFUSED_BLOCK
    return 0 if length == nbytes else REFUSED_SIZE


cdef class Workspace:
    """Zstandard contexts for one thread at a time, reused by later calls."""

    cdef ZSTD_DCtx *dctx
    cdef ZSTD_CCtx *cctx

    def __dealloc__(self):
        ZSTD_freeDCtx(self.dctx)
        ZSTD_freeCCtx(self.cctx)


# Unused workspaces, at most MAX_IDLE. Threads share the list without a lock, because `pop` and
# `append` of a list are atomic.
cdef list idle = []

cdef enum:
    MAX_IDLE = 16


cdef Workspace take_workspace():
    try:
        return idle.pop()
    except IndexError:
        return Workspace()


cdef int put_back(Workspace workspace) except -1:
    if len(idle) < MAX_IDLE:
        idle.append(workspace)
    return 0


cdef inline int parse(int codec, const uint8_t *source, size_t cbytes, Frame *frame) noexcept nogil:
    cdef int code
    if codec == CODEC_LZ4:
        code = parse_lz4(source, cbytes, frame)
    else:
        code = parse_zstd(source, cbytes, frame)
    if code == 0 and frame.is_sized and frame.nbytes > frame.limit:
        return REFUSED_SIZE
    return code


def limit_of(int codec, const uint8_t[::1] stored not None):
    """Return the most bytes that a frame can hold, by the sizes of its blocks, or an error code.

    If the frame declares its content size, that is returned.
    """
    cdef Frame frame
    cdef size_t cbytes = stored.shape[0]
    cdef int code
    if cbytes == 0:
        return REFUSED_CUT
    with nogil:
        code = parse(codec, &stored[0], cbytes, &frame)
    if code:
        return code
    return frame.nbytes if frame.is_sized else frame.limit


def decode_into(int codec, const uint8_t[::1] stored not None, uint8_t[::1] out not None):
    """Decode a frame into `out`, which it must fill exactly; return 0 or an error code.

    After an error, `out` may be partly written.
    """
    cdef Frame frame
    cdef size_t cbytes = stored.shape[0], nbytes = out.shape[0]
    cdef uint8_t nothing = 0
    cdef uint8_t *target = &out[0] if nbytes else &nothing
    cdef Workspace workspace = None
    cdef int code
    if cbytes == 0:
        return REFUSED_CUT
    if codec == CODEC_ZSTD:
        workspace = take_workspace()
    with nogil:
        code = parse(codec, &stored[0], cbytes, &frame)
        if code == 0 and (frame.limit < nbytes or frame.is_sized and frame.nbytes != nbytes):
            code = REFUSED_SIZE
        if code == 0:
            if codec == CODEC_LZ4:
                code = decode_lz4(&stored[0], &frame, target, nbytes)
            else:
                code = decode_zstd(&stored[0], cbytes, target, nbytes, workspace)
    if workspace is not None:
        put_back(workspace)
    return code


def encode(int codec, int level, const uint8_t[::1] payload not None, size_t room):
    """Return `payload` as a frame of at most `room` bytes, or an error code.

    LZ4 levels above 0 use LZ4 HC. Frames declare their content size and end with a checksum of the
    content.
    """
    cdef size_t nbytes = payload.shape[0], cbytes = 0
    cdef const uint8_t *source = &payload[0] if nbytes else <const uint8_t *> b""
    cdef bytes frame = PyBytes_FromStringAndSize(NULL, room)
    cdef uint8_t *target = <uint8_t *> PyBytes_AS_STRING(frame)
    cdef Workspace workspace
    if codec == CODEC_LZ4:
        with nogil:
            cbytes = encode_lz4(source, nbytes, level, target, room)
    else:
        workspace = take_workspace()
        with nogil:
            if workspace.cctx == NULL:
                workspace.cctx = ZSTD_createCCtx()
            if workspace.cctx == NULL:
                cbytes = 0 - <size_t> ZSTD_error_memory_allocation
            else:
                ZSTD_CCtx_setParameter(workspace.cctx, ZSTD_c_compressionLevel, level)
                ZSTD_CCtx_setParameter(workspace.cctx, ZSTD_c_checksumFlag, 1)
                cbytes = ZSTD_compress2(workspace.cctx, target, room, source, nbytes)
        put_back(workspace)
        if ZSTD_isError(cbytes):
            if 0 - cbytes == ZSTD_error_dstSize_tooSmall:
                return REFUSED_ROOM
            return REFUSED_MEMORY
    if cbytes == 0:
        return REFUSED_ROOM
    return PyBytes_FromStringAndSize(<char *> target, cbytes)


def gather(const uint8_t[::1] view not None, int64_t start, const int64_t[::1] offsets not None,
           uint8_t[:, ::1] out not None):
    """Copy row k of `out` from byte ``offsets[k] - start`` of `view`, for each k.

    Return the first k whose bytes are not all in `view`, or -1. `out` must have one row per offset.
    """
    cdef Py_ssize_t nrows = offsets.shape[0], row = 0
    cdef size_t nbytes = out.shape[1], end = view.shape[0]
    cdef const uint8_t *source
    cdef uint8_t *target
    if out.shape[0] != nrows:
        raise ValueError(f"{out.shape[0]} rows for {nrows} offsets")
    if nrows == 0 or nbytes == 0:
        return -1
    if end < nbytes:
        return 0
    source, target = &view[0], &out[0, 0]
    with nogil:
        # For a constant size, the compiler turns memcpy into one or two instructions.
        if nbytes == 8:
            row = gather_rows(source, end, start, &offsets[0], nrows, target, 8)
        elif nbytes == 4:
            row = gather_rows(source, end, start, &offsets[0], nrows, target, 4)
        elif nbytes == 12:
            row = gather_rows(source, end, start, &offsets[0], nrows, target, 12)
        elif nbytes == 32:
            row = gather_rows(source, end, start, &offsets[0], nrows, target, 32)
        else:
            row = gather_rows(source, end, start, &offsets[0], nrows, target, nbytes)
    return row


cdef inline Py_ssize_t gather_rows(const uint8_t *source, size_t end, int64_t start,
                                   const int64_t *offsets, Py_ssize_t nrows, uint8_t *target,
                                   size_t nbytes) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(nrows):
        # The difference is unsigned: an offset before `start` becomes a huge number.
        if <uint64_t> offsets[row] - <uint64_t> start > end - nbytes:
            return row
        memcpy(target + row * nbytes, source + (offsets[row] - start), nbytes)
    return -1


def gather_ragged(const uint8_t[::1] view not None, int64_t start,
                  const int64_t[::1] offsets not None, const int64_t[::1] ends not None,
                  uint8_t[::1] out not None):
    """Copy bytes ``ends[k] .. ends[k + 1]`` of `out` from byte ``offsets[k] - start`` of `view`.

    Return the first k whose bytes are not all in `view` or do not fit into `out`, or -1. `ends`
    must have one number more than `offsets`.
    """
    cdef Py_ssize_t nrows = offsets.shape[0], row
    cdef size_t end = view.shape[0], room = out.shape[0]
    cdef const uint8_t *source
    cdef uint8_t *target
    cdef int64_t length
    if ends.shape[0] != nrows + 1:
        raise ValueError(f"{ends.shape[0]} ends for {nrows} offsets")
    source = &view[0] if end else NULL
    target = &out[0] if room else NULL
    with nogil:
        for row in range(nrows):
            if ends[row] < 0 or ends[row + 1] < ends[row] or <size_t> ends[row + 1] > room:
                break
            length = ends[row + 1] - ends[row]
            if length == 0:
                continue
            if (<size_t> length > end
                    or <uint64_t> offsets[row] - <uint64_t> start > end - <size_t> length):
                break
            memcpy(target + ends[row], source + (offsets[row] - start), <size_t> length)
        else:
            row = -1
    return row
