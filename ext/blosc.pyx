# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because every index into a typed buffer is the constant 0, used only after a
# check that the length is positive.
"""Blosc-1 chunks: compression, decompression, decompression of a range of bytes.

The kernel handles single chunks: it has no files, checksums or default options. Decoding trusts no
field: the chunk header is checked against the given bytes, and the destination must have exactly
the size that the chunk declares. Otherwise nothing is decoded. Failures are returned as negative
codes, which the caller turns into errors.

Chunks of Zstandard and LZ4 are decoded block by block (`block.pxd`), the others by C-Blosc.
"""

from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from block cimport (
    BLOCK_START_NBYTES,
    FLAG_BIT_SHUFFLE,
    FLAG_BYTE_SHUFFLE,
    FLAG_MEMCPY,
    FLAG_NOT_SPLIT,
    FORMAT_LZ4,
    FORMAT_ZSTD,
    HEADER_NBYTES,
    Chunk,
    Scratch,
    ZSTD_createDCtx,
    ZSTD_freeCCtx,
    ZSTD_freeDCtx,
    blocks_extent,
    create_encoder,
    decode_range,
    encode_block,
    is_ours,
    little_endian,
    parse_chunk,
    put_little_endian,
    splits_of,
)
from blosc_c cimport (
    BLOSC_MAX_BUFFERSIZE,
    BLOSC_MIN_HEADER_LENGTH,
    blosc_cbuffer_validate,
    blosc_compress_ctx,
    blosc_decompress_ctx,
    blosc_get_version_string,
    blosc_getitem,
    blosc_list_compressors,
)


# Error codes of this kernel, distinct from the small negative codes of C-Blosc.
cdef enum:
    REFUSED_CHUNK = -101
    REFUSED_SIZE = -102
    REFUSED_MEMORY = -103

INVALID_CHUNK = REFUSED_CHUNK
WRONG_SIZE = REFUSED_SIZE
NO_MEMORY = REFUSED_MEMORY

VERSION = blosc_get_version_string().decode("ascii")
CODECS = tuple(blosc_list_compressors().decode("ascii").split(","))
MAX_NBYTES = BLOSC_MAX_BUFFERSIZE


cdef class Workspace:
    """Contexts and scratch memory of one call, reused by later calls of any thread."""

    cdef Scratch scratch
    cdef size_t room

    def __dealloc__(self):
        ZSTD_freeDCtx(self.scratch.dctx)
        ZSTD_freeCCtx(self.scratch.cctx)
        free(self.scratch.streams)

    cdef bint prepare(self, size_t blocksize, bint encode) noexcept nogil:
        """Allocate memory for blocks of `blocksize`; return False if there is not enough."""
        if encode:
            if self.scratch.cctx == NULL:
                self.scratch.cctx = create_encoder()
        elif self.scratch.dctx == NULL:
            self.scratch.dctx = ZSTD_createDCtx()
        if self.room < blocksize:
            free(self.scratch.streams)
            self.scratch.streams = <uint8_t *> malloc(3 * blocksize)
            self.room = blocksize if self.scratch.streams != NULL else 0
            self.scratch.bits = self.scratch.streams + blocksize
            self.scratch.block = self.scratch.streams + 2 * blocksize
        return (self.room >= blocksize
                and (self.scratch.cctx if encode else self.scratch.dctx) != NULL)


# Idle workspaces, as many as threads have worked concurrently, up to a limit; those for unusually
# large blocks are freed. `pop` and `append` of a list are atomic, so no lock is needed.
cdef list idle = []

cdef enum:
    MAX_IDLE = 16
    MAX_KEPT_BLOCK = 1 << 20


cdef Workspace take_workspace():
    try:
        return idle.pop()
    except IndexError:
        return Workspace()


cdef int put_back(Workspace workspace) except -1:
    if workspace.room <= MAX_KEPT_BLOCK and len(idle) < MAX_IDLE:
        idle.append(workspace)
    return 0


