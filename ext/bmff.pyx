# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because bytes are read through pointers: a box is checked against its parent
# before any of it is read, and a field against the end of its box (`has`).
"""Layout of one picture's mp4: place and decoder configuration of each of Benzina's tracks.

A dataset has one such mp4 per picture, which is read whole; this kernel makes finding a picture in
it cheap. It knows boxes (ISO/IEC 14496-12) and no files. It descends by box names only, so that its
depth does not depend on the bytes. A fault is returned as a code and an offset; the caller turns it
into an error.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp


cdef enum:
    FAULT_CUT = 1
    FAULT_SMALL = 2
    FAULT_LONG = 3
    FAULT_NO_MOOV = 4
    FAULT_NO_TABLE = 5
    FAULT_TABLE_LONG = 6
    FAULT_NOT_ONE = 7
    FAULT_OUTSIDE = 8
    FAULT_SAME_NAME = 9
    FAULT_SHORT = 10
    FAULT_APERTURE = 11
    FAULT_NO_REFERENCE = 12
    FAULT_ELSEWHERE = 13

BOX_CUT = FAULT_CUT
BOX_SMALL = FAULT_SMALL
BOX_LONG = FAULT_LONG
NO_MOOV = FAULT_NO_MOOV
NO_TABLE = FAULT_NO_TABLE
TABLE_LONG = FAULT_TABLE_LONG
NOT_ONE = FAULT_NOT_ONE
OUTSIDE = FAULT_OUTSIDE
SAME_NAME = FAULT_SAME_NAME
SHORT = FAULT_SHORT
BAD_APERTURE = FAULT_APERTURE
NO_REFERENCE = FAULT_NO_REFERENCE
ELSEWHERE = FAULT_ELSEWHERE

# Box types: their four letters, big-endian.
cdef enum:
    FTYP = 0x66747970
    MOOV = 0x6D6F6F76
    TRAK = 0x7472616B
    MDIA = 0x6D646961
    HDLR = 0x68646C72
    MINF = 0x6D696E66
    DINF = 0x64696E66
    DREF = 0x64726566
    URL_ = 0x75726C20
    URN_ = 0x75726E20
    ALIS = 0x616C6973
    STBL = 0x7374626C
    STSD = 0x73747364
    STSZ = 0x7374737A
    STSC = 0x73747363
    STCO = 0x7374636F
    CO64 = 0x636F3634
    HVCC = 0x68766343
    AVCC = 0x61766343
    AV1C = 0x61763143
    CLAP = 0x636C6170
    METT = 0x6D657474
    VIDE = 0x76696465

cdef enum:
    HEADER_NBYTES = 8
    LARGE_HEADER_NBYTES = 16
    HANDLER_NBYTES = 24  # size of hdlr before the name
    REFERENCE_AT = 6  # offset of the data reference index in a sample entry
    IS_INSIDE = 1  # flag of a data reference: the bytes are in this file
    VISUAL_NBYTES = 78  # size of a visual sample entry before its boxes
    VISUAL_WIDTH = 24
    METT_NBYTES = 8  # size before the texts
    BRANDS_LIMIT = 4096  # bytes of ftyp to read at most
    PREFIX_NBYTES = 5


# A payload, with `end` after its last byte. A `start` of 0, where no payload can be, means no box.
cdef struct Box:
    size_t start
    size_t end


# The input of the parser, and the fault found in it.
cdef struct Parse:
    const uint8_t *data
    size_t nbytes
    int code
    size_t offset


cdef struct Side:
    size_t margin
    size_t extent


cdef struct Track:
    Box name
    const uint8_t *handler
    uint32_t entry_number
    Box entry
    const uint8_t *entry_kind
    size_t offset
    size_t nbytes
    const uint8_t *config_kind  # NULL for none
    Box config
    Box mime
    size_t width
    size_t height
    Side across
    Side down


cdef inline uint32_t number16(const uint8_t *source) noexcept nogil:
    return <uint32_t> source[0] << 8 | source[1]


cdef inline uint32_t number32(const uint8_t *source) noexcept nogil:
    return number16(source) << 16 | number16(source + 2)


cdef inline uint64_t number64(const uint8_t *source) noexcept nogil:
    return <uint64_t> number32(source) << 32 | number32(source + 4)


cdef inline bint fail(Parse *parse, int code, size_t offset) noexcept nogil:
    """Set the fault; return False."""
    parse.code = code
    parse.offset = offset
    return False


cdef inline bint has(Parse *parse, const Box *box, size_t nbytes) noexcept nogil:
    """Return whether a payload has at least `nbytes` bytes."""
    if box.end - box.start < nbytes:
        return fail(parse, FAULT_SHORT, box.start)
    return True


cdef inline bint next_box(Parse *parse, size_t at, size_t end, bint to_end, uint32_t *kind,
                          Box *box) noexcept nogil:
    """Set type and payload of the box at `at`, which must end before `end`."""
    cdef size_t header = HEADER_NBYTES
    cdef uint64_t nbytes
    if end - at < HEADER_NBYTES:
        return fail(parse, FAULT_CUT, at)
    nbytes = number32(parse.data + at)
    kind[0] = number32(parse.data + at + 4)
    if nbytes == 1:
        if end - at < LARGE_HEADER_NBYTES:
            return fail(parse, FAULT_CUT, at)
        header = LARGE_HEADER_NBYTES
        nbytes = number64(parse.data + at + HEADER_NBYTES)
    elif nbytes == 0 and to_end:
        nbytes = end - at
    if nbytes < header:
        return fail(parse, FAULT_SMALL, at)
    if nbytes > end - at:
        return fail(parse, FAULT_LONG, at)
    box.start = at + header
    box.end = at + <size_t> nbytes
    return True


cdef bint find(Parse *parse, const Box *parent, int nkinds, const uint32_t *kinds,
               Box *found) noexcept nogil:
    """Check all boxes of a parent and set the first of each type."""
    cdef size_t at = parent.start
    cdef uint32_t kind
    cdef Box box
    cdef int index
    for index in range(nkinds):
        found[index].start = 0
    while at < parent.end:
        if not next_box(parse, at, parent.end, False, &kind, &box):
            return False
        for index in range(nkinds):
            if kind == kinds[index] and found[index].start == 0:
                found[index] = box
        at = box.end
    return True


cdef inline bint open_table(Parse *parse, const Box *box, size_t itemsize, size_t skip,
                            uint32_t *count, const uint8_t **items) noexcept nogil:
    """Set the number of entries and their place; check that all lie in the box."""
    if not has(parse, box, 8 + skip):
        return False
    items[0] = parse.data + box.start + 8 + skip
    count[0] = number32(items[0] - 4)
    if count[0] * itemsize > box.end - box.start - 8 - skip:
        return fail(parse, FAULT_TABLE_LONG, box.start)
    return True


cdef bint locate(Parse *parse, const Box *stbl, Track *track) noexcept nogil:
    """Set the place of the only sample of a track; check that it is within the data."""
    cdef uint32_t[4] kinds = [STSZ, STSC, CO64, STCO]
    cdef Box[4] found
    cdef const uint8_t *items
    cdef uint32_t count, nbytes
    cdef uint64_t offset
    cdef int chunks = 2
    if not find(parse, stbl, 4, kinds, found):
        return False
    if found[2].start == 0:
        chunks = 3
    if found[0].start == 0 or found[1].start == 0 or found[chunks].start == 0:
        return fail(parse, FAULT_NO_TABLE, stbl.start)
    if not has(parse, &found[0], 12):
        return False
    nbytes = number32(parse.data + found[0].start + 4)
    if not open_table(parse, &found[0], 0 if nbytes else 4, 4, &count, &items):
        return False
    if count != 1:
        return fail(parse, FAULT_NOT_ONE, found[0].start)
    if nbytes == 0:
        nbytes = number32(items)
    if not open_table(parse, &found[1], 12, 0, &count, &items):
        return False
    if count != 1 or number32(items) != 1 or number32(items + 4) != 1:
        return fail(parse, FAULT_NOT_ONE, found[1].start)
    track.entry_number = number32(items + 8)
    if not open_table(parse, &found[chunks], 8 if chunks == 2 else 4, 0, &count, &items):
        return False
    if count != 1:
        return fail(parse, FAULT_NOT_ONE, found[chunks].start)
    offset = number64(items) if chunks == 2 else number32(items)
    if offset > parse.nbytes or nbytes > parse.nbytes - offset:
        return fail(parse, FAULT_OUTSIDE, found[chunks].start)
    track.offset = <size_t> offset
    track.nbytes = nbytes
    return True


cdef inline bint place(int64_t above, int64_t below, int64_t shift, int64_t parts, int64_t room,
                       Side *side) noexcept nogil:
    """Set one side of the clean aperture: `above / below` pixels, with its centre `shift / parts`
    pixels from that of the `room`. Return whether these are whole pixels inside the room."""
    cdef int64_t extent, margin
    if below == 0 or parts == 0 or above % below:
        return False
    extent = above // below
    if extent < 1 or extent > room:
        return False
    # At most 2 * 2^31 + 2^16 * 2^32.
    margin = 2 * shift + (room - extent) * parts
    if margin % (2 * parts):
        return False
    margin //= 2 * parts
    if margin < 0 or margin > room - extent:
        return False
    side.margin = <size_t> margin
    side.extent = <size_t> extent
    return True


cdef bint describe_picture(Parse *parse, const Box *entry, Track *track) noexcept nogil:
    """Set the fields of a visual sample entry."""
    cdef size_t at = entry.start + VISUAL_NBYTES
    cdef const uint8_t *fields
    cdef uint32_t kind
    cdef Box box, clap
    if not has(parse, entry, VISUAL_NBYTES):
        return False
    track.width = track.across.extent = number16(parse.data + entry.start + VISUAL_WIDTH)
    track.height = track.down.extent = number16(parse.data + entry.start + VISUAL_WIDTH + 2)
    clap.start = 0
    while at < entry.end:
        if not next_box(parse, at, entry.end, False, &kind, &box):
            return False
        if kind == CLAP and clap.start == 0:
            clap = box
        elif track.config_kind == NULL and (kind == HVCC or kind == AVCC or kind == AV1C):
            track.config = box
            track.config_kind = parse.data + at + 4
        at = box.end
    if clap.start == 0:
        if track.width == 0 or track.height == 0:
            return fail(parse, FAULT_APERTURE, entry.start)
        return True
    if not has(parse, &clap, 32):
        return False
    fields = parse.data + clap.start
    if (not place(number32(fields), number32(fields + 4), <int32_t> number32(fields + 16),
                  number32(fields + 20), track.width, &track.across)
            or not place(number32(fields + 8), number32(fields + 12),
                         <int32_t> number32(fields + 24), number32(fields + 28), track.height,
                         &track.down)):
        return fail(parse, FAULT_APERTURE, clap.start)
    return True


cdef inline size_t text_end(Parse *parse, size_t start, size_t end) noexcept nogil:
    """Return the position of the first NUL, or `end`."""
    cdef const uint8_t *found
    if start >= end:
        return end
    found = <const uint8_t *> memchr(parse.data + start, 0, end - start)
    return end if found == NULL else <size_t> (found - parse.data)


cdef bint describe(Parse *parse, const Box *stbl, Track *track) noexcept nogil:
    """Set the fields of the sample entry."""
    cdef uint32_t[1] kinds = [STSD]
    cdef Box stsd, entry
    cdef const uint8_t *items
    cdef uint32_t count, kind, number
    cdef size_t at
    if not find(parse, stbl, 1, kinds, &stsd):
        return False
    if stsd.start == 0:
        return fail(parse, FAULT_NO_TABLE, stbl.start)
    if not open_table(parse, &stsd, HEADER_NBYTES, 0, &count, &items):
        return False
    if track.entry_number == 0 or track.entry_number > count:
        return fail(parse, FAULT_NO_TABLE, stsd.start)
    at = stsd.start + 8
    number = 1
    while True:
        if not next_box(parse, at, stsd.end, False, &kind, &entry):
            return False
        if number == track.entry_number:
            break
        at = entry.end
        number += 1
    track.entry = entry
    track.entry_kind = parse.data + at + 4
    if number32(track.handler) == VIDE:
        return describe_picture(parse, &entry, track)
    if kind == METT:
        if not has(parse, &entry, METT_NBYTES):
            return False
        # Skip the content encoding.
        at = text_end(parse, entry.start + METT_NBYTES, entry.end)
        track.mime.start = min(at + 1, entry.end)
        track.mime.end = text_end(parse, track.mime.start, entry.end)
    return True


cdef bint check_reference(Parse *parse, const Box *dinf, const Box *entry) noexcept nogil:
    """Check that the data reference of a sample entry is this file."""
    cdef uint32_t[1] kinds = [DREF]
    cdef Box dref, box
    cdef const uint8_t *items
    cdef uint32_t count, kind, number, index = 0
    cdef size_t at
    box.start = box.end = kind = 0
    # Without a table of references, the bytes are in this file.
    if dinf.start == 0:
        return True
    if not find(parse, dinf, 1, kinds, &dref):
        return False
    if dref.start == 0 or entry.end - entry.start < REFERENCE_AT + 2:
        return True
    if not open_table(parse, &dref, HEADER_NBYTES, 0, &count, &items):
        return False
    number = number16(parse.data + entry.start + REFERENCE_AT)
    at = dref.start + 8
    while at < dref.end and index < number:
        if not next_box(parse, at, dref.end, False, &kind, &box):
            return False
        index += 1
        if index < number:
            at = box.end
    if number == 0 or index < number:
        return fail(parse, FAULT_NO_REFERENCE, dref.start)
    if kind != URL_ and kind != URN_ and kind != ALIS:
        return fail(parse, FAULT_NO_REFERENCE, at)
    if kind != URL_ or box.end - box.start < 4 or not parse.data[box.start + 3] & IS_INSIDE:
        return fail(parse, FAULT_ELSEWHERE, at)
    return True


cdef bint parse_track(Parse *parse, const Box *trak, Track *track, bint *ours) noexcept nogil:
    """Set a track, if it is one of Benzina's."""
    cdef uint32_t[2] kinds = [MDIA, 0]
    cdef Box[2] media
    cdef Box[2] info
    cdef Box mdia
    ours[0] = False
    if not find(parse, trak, 1, kinds, &mdia):
        return False
    if mdia.start == 0:
        return True
    kinds = [HDLR, MINF]
    if not find(parse, &mdia, 2, kinds, media):
        return False
    if media[0].start == 0:
        return True
    if not has(parse, &media[0], HANDLER_NBYTES):
        return False
    track.handler = parse.data + media[0].start + 8
    track.name.start = media[0].start + HANDLER_NBYTES
    track.name.end = text_end(parse, track.name.start, media[0].end)
    if (track.name.end - track.name.start < PREFIX_NBYTES
            or memcmp(parse.data + track.name.start, b"bzna_", PREFIX_NBYTES) != 0):
        return True
    ours[0] = True
    info[0].start = info[1].start = 0
    kinds = [STBL, DINF]
    if media[1].start and not find(parse, &media[1], 2, kinds, info):
        return False
    if info[0].start == 0:
        return fail(parse, FAULT_NO_TABLE, trak.start)
    track.config_kind = NULL
    track.config.start = track.config.end = track.mime.start = track.mime.end = 0
    track.width = track.height = 0
    track.across.margin = track.across.extent = track.down.margin = track.down.extent = 0
    return (locate(parse, &info[0], track) and describe(parse, &info[0], track)
            and check_reference(parse, &info[1], &track.entry))


