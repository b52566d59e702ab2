# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because `decode` compares the position with `end` before every read, and with
# `room` before every write.
"""Decompression of Snappy blocks (google/snappy, format_description.txt).

C-Blosc in our wheels is built without Snappy, but files that other builds wrote with it must be
readable.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


def decompress_into(const uint8_t[::1] block not None, uint8_t[::1] out not None):
    """Decode `block` into `out`; return whether it filled `out` exactly."""
    cdef bint ok
    cdef size_t cbytes = block.shape[0]
    cdef size_t room = out.shape[0]
    if cbytes == 0 or room == 0:
        return False
    with nogil:
        ok = decode(&block[0], cbytes, &out[0], room)
    return ok


cdef bint decode(const uint8_t *source, size_t cbytes, uint8_t *out, size_t room) noexcept nogil:
    cdef size_t position = 0
    cdef size_t end = cbytes
    cdef size_t done = 0
    cdef uint64_t declared = 0
    cdef size_t length, offset, width, index
    cdef int shift = 0
    cdef uint8_t tag
    while True:  # the decoded length, a varint of at most 32 bits
        if position >= end or shift > 28:
            return False
        tag = source[position]
        position += 1
        declared |= <uint64_t> (tag & 0x7F) << shift
        shift += 7
        if tag < 0x80:
            break
    if declared != room:
        return False
    while position < end:
        tag = source[position]
        position += 1
        length = tag >> 2
        if tag & 3 == 0:  # literal
            if length >= 60:
                width = length - 59
                if width > end - position:
                    return False
                length = little_endian(source + position, width)
                position += width
            length += 1
            if length > end - position or length > room - done:
                return False
            memcpy(out + done, source + position, length)
            position += length
            done += length
            continue
        if tag & 3 == 1:  # copy, offset of 11 bits
            if position >= end:
                return False
            length = (length & 7) + 4
            offset = (<size_t> (tag >> 5) << 8) | source[position]
            position += 1
        else:  # copy, offset of 16 or 32 bits
            width = 2 if tag & 3 == 2 else 4
            if width > end - position:
                return False
            length += 1
            offset = little_endian(source + position, width)
            position += width
        if offset == 0 or offset > done or length > room - done:
            return False
        for index in range(length):  # byte by byte: source and target may overlap
            out[done] = out[done - offset]
            done += 1
    return done == room


cdef inline size_t little_endian(const uint8_t *source, size_t width) noexcept nogil:
    cdef size_t value = 0
    cdef size_t index
    for index in range(width):
        value |= <size_t> source[index] << (8 * index)
    return value
