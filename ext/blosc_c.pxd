# C-Blosc 1.21 (blosc.h), the calls that take their state as arguments: nothing here touches the
# library's global pool, so every one is safe without the GIL, in threads and after a fork.

cdef extern from "blosc.h" nogil:
    int BLOSC_MIN_HEADER_LENGTH
    int BLOSC_MAX_BUFFERSIZE
    int BLOSC_MAX_TYPESIZE

    int blosc_compress_ctx(int clevel, int doshuffle, size_t typesize, size_t nbytes,
                           const void *src, void *dest, size_t destsize,
                           const char *compressor, size_t blocksize, int numinternalthreads)
    int blosc_decompress_ctx(const void *src, void *dest, size_t destsize, int numinternalthreads)
    int blosc_getitem(const void *src, int start, int nitems, void *dest)
    int blosc_cbuffer_validate(const void *cbuffer, size_t cbytes, size_t *nbytes)
    const char *blosc_list_compressors()
    const char *blosc_get_version_string()
