# The blocks of a Blosc-1 chunk, one by one: what C-Blosc does in `blosc_d` and `blosc_c`
# (c-blosc 1.21, blosc.c), with one Zstandard context for all streams instead of a new one for
# each, which for blocks of 32 KiB is most of the time.
#
# Pure C on pointers: nothing here knows Python. Every position and size read from a chunk is
# compared with the bytes given before it is used.

from libc.stdint cimport INT32_MAX, int32_t, uint8_t
from libc.string cimport memcpy

cdef extern from "lz4_sparse.h" nogil:
    size_t encode_sparse_lz4(const uint8_t *, size_t, uint8_t *, size_t)

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    /* Exported by libblosc.a, which bundles the codecs; the wheel has no headers for them. */
    typedef struct ZSTD_DCtx_s ZSTD_DCtx;
    typedef struct ZSTD_CCtx_s ZSTD_CCtx;
    ZSTD_DCtx *ZSTD_createDCtx(void);
    size_t ZSTD_freeDCtx(ZSTD_DCtx *);
    size_t ZSTD_decompressDCtx(ZSTD_DCtx *, void *, size_t, const void *, size_t);
    ZSTD_CCtx *ZSTD_createCCtx(void);
    size_t ZSTD_freeCCtx(ZSTD_CCtx *);
    size_t ZSTD_compressCCtx(ZSTD_CCtx *, void *, size_t, const void *, size_t, int);
    /* ZSTD_CCtx_setParameter, whose enum is these numbers (zstd.h, release 1.5). */
    enum {
        ZSTD_c_compressionLevel = 100, ZSTD_c_minMatch = 105, ZSTD_c_targetLength = 106,
        ZSTD_c_strategy = 107, ZSTD_c_literalCompressionMode = 1002,
    };
    size_t ZSTD_CCtx_setParameter(ZSTD_CCtx *, int, int);
    size_t ZSTD_compress2(ZSTD_CCtx *, void *, size_t, const void *, size_t);
    unsigned ZSTD_isError(size_t);
    int ZSTD_maxCLevel(void);
    int LZ4_decompress_safe(const char *, char *, int, int);
    void blosc_internal_shuffle(const size_t, const size_t, const uint8_t *, const uint8_t *);
    void blosc_internal_unshuffle(const size_t, const size_t, const uint8_t *, const uint8_t *);
    int blosc_internal_bitshuffle(const size_t, const size_t, const uint8_t *, const uint8_t *,
                                  const uint8_t *);
    int blosc_internal_bitunshuffle(const size_t, const size_t, const uint8_t *, const uint8_t *,
                                    const uint8_t *);
    static void interleave(const uint8_t *low, const uint8_t *high, size_t n, uint8_t *out)
    {
        for (size_t i = 0; i < n; i++) {
            out[2 * i] = low[i];
            out[2 * i + 1] = high[i];
        }
    }
    """
    ctypedef struct ZSTD_DCtx:
        pass
    ctypedef struct ZSTD_CCtx:
        pass
    ZSTD_DCtx *ZSTD_createDCtx() nogil
    size_t ZSTD_freeDCtx(ZSTD_DCtx *) nogil
    size_t ZSTD_decompressDCtx(ZSTD_DCtx *, void *, size_t, const void *, size_t) nogil
    ZSTD_CCtx *ZSTD_createCCtx() nogil
    size_t ZSTD_freeCCtx(ZSTD_CCtx *) nogil
    size_t ZSTD_compressCCtx(ZSTD_CCtx *, void *, size_t, const void *, size_t, int) nogil
    enum:
        ZSTD_c_compressionLevel
        ZSTD_c_minMatch
        ZSTD_c_targetLength
        ZSTD_c_strategy
        ZSTD_c_literalCompressionMode
    size_t ZSTD_CCtx_setParameter(ZSTD_CCtx *, int, int) nogil
    size_t ZSTD_compress2(ZSTD_CCtx *, void *, size_t, const void *, size_t) nogil
    unsigned ZSTD_isError(size_t) nogil
    int ZSTD_maxCLevel() nogil
    int LZ4_decompress_safe(const char *, char *, int, int) nogil
    void blosc_internal_shuffle(size_t, size_t, const uint8_t *, uint8_t *) nogil
    void blosc_internal_unshuffle(size_t, size_t, const uint8_t *, uint8_t *) nogil
    int blosc_internal_bitshuffle(size_t, size_t, const uint8_t *, uint8_t *, uint8_t *) nogil
    int blosc_internal_bitunshuffle(size_t, size_t, const uint8_t *, uint8_t *, uint8_t *) nogil
    void interleave(const uint8_t *, const uint8_t *, size_t, uint8_t *) nogil


cdef enum:
    HEADER_NBYTES = 16
    BLOCK_START_NBYTES = 4
    STREAM_SIZE_NBYTES = 4
    # Bits of the flags byte.
    FLAG_BYTE_SHUFFLE = 0x01
    FLAG_MEMCPY = 0x02
    FLAG_BIT_SHUFFLE = 0x04
    FLAG_NOT_SPLIT = 0x10
    # Bits 5 to 7 of it.
    FORMAT_LZ4 = 1
    FORMAT_ZSTD = 4
    # blosc.c: MAX_SPLITS, MIN_BUFFERSIZE
    MAX_SPLITS = 16
    MIN_SPLIT_NBYTES = 128


# The fields of a chunk's header, and those of its bytes that were read.
cdef struct Chunk:
    const uint8_t *head  # header and block starts
    const uint8_t *data  # bytes `low` to `high` of the chunk
    size_t low
    size_t high
    int flags
    size_t typesize
    size_t nbytes
    size_t blocksize
    size_t nblocks


# What decoding and encoding need beside source and destination.
cdef struct Scratch:
    ZSTD_DCtx *dctx
    ZSTD_CCtx *cctx
    uint8_t *streams  # a block before its filter is undone
    uint8_t *bits  # what the bit shuffle works in
    uint8_t *block  # a block of which only a part is wanted


cdef inline size_t little_endian(const uint8_t *source) noexcept nogil:
    return (<size_t> source[0] | <size_t> source[1] << 8 | <size_t> source[2] << 16
            | <size_t> source[3] << 24)


cdef inline void put_little_endian(uint8_t *target, size_t value) noexcept nogil:
    target[0] = value & 0xFF
    target[1] = value >> 8 & 0xFF
    target[2] = value >> 16 & 0xFF
    target[3] = value >> 24 & 0xFF


cdef inline size_t splits_of(int flags, size_t typesize, size_t blocksize) noexcept nogil:
    """Streams of a whole block."""
    if (flags & FLAG_NOT_SPLIT or typesize == 0 or typesize > MAX_SPLITS
            or blocksize // typesize < MIN_SPLIT_NBYTES):
        return 1
    return typesize


cdef inline bint parse_chunk(const uint8_t *head, size_t head_size, Chunk *chunk) noexcept nogil:
    """Fill in what the header says; return whether the block starts are all in `head`."""
    if head_size < HEADER_NBYTES:
        return False
    chunk.head = head
    chunk.flags = head[2]
    chunk.typesize = head[3]
    chunk.nbytes = little_endian(head + 4)
    chunk.blocksize = little_endian(head + 8)
    chunk.nblocks = 0
    if chunk.flags & FLAG_MEMCPY:
        return True
    if chunk.blocksize == 0 or chunk.blocksize > chunk.nbytes or chunk.typesize == 0:
        return False
    chunk.nblocks = (chunk.nbytes + chunk.blocksize - 1) // chunk.blocksize
    return chunk.nblocks <= (head_size - HEADER_NBYTES) // BLOCK_START_NBYTES


cdef inline bint is_ours(int flags) noexcept nogil:
    """Return whether `decode_range` can decode a chunk; C-Blosc has the other formats."""
    return flags & FLAG_MEMCPY or flags >> 5 == FORMAT_ZSTD or flags >> 5 == FORMAT_LZ4


cdef inline bint needs_filter(int flags, size_t typesize, size_t nbytes) noexcept nogil:
    if flags & FLAG_BYTE_SHUFFLE:
        return typesize > 1
    return flags & FLAG_BIT_SHUFFLE and nbytes >= typesize


cdef inline size_t block_start(const Chunk *chunk, size_t index) noexcept nogil:
    return little_endian(chunk.head + HEADER_NBYTES + BLOCK_START_NBYTES * index)


cdef inline bint decode_streams(const Chunk *chunk, size_t index, size_t nbytes, uint8_t *out,
                                ZSTD_DCtx *dctx, const uint8_t **streams) noexcept nogil:
    """Decode the streams of block `index` to `nbytes` bytes at `out`; return whether they are.

    With `streams`, one that is stored uncompressed is not copied: each of the first two is where
    `streams` says.
    """
    cdef size_t nsplits = 1, position = block_start(chunk, index), length, stored, split
    cdef const uint8_t *stream
    if nbytes > INT32_MAX:  # LZ4 takes sizes as int: -1 would be its room and its error
        return False
    if nbytes == chunk.blocksize:  # the short block at the end is never split
        nsplits = splits_of(chunk.flags, chunk.typesize, nbytes)
    length = nbytes // nsplits
    if length * nsplits != nbytes:
        return False  # the rest of the block would be uninitialized memory
    for split in range(nsplits):
        if (position < chunk.low or position > chunk.high
                or chunk.high - position < STREAM_SIZE_NBYTES):
            return False
        stored = little_endian(chunk.data + (position - chunk.low))
        position += STREAM_SIZE_NBYTES
        if stored > chunk.high - position or stored > INT32_MAX:
            return False
        stream = chunk.data + (position - chunk.low)
        if streams != NULL and split < 2:
            streams[split] = stream if stored == length else out
        if stored == length:
            if streams == NULL:
                memcpy(out, stream, length)
        elif chunk.flags >> 5 == FORMAT_ZSTD:
            if ZSTD_decompressDCtx(dctx, out, length, stream, stored) != length:
                return False
        elif LZ4_decompress_safe(<const char *> stream, <char *> out, <int> stored,
                                 <int> length) != <int> length:
            return False
        out += length
        position += stored
    return True


cdef inline bint decode_block(const Chunk *chunk, size_t index, size_t nbytes, uint8_t *out,
                              Scratch *scratch) noexcept nogil:
    """Decode block `index`, `nbytes` long, to `out`; return whether it could be."""
    cdef const uint8_t *streams[2]
    if not needs_filter(chunk.flags, chunk.typesize, nbytes):
        return decode_streams(chunk, index, nbytes, out, scratch.dctx, NULL)
    if chunk.flags & FLAG_BYTE_SHUFFLE and chunk.typesize == 2:
        # Without a copy of the low bytes, which often cannot be compressed.
        streams[1] = NULL
        if not decode_streams(chunk, index, nbytes, scratch.streams, scratch.dctx, streams):
            return False
        if streams[1] == NULL:
            blosc_internal_unshuffle(2, nbytes, streams[0], out)
        else:
            interleave(streams[0], streams[1], nbytes // 2, out)
        return True
    if not decode_streams(chunk, index, nbytes, scratch.streams, scratch.dctx, NULL):
        return False
    if chunk.flags & FLAG_BYTE_SHUFFLE:
        blosc_internal_unshuffle(chunk.typesize, nbytes, scratch.streams, out)
        return True
    return blosc_internal_bitunshuffle(chunk.typesize, nbytes, scratch.streams, out,
                                       scratch.bits) >= 0


cdef inline bint decode_range(const Chunk *chunk, size_t start, size_t count, uint8_t *out,
                              Scratch *scratch) noexcept nogil:
    """Decode `count` bytes from `start`, which lie within the chunk; return whether they are."""
    cdef size_t index, first, nbytes, low, high
    cdef size_t stop = start + count
    if chunk.flags & FLAG_MEMCPY:
        low = HEADER_NBYTES + start
        if low < chunk.low or low > chunk.high or chunk.high - low < count:
            return False
        memcpy(out, chunk.data + (low - chunk.low), count)
        return True
    for index in range(start // chunk.blocksize, (stop - 1) // chunk.blocksize + 1):
        first = index * chunk.blocksize
        nbytes = min(chunk.blocksize, chunk.nbytes - first)
        low = max(start, first)
        high = min(stop, first + nbytes)
        if high - low == nbytes:
            if not decode_block(chunk, index, nbytes, out + (low - start), scratch):
                return False
        else:
            if not decode_block(chunk, index, nbytes, scratch.block, scratch):
                return False
            memcpy(out + (low - start), scratch.block + (low - first), high - low)
    return True


cdef inline void blocks_extent(const Chunk *chunk, size_t cbytes, size_t start, size_t stop,
                               size_t *low, size_t *high) noexcept nogil:
    """Set the part of the chunk that holds the blocks of bytes `start` to `stop`.

    Blocks need not be in order: C-Blosc's threads store them as they are done. The end of the last
    one is where the next stored one starts.
    """
    cdef size_t index, position, last = 0
    low[0] = high[0] = cbytes
    for index in range(start // chunk.blocksize, (stop - 1) // chunk.blocksize + 1):
        position = block_start(chunk, index)
        low[0] = min(low[0], position)
        last = max(last, position)
    for index in range(chunk.nblocks):
        position = block_start(chunk, index)
        if last < position < high[0]:
            high[0] = position


cdef inline int zstd_level(int clevel) noexcept nogil:
    """Return Zstandard's level for one of C-Blosc's (blosc.c, ``zstd_wrap_compress``)."""
    return 2 * clevel - 1 if clevel < 9 else ZSTD_maxCLevel()


# Residuals of a good prediction hardly repeat: what matches are found are short, save nothing and
# take most of the time of decoding. So these are looked for in few places, and the bytes are Huffman
# coded (which the fast levels leave out). On the animation of bench/: 2 % smaller and 1.6 times as
# fast to decode as level 1.
#
# LZ4 codes bit planes, a block each: what it makes but a little smaller is faster to read as it is.
cdef enum:
    STRATEGY_FAST = 1
    MATCH_NBYTES = 7
    SEARCH_STEP = 64
    LITERALS_HUFFMAN = 1
    LZ4_MIN_GAIN = 8  # one byte must be saved per this number


cdef inline ZSTD_CCtx *create_encoder() noexcept nogil:
    """Return a context whose parameters, which `ZSTD_compress2` alone uses, are for residuals."""
    cdef ZSTD_CCtx *cctx = ZSTD_createCCtx()
    if cctx != NULL:
        ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, 1)
        ZSTD_CCtx_setParameter(cctx, ZSTD_c_strategy, STRATEGY_FAST)
        ZSTD_CCtx_setParameter(cctx, ZSTD_c_minMatch, MATCH_NBYTES)
        ZSTD_CCtx_setParameter(cctx, ZSTD_c_targetLength, SEARCH_STEP)
        ZSTD_CCtx_setParameter(cctx, ZSTD_c_literalCompressionMode, LITERALS_HUFFMAN)
    return cctx


cdef inline size_t encode_block(const uint8_t *source, size_t nbytes, int flags, size_t typesize,
                                int clevel, bint residual, uint8_t *out, size_t room,
                                Scratch *scratch) noexcept nogil:
    """Encode a block as one stream; return its size with its length, 0 if there is no room."""
    cdef size_t stored, limit
    if room <= STREAM_SIZE_NBYTES:
        return 0
    if needs_filter(flags, typesize, nbytes):
        if flags & FLAG_BYTE_SHUFFLE:
            blosc_internal_shuffle(typesize, nbytes, source, scratch.streams)
        elif blosc_internal_bitshuffle(typesize, nbytes, source, scratch.streams,
                                       scratch.bits) < 0:
            return 0
        source = scratch.streams
    limit = min(nbytes, room - STREAM_SIZE_NBYTES)
    if flags >> 5 == FORMAT_LZ4:
        stored = encode_sparse_lz4(source, nbytes, out + STREAM_SIZE_NBYTES,
                                   min(limit, nbytes - nbytes // LZ4_MIN_GAIN))
        if stored == 0:
            stored = nbytes
    elif residual:
        stored = ZSTD_compress2(scratch.cctx, out + STREAM_SIZE_NBYTES, limit, source, nbytes)
    else:
        stored = ZSTD_compressCCtx(scratch.cctx, out + STREAM_SIZE_NBYTES, limit, source, nbytes,
                                   zstd_level(clevel))
    if ZSTD_isError(stored) or stored == nbytes:  # it cannot be made smaller
        if limit < nbytes:
            return 0
        memcpy(out + STREAM_SIZE_NBYTES, source, nbytes)
        stored = nbytes
    put_little_endian(out, stored)
    return STREAM_SIZE_NBYTES + stored