cdef inline bytes bytes_of(const Parse *parse, Box box):
    return PyBytes_FromStringAndSize(<const char *> parse.data + box.start, box.end - box.start)


cdef inline str text_of(const Parse *parse, Box box):
    return PyUnicode_DecodeUTF8(<const char *> parse.data + box.start, box.end - box.start,
                                "backslashreplace")


cdef inline bytes kind_of(const uint8_t *kind):
    return b"" if kind == NULL else PyBytes_FromStringAndSize(<const char *> kind, 4)


cdef tuple track_of(const Parse *parse, const Track *track, str name):
    return (
        name,
        kind_of(track.handler),
        kind_of(track.entry_kind),
        track.offset,
        track.nbytes,
        kind_of(track.config_kind),
        bytes_of(parse, track.config),
        (track.width, track.height),
        (track.across.margin, track.down.margin, track.across.extent, track.down.extent),
        text_of(parse, track.mime),
    )


cdef tuple brands_of(const Parse *parse, Box ftyp):
    cdef const uint8_t *data = parse.data + ftyp.start
    cdef size_t nbytes = min(ftyp.end - ftyp.start, <size_t> BRANDS_LIMIT), at = 8
    cdef list brands = [PyBytes_FromStringAndSize(<const char *> data, min(nbytes, <size_t> 4))]
    while at + 4 <= nbytes:
        brands.append(kind_of(data + at))
        at += 4
    return tuple(brands)


