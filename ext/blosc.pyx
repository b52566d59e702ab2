# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because every index here is the constant 0 on a buffer whose length was
# checked to be positive first.
"""Blosc-1 chunks: compress, decompress, decompress a range of items.

The kernel knows a chunk and nothing else: no file, no checksum, no default. Decoding trusts no
field: C-Blosc validates the chunk header against the bytes given, and the destination must be of
exactly the size the chunk declares, or nothing is decoded. Failures come back as a negative code;
naming them is the caller's job.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t

from blosc_c cimport (
    BLOSC_MAX_BUFFERSIZE,
    BLOSC_MIN_HEADER_LENGTH,
    blosc_cbuffer_metainfo,
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
    cdef size_t cbytes = chunk.shape[0]
    cdef size_t room = out.shape[0]
    cdef size_t nbytes = 0
    cdef int code
    if cbytes < <size_t> BLOSC_MIN_HEADER_LENGTH:
        return INVALID_CHUNK
    if blosc_cbuffer_validate(&chunk[0], cbytes, &nbytes) < 0:
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
    cdef size_t cbytes = chunk.shape[0]
    cdef size_t room = out.shape[0]
    cdef size_t nbytes = 0
    cdef size_t typesize = 0
    cdef int flags = 0
    cdef int code
    if cbytes < <size_t> BLOSC_MIN_HEADER_LENGTH:
        return INVALID_CHUNK
    if blosc_cbuffer_validate(&chunk[0], cbytes, &nbytes) < 0:
        return INVALID_CHUNK
    blosc_cbuffer_metainfo(&chunk[0], &typesize, &flags)
    if typesize == 0:
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
