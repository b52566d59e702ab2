# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because every index into a typed buffer is the constant 0, after its length was
# checked to be positive.
"""Blosc-1 chunks: compress, decompress, decompress a range of items.

The kernel knows a chunk and nothing else: no file, no checksum, no default. Decoding trusts no
field: C-Blosc validates the chunk header against the bytes given, and the destination must be of
exactly the size the chunk declares, or nothing is decoded. Failures come back as a negative code;
naming them is the caller's job.
"""

from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t

from blosc_c cimport (
    BLOSC_MAX_BUFFERSIZE,
    BLOSC_MIN_HEADER_LENGTH,
    blosc_cbuffer_metainfo,
    blosc_cbuffer_sizes,
    blosc_cbuffer_validate,
    blosc_compress_ctx,
    blosc_decompress_ctx,
    blosc_get_version_string,
    blosc_getitem,
    blosc_list_compressors,
)


# Refusals of our own, apart from C-Blosc's small negative codes.
INVALID_CHUNK = -101
WRONG_SIZE = -102

VERSION = blosc_get_version_string().decode("ascii")
CODECS = tuple(blosc_list_compressors().decode("ascii").split(","))
MAX_NBYTES = BLOSC_MAX_BUFFERSIZE


def compress(const uint8_t[::1] src not None, int typesize, int clevel, int shuffle,
             bytes codec not None, size_t blocksize):
    """Return `src` as one Blosc chunk, or C-Blosc's negative code."""
    cdef size_t nbytes = src.shape[0]
    cdef int code
    cdef const char *name = codec
    cdef const uint8_t *source = &src[0] if nbytes else <const uint8_t *> b""
    if nbytes > <size_t> BLOSC_MAX_BUFFERSIZE:
        return WRONG_SIZE
    cdef size_t room = nbytes + BLOSC_MIN_HEADER_LENGTH
    cdef bytes chunk = PyBytes_FromStringAndSize(NULL, room)
    cdef char *dest = PyBytes_AS_STRING(chunk)
    with nogil:
        code = blosc_compress_ctx(clevel, shuffle, typesize, nbytes, source, dest, room,
                                  name, blocksize, 1)
    if code <= 0:
        return code if code else WRONG_SIZE
    return chunk if <size_t> code == room else shrink(chunk, code)


cdef object shrink(bytes chunk, Py_ssize_t nbytes):
    # A copy of the used part: the chunk is usually far smaller than its worst case.
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(chunk), nbytes)


def decompress_into(const uint8_t[::1] chunk not None, uint8_t[::1] out not None):
    """Decode `chunk` into `out`, whose size must be exactly the decoded size; return a code."""
    cdef size_t room = out.shape[0]
    cdef size_t nbytes = 0
    cdef int code
    if not is_sound(chunk, &nbytes):
        return INVALID_CHUNK
    if nbytes != room:
        return WRONG_SIZE
    if room == 0:
        return 0
    with nogil:
        code = blosc_decompress_ctx(&chunk[0], &out[0], room, 1)
    if code < 0:
        return code
    return code if <size_t> code == room else WRONG_SIZE


def decompress_items_into(const uint8_t[::1] chunk not None, size_t start, size_t nitems,
                          uint8_t[::1] out not None):
    """Decode items ``start .. start + nitems`` (of the chunk's typesize); return a code."""
    cdef size_t room = out.shape[0]
    cdef size_t cbytes = 0
    cdef size_t nbytes = 0
    cdef size_t blocksize = 0
    cdef size_t typesize = 0
    cdef int flags = 0
    cdef int code
    if not is_sound(chunk, &nbytes):
        return INVALID_CHUNK
    blosc_cbuffer_sizes(&chunk[0], &nbytes, &cbytes, &blocksize)
    blosc_cbuffer_metainfo(&chunk[0], &typesize, &flags)
    if typesize == 0:
        return INVALID_CHUNK
    # C-Blosc decodes only whole splits of a block and copies the rest from memory it never wrote.
    if splits_of(flags, typesize, blocksize) > 1 and blocksize % typesize:
        return INVALID_CHUNK
    # Divisions, not products: the sum of two size_t cannot overflow what a chunk holds.
    if start > nbytes // typesize or nitems > nbytes // typesize - start:
        return WRONG_SIZE
    if nitems * typesize != room:
        return WRONG_SIZE
    if room == 0:
        return 0
    with nogil:
        code = blosc_getitem(&chunk[0], <int> start, <int> nitems, &out[0])
    if code < 0:
        return code
    return code if <size_t> code == room else WRONG_SIZE


def new_bytes(size_t nbytes):
    """Return bytes that are not written yet, and a writable view of them.

    For decoding into once, before anyone else sees the bytes. Memory that nothing was decoded into
    is not touched, so that a chunk that lies costs address space only. The view does not keep the
    bytes alive: release it first.
    """
    cdef bytes out = PyBytes_FromStringAndSize(NULL, nbytes)
    return out, PyMemoryView_FromMemory(PyBytes_AS_STRING(out), nbytes, PyBUF_WRITE)


cdef bint is_sound(const uint8_t[::1] chunk, size_t *nbytes):
    cdef size_t cbytes = chunk.shape[0]
    if cbytes < <size_t> BLOSC_MIN_HEADER_LENGTH:
        return False
    if blosc_cbuffer_validate(&chunk[0], cbytes, nbytes) < 0:
        return False
    return cbytes <= MAX_BLOSCLZ_STREAM or has_sound_streams(&chunk[0], cbytes, nbytes[0])


# A BlosClz stream of over 8 MiB can make its decoder overflow a length and write anywhere (c-blosc
# issue 405). A chunk larger than that has each of its streams looked at; honest ones pass, since a
# stream is never larger than what it decodes to and C-Blosc's own blocks end at 4 MiB.
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


cdef size_t splits_of(int flags, size_t typesize, size_t blocksize) noexcept nogil:
    """Streams of a whole block (c-blosc, blosc.c: ``blosc_d``, MAX_SPLITS, MIN_BUFFERSIZE)."""
    if flags & FLAG_NOT_SPLIT or typesize == 0 or typesize > 16 or blocksize // typesize < 128:
        return 1
    return typesize


cdef enum:
    FLAG_MEMCPY = 0x02
    FLAG_NOT_SPLIT = 0x10


cdef inline size_t little_endian(const uint8_t *source) noexcept nogil:
    return (<size_t> source[0] | <size_t> source[1] << 8 | <size_t> source[2] << 16
            | <size_t> source[3] << 24)