cdef tuple parse_all(Parse *parse):
    cdef size_t at = 0
    cdef uint32_t kind = 0
    cdef Box ftyp, moov, box
    cdef Track track
    cdef bint ours = False
    cdef dict tracks = {}
    cdef str name
    ftyp.start = moov.start = moov.end = 0
    while at < parse.nbytes:
        if not next_box(parse, at, parse.nbytes, True, &kind, &box):
            return None
        if kind == MOOV and moov.start == 0:
            moov = box
        elif kind == FTYP and ftyp.start == 0:
            ftyp = box
        at = box.end
    if moov.start == 0:
        fail(parse, FAULT_NO_MOOV, parse.nbytes)
        return None
    at = moov.start
    while at < moov.end:
        if not next_box(parse, at, moov.end, False, &kind, &box):
            return None
        if kind == TRAK:
            if not parse_track(parse, &box, &track, &ours):
                return None
            if ours:
                name = text_of(parse, track.name)
                if name in tracks:
                    fail(parse, FAULT_SAME_NAME, at)
                    return None
                tracks[name] = track_of(parse, &track, name)
        at = box.end
    return 0, 0, brands_of(parse, ftyp) if ftyp.start else (), tracks


def parse_sample(data not None):
    """Return (0, 0, brands, tracks by name), or (code of a fault, its offset, (), {}).

    A track is (name, handler, type of the entry, offset, size, type of the configuration,
    configuration, (width, height), (left, top, width, height) of the clean aperture, MIME type).
    """
    cdef Py_buffer view
    cdef Parse parse
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        parse.data = <const uint8_t *> view.buf
        parse.nbytes = view.len
        parse.code = 0
        parse.offset = 0
        found = parse_all(&parse)
        return (parse.code, parse.offset, (), {}) if found is None else found
    finally:
        PyBuffer_Release(&view)