def compress(const uint8_t[::1] src not None, int typesize, int clevel, int shuffle,
             bytes codec not None, size_t blocksize, bint residual):
    """Return `src` as one Blosc chunk, or C-Blosc's negative code.

    With `blocksize` 0, C-Blosc chooses the block size: small content is one block. With any other
    size, Zstandard chunks are encoded here, byte for byte as by C-Blosc. With `residual`, Zstandard and LZ4 chunks are encoded
    here by a search for residuals instead of level `clevel`. Other codecs ignore `residual`.
    """
    cdef size_t nbytes = src.shape[0]
    cdef int code
    cdef const char *name = codec
    cdef const uint8_t *source = &src[0] if nbytes else <const uint8_t *> b""
    cdef Workspace workspace
    if nbytes > <size_t> BLOSC_MAX_BUFFERSIZE:
        return REFUSED_SIZE
    cdef size_t room = nbytes + BLOSC_MIN_HEADER_LENGTH
    cdef bytes chunk = PyBytes_FromStringAndSize(NULL, room)
    cdef char *dest = PyBytes_AS_STRING(chunk)
    if blocksize == 0 and nbytes < ONE_BLOCK and not residual:
        blocksize = nbytes
    # C-Blosc changes block sizes outside of these bounds, and stores level 0 without blocks.
    if ((codec == b"zstd" or residual and codec == b"lz4") and clevel > 0
            and max(MIN_BLOCK, typesize) <= blocksize <= nbytes):
        blocksize -= blocksize % <size_t> typesize
        workspace = take_workspace()
        with nogil:
            code = encode_chunk(source, nbytes, typesize,
                                FORMAT_ZSTD if codec == b"zstd" else FORMAT_LZ4,
                                clevel, shuffle, blocksize, residual, <uint8_t *> dest, room, workspace)
        put_back(workspace)
    else:
        with nogil:
            code = blosc_compress_ctx(clevel, shuffle, typesize, nbytes, source, dest, room,
                                      name, blocksize, 1)
    if code <= 0:
        return code if code else REFUSED_SIZE
    return chunk if <size_t> code == room else shrink(chunk, code)


cdef enum:
    CHUNK_VERSION = 2  # blosc.h: BLOSC_VERSION_FORMAT
    MIN_BLOCK = 128  # blosc.c: MIN_BUFFERSIZE
    ONE_BLOCK = 32 << 10  # blosc.c: compute_blocksize, L1


cdef object shrink(bytes chunk, Py_ssize_t nbytes):
    # Copy the used part, as a chunk is usually far smaller than the worst case.
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(chunk), nbytes)


cdef int encode_chunk(const uint8_t *source, size_t nbytes, size_t typesize, int stream_format,
                      int clevel, int shuffle, size_t blocksize, bint residual, uint8_t *out, size_t room,
                      Workspace workspace) noexcept nogil:
    """Write a chunk to `out` (blosc.c: ``blosc_compress_context``); return its size."""
    cdef size_t nblocks = (nbytes + blocksize - 1) // blocksize
    cdef size_t position = HEADER_NBYTES + BLOCK_START_NBYTES * nblocks
    cdef size_t index, length, stored
    cdef int flags = stream_format << 5 | FLAG_NOT_SPLIT
    if shuffle == 1:
        flags |= FLAG_BYTE_SHUFFLE
    elif shuffle == 2:
        flags |= FLAG_BIT_SHUFFLE
    if not workspace.prepare(blocksize, True):
        return -1
    out[0] = CHUNK_VERSION
    out[1] = 1  # BLOSC_ZSTD_VERSION_FORMAT, BLOSC_LZ4_VERSION_FORMAT
    out[2] = flags
    out[3] = typesize
    put_little_endian(out + 4, nbytes)
    put_little_endian(out + 8, blocksize)
    for index in range(nblocks):
        length = min(blocksize, nbytes - index * blocksize)
        stored = 0
        if position < room:
            stored = encode_block(source + index * blocksize, length, flags, typesize, clevel,
                                  residual, out + position, room - position, &workspace.scratch)
        if stored == 0:  # incompressible: stored as one copy, without blocks
            out[2] = flags | FLAG_MEMCPY
            memcpy(out + HEADER_NBYTES, source, nbytes)
            position = HEADER_NBYTES + nbytes
            break
        put_little_endian(out + HEADER_NBYTES + BLOCK_START_NBYTES * index, position)
        position += stored
    put_little_endian(out + 12, position)
    return <int> position


