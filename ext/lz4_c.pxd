# LZ4 blocks, as far as LZ4 frames need them and block.pxd does not declare them.

cdef extern from *:
    """
    /* Exported by libblosc.a, which bundles the codecs; the wheel has no headers for them. */
    int LZ4_decompress_safe_usingDict(const char *, char *, int, int, const char *, int);
    int LZ4_compress_fast(const char *, char *, int, int, int);
    int LZ4_compress_HC(const char *, char *, int, int, int);
    """
    int LZ4_decompress_safe_usingDict(const char *, char *, int, int, const char *, int) nogil
    int LZ4_compress_fast(const char *, char *, int, int, int) nogil
    int LZ4_compress_HC(const char *, char *, int, int, int) nogil
