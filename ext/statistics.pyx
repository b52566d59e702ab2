# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because the only index is 0, after a check that there is an item.
"""Least and greatest item of a chunk, its number of NaN and its sum, in one pass.

The kernel takes items of the byte order of the machine, and does not know the record in which the
numbers are stored. NaN and NaT are counted, and are in none of the other numbers.
"""

from libc.stdint cimport uint8_t, uint64_t, uintptr_t


cdef extern from "statistics.h" nogil:
    ctypedef struct Statistics:
        uint64_t low
        uint64_t high
        uint64_t nan
        uint64_t sum
    int use_vectors(int)
    void statistics_int8_t(const void *, size_t, Statistics *)
    void statistics_int16_t(const void *, size_t, Statistics *)
    void statistics_int32_t(const void *, size_t, Statistics *)
    void statistics_int64_t(const void *, size_t, Statistics *)
    void statistics_uint8_t(const void *, size_t, Statistics *)
    void statistics_uint16_t(const void *, size_t, Statistics *)
    void statistics_uint32_t(const void *, size_t, Statistics *)
    void statistics_uint64_t(const void *, size_t, Statistics *)
    void statistics_time(const void *, size_t, Statistics *)
    void statistics_float16(const void *, size_t, Statistics *)
    void statistics_bfloat16(const void *, size_t, Statistics *)
    void statistics_float32(const void *, size_t, Statistics *)
    void statistics_float64(const void *, size_t, Statistics *)


# A function for every type of items, and their size.
cdef struct Kernel:
    void (*measure)(const void *, size_t, Statistics *) noexcept nogil
    size_t itemsize


cdef Kernel KERNELS[13]
KERNELS[0] = Kernel(statistics_int8_t, 1)
KERNELS[1] = Kernel(statistics_int16_t, 2)
KERNELS[2] = Kernel(statistics_int32_t, 4)
KERNELS[3] = Kernel(statistics_int64_t, 8)
KERNELS[4] = Kernel(statistics_uint8_t, 1)
KERNELS[5] = Kernel(statistics_uint16_t, 2)
KERNELS[6] = Kernel(statistics_uint32_t, 4)
KERNELS[7] = Kernel(statistics_uint64_t, 8)
KERNELS[8] = Kernel(statistics_time, 8)
KERNELS[9] = Kernel(statistics_float16, 2)
KERNELS[10] = Kernel(statistics_bfloat16, 2)
KERNELS[11] = Kernel(statistics_float32, 4)
KERNELS[12] = Kernel(statistics_float64, 8)

_NAMES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("time", "float16", "bfloat16", "float32", "float64"),
)


def limit_vectors(int most):
    """Use the general code (0) or AVX2 (1).

    Returns the one that will be used, at most what the processor has. For tests; the default is
    the highest.
    """
    return use_vectors(most)


limit_vectors(1)


def measure(const uint8_t[::1] items not None, str name):
    """Return (least, greatest, number of NaN, sum) of at least one item; the GIL is released.

    `name` is the type of the items, "time" for 64-bit times. Least, greatest and sum are the bits
    of a 64-bit integer or float; without items that are not NaN, they are those of an empty range.
    """
    cdef Kernel kernel = KERNELS[_NAMES.index(name)]
    cdef size_t nbytes = items.shape[0]
    cdef Statistics found
    if not nbytes or nbytes % kernel.itemsize or <uintptr_t> &items[0] % kernel.itemsize:
        raise ValueError(f"{nbytes} bytes are not aligned items of {kernel.itemsize} bytes")
    with nogil:
        kernel.measure(&items[0], nbytes // kernel.itemsize, &found)
    return found.low, found.high, found.nan, found.sum