def decompress_into(const uint8_t[::1] chunk not None, uint8_t[::1] out not None):
    """Decode `chunk` into `out`, whose size must be the decoded size; return a size or code."""
    cdef size_t nbytes = 0
    if not is_sound(chunk, &nbytes):
        return REFUSED_CHUNK
    if nbytes != <size_t> out.shape[0]:
        return REFUSED_SIZE
    if nbytes == 0:
        return 0
    if is_ours(chunk[2]):
        return decompress_blocks_into(chunk, chunk, 0, 0, out)
    cdef int code
    with nogil:
        code = blosc_decompress_ctx(&chunk[0], &out[0], nbytes, 1)
    if code < 0:
        return code
    return code if <size_t> code == nbytes else REFUSED_SIZE


def decompress_range_into(const uint8_t[::1] chunk not None, size_t start,
                          uint8_t[::1] out not None):
    """Decode bytes ``start .. start + len(out)`` of `chunk` into `out`; return a code."""
    cdef size_t room = out.shape[0]
    cdef size_t nbytes = 0
    cdef int code
    if not is_sound(chunk, &nbytes):
        return REFUSED_CHUNK
    if start > nbytes or room > nbytes - start:
        return REFUSED_SIZE
    if room == 0:
        return 0
    if is_ours(chunk[2]):
        return decompress_blocks_into(chunk, chunk, 0, start, out)
    with nogil:
        code = getitem_range(&chunk[0], nbytes, start, room, &out[0])
    return code


cdef int getitem_range(const uint8_t *chunk, size_t nbytes, size_t start, size_t count,
                       uint8_t *out) noexcept nogil:
    """Decode a range by C-Blosc, which takes positions in items."""
    cdef size_t typesize = chunk[3]
    cdef size_t blocksize = little_endian(chunk + 8)
    cdef size_t first, stop, length
    cdef uint8_t *items
    cdef int code
    if typesize == 0:
        return REFUSED_CHUNK
    # C-Blosc decodes only whole splits of a block, and would copy the rest from unwritten memory.
    if splits_of(chunk[2], typesize, blocksize) > 1 and blocksize % typesize:
        return REFUSED_CHUNK
    first = start // typesize
    stop = (start + count + typesize - 1) // typesize
    if stop * typesize > nbytes:  # the range includes bytes at the end that do not fill an item
        first, length = 0, nbytes
    else:
        length = (stop - first) * typesize
    items = <uint8_t *> malloc(length)
    if items == NULL:
        return REFUSED_MEMORY
    if length == nbytes:
        code = blosc_decompress_ctx(chunk, items, nbytes, 1)
    else:
        code = blosc_getitem(chunk, <int> first, <int> (stop - first), items)
    if code >= 0:
        if <size_t> code == length:
            memcpy(out, items + (start - first * typesize), count)
            code = <int> count
        else:
            code = REFUSED_SIZE
    free(items)
    return code


def extent_of_range(const uint8_t[::1] head not None, size_t start, size_t stop):
    """Return the part of a chunk that is needed to decode bytes `start` to `stop` (not empty).

    `head` is the header of the chunk with all block starts. The result is (0, stored size) if
    C-Blosc needs the whole chunk, and None if the header is invalid.
    """
    cdef Chunk chunk
    cdef size_t low, high, cbytes
    if head.shape[0] == 0 or not parse_chunk(&head[0], head.shape[0], &chunk):
        return None
    cbytes = little_endian(chunk.head + 12)
    if not is_ours(chunk.flags):
        return 0, cbytes
    if start >= stop or stop > chunk.nbytes:
        return None
    if chunk.flags & FLAG_MEMCPY:
        low, high = HEADER_NBYTES + start, HEADER_NBYTES + stop
    else:
        blocks_extent(&chunk, cbytes, start, stop, &low, &high)
    return (low, high) if low < high <= cbytes else None


