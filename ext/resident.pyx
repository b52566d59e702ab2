# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because every extent is compared with the map, the file and `out` before.
"""Copies from a mapped file whose pages are in memory.

Access to a page of a map that is beyond the end of the file, or that the disk cannot read, ends the
process (SIGBUS). Here a copy begins only if the file has its bytes and all of their pages are in
memory. Only a program that cuts the file while they are copied, in microseconds, is not noticed.
"""

from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
)
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy


# Largest gap between extents, on average, whose pages are asked for, too.
cdef int64_t MAX_GAP = 1 << 18


cdef extern from *:
    """
    #include <stdint.h>
    #include <sys/mman.h>
    #include <sys/stat.h>
    #include <unistd.h>

    /* Return the size of a file, or -1. */
    static int64_t file_size(int descriptor)
    {
        struct stat status;
        return fstat(descriptor, &status) ? -1 : (int64_t) status.st_size;
    }

    /* Return whether all pages of mapped bytes are in memory. Linux answers that they are for files
       of other users, which then are as safe as a plain map. */
    static int is_resident(const uint8_t *start, size_t nbytes)
    {
    #if defined(__linux__)
        unsigned char state[1024];
        uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
        uintptr_t at = (uintptr_t) start & ~(page - 1);
        uintptr_t end = (uintptr_t) start + nbytes;
        while (at < end) {
            size_t length = end - at, npages;
            if (length > sizeof state * page)
                length = sizeof state * page;
            if (mincore((void *) at, length, state))
                return 0;
            npages = (length + page - 1) / page;
            for (size_t k = 0; k < npages; k++)
                if (!(state[k] & 1))
                    return 0;
            at += length;
        }
        return 1;
    #else
        return 0;
    #endif
    }
    """
    int64_t file_size(int descriptor) nogil
    bint is_resident(const uint8_t *start, size_t nbytes) nogil


def copy(int descriptor, mapped, const int64_t[::1] starts not None, int64_t nbytes, out):
    """Copy `nbytes` from each of `starts` of a file to `out`, one after the other.

    `mapped` are the first bytes of the file; it and `out` are contiguous buffers of any items.
    Return how many were copied: the others, from the first one whose bytes are not in memory or not
    in the file, must be read by position.
    """
    # Plain buffers, as typed memoryviews take as long as the copy of a small frame.
    cdef Py_buffer source, target
    cdef Py_ssize_t k
    PyObject_GetBuffer(mapped, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &target, PyBUF_WRITABLE)
        try:
            with nogil:
                k = copy_resident(descriptor, &source, starts, nbytes, &target)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)
    return k


cdef Py_ssize_t copy_resident(
    int descriptor,
    const Py_buffer *source,
    const int64_t[::1] starts,
    int64_t nbytes,
    const Py_buffer *target,
) noexcept nogil:
    cdef const uint8_t *mapped = <const uint8_t *> source.buf
    cdef uint8_t *out = <uint8_t *> target.buf
    cdef Py_ssize_t count = starts.shape[0]
    cdef Py_ssize_t k = 0
    cdef int64_t start, limit, low, high
    cdef bint are_resident = False
    if nbytes <= 0 or count == 0 or target.len // nbytes < count:
        return 0
    limit = min(file_size(descriptor), <int64_t> source.len) - nbytes
    low = high = starts[0]
    for k in range(1, count):
        low = min(low, starts[k])
        high = max(high, starts[k])
    # One question about everything, unless that includes many pages in between: the call takes as
    # long as the answer for some hundred pages.
    if 0 <= low and high <= limit and (high - low) // count <= nbytes + MAX_GAP:
        are_resident = is_resident(&mapped[low], high - low + nbytes)
    k = 0
    while k < count:
        start = starts[k]
        if start < 0 or start > limit:
            break
        if not are_resident and not is_resident(&mapped[start], nbytes):
            break
        memcpy(&out[k * nbytes], &mapped[start], nbytes)
        k += 1
    return k
