# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because every index into a typed buffer is the constant 0, half of its length,
# or the length less the number of widths, after these were checked.
"""Image filters: convert frames to residuals, which compress better, and back without loss.

A frame is rows of pixels of one or more channels. The filters are applied in this order, and undone
in reverse order:

TIME    the difference to a reference frame;
PLANES  for pixels with 3 or 4 channels: planes of green, red - green, blue - green, and the fourth;
UP      the difference to the row above;
LEFT    the difference to the previous pixel in the row;
ZIGZAG  maps small differences of either sign to small numbers;
BITS    for each plane, or for all items without PLANES: the 8 bit planes of each byte of the
        items, the lowest first; bit i of byte k is that of item 8 k + i. A remainder of up to 7
        items is unchanged.

`pack` and `unpack` do the work of another filter, PACKED, for residuals of items of 8 bits
(`packed.h`). It follows the others, without ZIGZAG and BITS.

UP and LEFT together predict a pixel as left + above - above left. The kernel handles frames of
unsigned items only; it does not know chunks, codecs or how filters are chosen.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc


cdef extern from "filters.h" nogil:
    enum:
        FILTER_PLANES
        FILTER_UP
        FILTER_LEFT
        FILTER_ZIGZAG
        FILTER_TIME
        FILTER_BITS
    int use_vectors(int)
    void encode_uint8_t(const uint8_t *, const uint8_t *, uint8_t *, uint8_t *, size_t, size_t,
                        size_t, int)
    void encode_uint16_t(const uint16_t *, const uint16_t *, uint16_t *, uint16_t *, size_t, size_t,
                         size_t, int)
    void encode_uint32_t(const uint32_t *, const uint32_t *, uint32_t *, uint32_t *, size_t, size_t,
                         size_t, int)
    void encode_uint64_t(const uint64_t *, const uint64_t *, uint64_t *, uint64_t *, size_t, size_t,
                         size_t, int)
    void decode_uint8_t(uint8_t *, const uint8_t *, uint8_t *, uint8_t *, size_t, size_t,
                         size_t, int)
    void decode_uint16_t(uint16_t *, const uint16_t *, uint16_t *, uint16_t *, size_t, size_t,
                         size_t, int)
    void decode_uint32_t(uint32_t *, const uint32_t *, uint32_t *, uint32_t *, size_t, size_t,
                         size_t, int)
    void decode_uint64_t(uint64_t *, const uint64_t *, uint64_t *, uint64_t *, size_t, size_t,
                         size_t, int)
    enum:
        PACKED_BLOCK
    size_t packed_blocks(size_t)
    size_t pack_rows(const uint8_t *, uint8_t *, size_t, size_t, size_t, uint8_t *)
    bint is_packed(const uint8_t *, size_t, size_t)
    void unpack_frame(const uint8_t *, const uint8_t *, const uint8_t *, uint8_t *, uint8_t *,
                      size_t, size_t, size_t, int)


PLANES = FILTER_PLANES
UP = FILTER_UP
LEFT = FILTER_LEFT
ZIGZAG = FILTER_ZIGZAG
TIME = FILTER_TIME
BITS = FILTER_BITS

def limit_vectors(int most):
    """Select how 8-bit pixels are decoded: portable code (0), AVX2 (1), or AVX2 and GFNI (2).

    Returns the level that will be used, limited by the processor. For tests; the highest level is the
    default.
    """
    return use_vectors(most)


limit_vectors(2)

cdef enum:
    ALL_FILTERS = (FILTER_PLANES | FILTER_UP | FILTER_LEFT | FILTER_ZIGZAG | FILTER_TIME
                   | FILTER_BITS)


# Transforms of the packed bits themselves.
cdef enum:
    NEVER_PACKED = FILTER_ZIGZAG | FILTER_BITS


cdef bint fits(size_t nbytes, size_t rows, size_t width, size_t channels, size_t itemsize,
               int flags) noexcept nogil:
    """Return whether `nbytes` matches the geometry, and the geometry supports the filters."""
    if flags & ~ALL_FILTERS or nbytes == 0 or rows == 0 or width == 0 or channels == 0:
        return False
    if itemsize != 1 and itemsize != 2 and itemsize != 4 and itemsize != 8:
        return False
    if flags & FILTER_PLANES and channels != 3 and channels != 4:
        return False
    # Division instead of multiplication, which could overflow.
    if nbytes % itemsize or nbytes // itemsize % channels:
        return False
    nbytes = nbytes // itemsize // channels
    return nbytes % width == 0 and nbytes // width == rows


def encode(const uint8_t[::1] frame not None, const uint8_t[::1] reference,
           uint8_t[::1] residuals not None, size_t rows, size_t width, size_t channels,
           size_t itemsize, int flags):
    """Write the residuals of `frame` to `residuals`; return False if sizes or filters do not fit.

    `reference` is used for TIME only. All buffers have the size of the frame and are aligned to its
    items; `residuals` does not overlap the others.
    """
    cdef size_t nbytes = frame.shape[0]
    cdef const uint8_t *base = NULL
    cdef uint8_t *work = NULL
    if <size_t> residuals.shape[0] != nbytes or not fits(nbytes, rows, width, channels, itemsize,
                                                         flags):
        return False
    if flags & FILTER_TIME:
        if reference is None or <size_t> reference.shape[0] != nbytes:
            return False
        base = &reference[0]
    with nogil:
        work = <uint8_t *> malloc(2 * nbytes if flags & FILTER_BITS else width * channels * itemsize)
        if work != NULL:
            if itemsize == 1:
                encode_uint8_t(&frame[0], base, &residuals[0], work, rows, width, channels, flags)
            elif itemsize == 2:
                encode_uint16_t(<const uint16_t *> &frame[0], <const uint16_t *> base,
                                <uint16_t *> &residuals[0], <uint16_t *> work,
                                rows, width, channels, flags)
            elif itemsize == 4:
                encode_uint32_t(<const uint32_t *> &frame[0], <const uint32_t *> base,
                                <uint32_t *> &residuals[0], <uint32_t *> work,
                                rows, width, channels, flags)
            else:
                encode_uint64_t(<const uint64_t *> &frame[0], <const uint64_t *> base,
                                <uint64_t *> &residuals[0], <uint64_t *> work,
                                rows, width, channels, flags)
            free(work)
    if work == NULL:
        raise MemoryError
    return True


def decode(uint8_t[::1] residuals not None, const uint8_t[::1] reference,
           uint8_t[::1] frame not None, size_t rows, size_t width, size_t channels,
           size_t itemsize, int flags):
    """Write the frame of `residuals` to `frame`; the inverse of `encode`.

    `residuals` is overwritten. With BITS it is twice the size of the frame, and the second half is
    scratch space.
    """
    cdef size_t nbytes = frame.shape[0]
    cdef size_t room = residuals.shape[0]
    cdef const uint8_t *base = NULL
    cdef uint8_t *work = NULL
    if not fits(nbytes, rows, width, channels, itemsize, flags):
        return False
    if room != (2 * nbytes if flags & FILTER_BITS else nbytes):
        return False
    if flags & FILTER_TIME:
        if reference is None or <size_t> reference.shape[0] != nbytes:
            return False
        base = &reference[0]
    if flags & FILTER_BITS:
        work = &residuals[nbytes]
    with nogil:
        if itemsize == 1:
            decode_uint8_t(&residuals[0], base, &frame[0], work, rows, width, channels, flags)
        elif itemsize == 2:
            decode_uint16_t(<uint16_t *> &residuals[0], <const uint16_t *> base,
                            <uint16_t *> &frame[0], <uint16_t *> work, rows, width, channels,
                            flags)
        elif itemsize == 4:
            decode_uint32_t(<uint32_t *> &residuals[0], <const uint32_t *> base,
                            <uint32_t *> &frame[0], <uint32_t *> work, rows, width, channels,
                            flags)
        else:
            decode_uint64_t(<uint64_t *> &residuals[0], <const uint64_t *> base,
                            <uint64_t *> &frame[0], <uint64_t *> work, rows, width, channels,
                            flags)
    return True


def pack(const uint8_t[::1] residuals not None, size_t rows, size_t width, size_t channels,
         int flags):
    """Return the residuals of `encode` with these filters, of 8-bit items, in as few bits as needed.

    Returns None if sizes or filters do not fit.
    """
    cdef size_t nplanes, length, nblocks, size
    cdef uint8_t *work
    if not fits(residuals.shape[0], rows, width, channels, 1, flags) or flags & NEVER_PACKED:
        return None
    nplanes = channels if flags & FILTER_PLANES else 1
    length = width * channels // nplanes
    nblocks = rows * packed_blocks(length) * nplanes
    with nogil:
        # Behind the room for the bits is that for the widths, which are moved to the end of the bits.
        work = <uint8_t *> malloc(nblocks * (PACKED_BLOCK + 1))
        if work != NULL:
            size = pack_rows(&residuals[0], work, rows, length, nplanes,
                             work + nblocks * PACKED_BLOCK)
    if work == NULL:
        raise MemoryError
    try:
        return PyBytes_FromStringAndSize(<const char *> work, size)
    finally:
        free(work)


def unpack(const uint8_t[::1] packed not None, const uint8_t[::1] reference,
           uint8_t[::1] frame not None, size_t rows, size_t width, size_t channels, int flags):
    """Write the frame of the residuals that `pack` returned to `frame`.

    Returns False if sizes, filters or content do not fit.
    """
    cdef size_t nbytes = frame.shape[0]
    cdef size_t size = packed.shape[0]
    cdef size_t nplanes, nwidths, room
    cdef const uint8_t *base = NULL
    cdef const uint8_t *widths
    cdef uint8_t *work = NULL
    cdef bint done = False
    if not fits(nbytes, rows, width, channels, 1, flags) or flags & NEVER_PACKED:
        return False
    if flags & FILTER_TIME:
        if reference is None or <size_t> reference.shape[0] != nbytes:
            return False
        base = &reference[0]
    nplanes = channels if flags & FILTER_PLANES else 1
    room = packed_blocks(width * channels // nplanes)
    nwidths = rows * room * nplanes
    if nwidths > size:
        return False
    widths = &packed[size - nwidths]
    with nogil:
        if is_packed(widths, nwidths, size - nwidths):
            work = <uint8_t *> malloc(2 * nplanes * room * PACKED_BLOCK)
            if work != NULL:
                unpack_frame(&packed[0], widths, base, &frame[0], work, rows, width, channels, flags)
                free(work)
                done = True
            else:
                with gil:
                    raise MemoryError
    return done
