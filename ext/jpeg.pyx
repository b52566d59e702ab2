# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because every position is compared with the size before bytes at it are read.
"""Header of a JPEG image: its segments up to the first scan (ITU-T T.81, B.1.1).

A reader walks over it before each image that it decodes. Decoding leaves little of Python in the
caches of a processor, so that a loop in Python over ten segments takes 40 us between two images.
A position of 0 means that there is no such segment.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp


cdef enum:
    FAULT = -1
    TEM = 0x01
    SOF0 = 0xC0
    DHT = 0xC4
    JPG = 0xC8
    DAC = 0xCC
    SOF15 = 0xCF
    RST0 = 0xD0
    RST7 = 0xD7
    EOI = 0xD9
    SOS = 0xDA
    APP1 = 0xE1
    FILL = 0xFF
    EXIF_NBYTES = 6


cdef int step(const uint8_t[::1] data, Py_ssize_t *at) noexcept nogil:
    """Move `at` to the next segment and return its marker; FAULT if there is none.

    Then `at` is where a marker should be, or behind the last byte.
    """
    cdef int marker
    while at[0] + 4 <= data.shape[0]:
        if data[at[0]] != FILL:
            return FAULT
        marker = data[at[0] + 1]
        if marker == FILL:
            at[0] += 1
        elif marker == TEM or RST0 <= marker <= RST7:  # markers without a length
            at[0] += 2
        else:
            return marker
    at[0] = data.shape[0]
    return FAULT


cdef Py_ssize_t behind(const uint8_t[::1] data, Py_ssize_t at) noexcept nogil:
    """Return the position behind a segment."""
    return at + 2 + max(2, data[at + 2] << 8 | data[at + 3])


def segments(const uint8_t[::1] data not None):
    """Return marker and position of each segment, up to the first scan or the end of the image.

    Where the header is damaged, the last marker is -1, at the position of the fault.
    """
    cdef Py_ssize_t at = 2
    cdef int marker
    found = []
    while True:
        marker = step(data, &at)
        found.append((marker, at))
        if marker == FAULT or marker == SOS or marker == EOI:
            return found
        at = behind(data, at)


def header(const uint8_t[::1] data not None):
    """Return the positions of the frame header and of Exif data before it, and the last segment.

    The last is as that of `segments`: marker and position.
    """
    cdef Py_ssize_t at = 2
    cdef Py_ssize_t frame = 0
    cdef Py_ssize_t exif = 0
    cdef int marker
    while True:
        marker = step(data, &at)
        if marker == FAULT or marker == SOS or marker == EOI:
            return frame, exif, marker, at
        if frame == 0:
            if SOF0 <= marker <= SOF15 and marker != DHT and marker != JPG and marker != DAC:
                frame = at
            elif marker == APP1 and exif == 0 and at + 4 + EXIF_NBYTES <= data.shape[0] and (
                memcmp(&data[at + 4], b"Exif\0\0", EXIF_NBYTES) == 0
            ):
                exif = at
        at = behind(data, at)