def decompress_blocks_into(const uint8_t[::1] head not None, const uint8_t[::1] stored not None,
                           size_t low, size_t start, uint8_t[::1] out not None):
    """Decode bytes ``start .. start + len(out)`` of a chunk from only a part of it.

    `head` is its header with all block starts, and `stored` its bytes from `low` on, the part
    that `extent_of_range` returned. Returns a size or code.
    """
    cdef Chunk chunk
    cdef size_t room = out.shape[0]
    cdef Workspace workspace
    cdef bint done
    if head.shape[0] == 0 or not parse_chunk(&head[0], head.shape[0], &chunk):
        return REFUSED_CHUNK
    if stored.shape[0] == 0 or not is_ours(chunk.flags):
        return REFUSED_CHUNK
    if start > chunk.nbytes or room > chunk.nbytes - start:
        return REFUSED_SIZE
    if room == 0:
        return 0
    chunk.data = &stored[0]
    chunk.low = low
    chunk.high = low + stored.shape[0]
    workspace = take_workspace()
    with nogil:
        if chunk.flags & FLAG_MEMCPY == 0 and not workspace.prepare(chunk.blocksize, False):
            with gil:  # the workspace is not put back, so that its memory is freed
                return REFUSED_MEMORY
        done = decode_range(&chunk, start, room, &out[0], &workspace.scratch)
    put_back(workspace)
    return <Py_ssize_t> room if done else REFUSED_CHUNK


def new_bytes(size_t nbytes):
    """Return an uninitialised bytes object and a writable view of it.

    The bytes may be filled once, before any other code sees them. Memory that is not decoded into
    is not touched, so a chunk with a false size costs only address space. The view does not keep
    the bytes alive: release it first.
    """
    cdef bytes out = PyBytes_FromStringAndSize(NULL, nbytes)
    return out, PyMemoryView_FromMemory(PyBytes_AS_STRING(out), nbytes, PyBUF_WRITE)


cdef bint is_sound(const uint8_t[::1] chunk, size_t *nbytes):
    cdef size_t cbytes = chunk.shape[0]
    if cbytes < <size_t> BLOSC_MIN_HEADER_LENGTH or chunk[0] != CHUNK_VERSION:
        return False
    if blosc_cbuffer_validate(&chunk[0], cbytes, nbytes) < 0:
        return False
    if chunk[2] & FLAG_MEMCPY and nbytes[0] + HEADER_NBYTES != cbytes:
        return False
    return cbytes <= MAX_BLOSCLZ_STREAM or has_sound_streams(&chunk[0], cbytes, nbytes[0])


# In a BlosClz stream of over 8 MiB, a length can overflow and make the decoder write out of bounds
# (c-blosc issue 405). Therefore all streams of a larger chunk are checked. Valid ones pass, as a
# stream is never larger than its decoded size and the blocks of C-Blosc are at most 4 MiB.
cdef enum:
    MAX_BLOSCLZ_STREAM = 8 << 20


cdef bint has_sound_streams(const uint8_t *chunk, size_t cbytes, size_t nbytes) noexcept nogil:
    cdef size_t typesize = chunk[3]
    cdef size_t blocksize = little_endian(chunk + 8)
    cdef size_t nblocks, index, split, nsplits, position, length, stream
    if chunk[2] & FLAG_MEMCPY or chunk[2] >> 5 != 0:
        return True
    if blocksize == 0:
        return False
    nblocks = (nbytes + blocksize - 1) // blocksize
    if nblocks > (cbytes - BLOSC_MIN_HEADER_LENGTH) // 4:
        return False
    for index in range(nblocks):
        position = little_endian(chunk + BLOSC_MIN_HEADER_LENGTH + 4 * index)
        length = blocksize
        nsplits = splits_of(chunk[2], typesize, blocksize)
        if nbytes - index * blocksize < blocksize:
            length = nbytes - index * blocksize
            nsplits = 1
        for split in range(nsplits):
            if position > cbytes or cbytes - position < 4:
                return False
            stream = little_endian(chunk + position)
            position += 4
            if stream > length // nsplits or stream > MAX_BLOSCLZ_STREAM:
                return False
            if stream > cbytes - position:
                return False
            position += stream
    return True
