"""Parser of the mp4 of one picture in plain Python: the twin of ``ext/bmff.pyx``.

It visits the boxes in the same order, so that it finds the same first fault.
"""

from collections.abc import Iterator

BOX_CUT = 1
BOX_SMALL = 2
BOX_LONG = 3
NO_MOOV = 4
NO_TABLE = 5
TABLE_LONG = 6
NOT_ONE = 7
OUTSIDE = 8
SAME_NAME = 9
SHORT = 10
BAD_APERTURE = 11
NO_REFERENCE = 12
ELSEWHERE = 13

Box = tuple[int, int]  # payload, end
Track = tuple[
    str,
    bytes,
    bytes,
    int,
    int,
    bytes,
    bytes,
    tuple[int, int],
    tuple[int, int, int, int],
    str,
]
Described = tuple[bytes, bytes, tuple[int, int], tuple[int, int, int, int], str]
Parsed = tuple[int, int, tuple[bytes, ...], dict[str, Track]]

VISUAL_NBYTES = 78
CONFIGS = (b"hvcC", b"avcC", b"av1C")


class FaultError(Exception):
    """Error code and the offset of the fault."""


def number(data: bytes, at: int, nbytes: int = 4) -> int:
    return int.from_bytes(data[at : at + nbytes], "big")


def boxes(data: bytes, at: int, end: int, to_end: bool = False) -> Iterator[tuple[bytes, Box, int]]:
    """Yield (kind, (payload, end), offset)."""
    while at < end:
        if end - at < 8:
            raise FaultError(BOX_CUT, at)
        nbytes, header, kind = number(data, at), 8, data[at + 4 : at + 8]
        if nbytes == 1:
            if end - at < 16:
                raise FaultError(BOX_CUT, at)
            nbytes, header = number(data, at + 8, 8), 16
        elif nbytes == 0 and to_end:
            nbytes = end - at
        if nbytes < header:
            raise FaultError(BOX_SMALL, at)
        if nbytes > end - at:
            raise FaultError(BOX_LONG, at)
        yield kind, (at + header, at + nbytes), at
        at += nbytes


def first(data: bytes, box: Box, *kinds: bytes) -> dict[bytes, Box]:
    found: dict[bytes, Box] = {}
    for kind, inner, _ in boxes(data, *box):
        if kind in kinds:
            found.setdefault(kind, inner)
    return found


def need(box: Box, nbytes: int) -> int:
    """Return the position of the payload, which has at least `nbytes` bytes."""
    if box[1] - box[0] < nbytes:
        raise FaultError(SHORT, box[0])
    return box[0]


def table(data: bytes, box: Box, itemsize: int, skip: int = 0) -> tuple[int, int]:
    """Return (count, position of the entries)."""
    at = need(box, 8 + skip)
    count = number(data, at + 4 + skip)
    if count * itemsize > box[1] - at - 8 - skip:
        raise FaultError(TABLE_LONG, at)
    return count, at + 8 + skip


def extent(data: bytes, stbl: Box) -> tuple[int, int, int]:
    """Return (offset, size, number of its entry) of the only sample."""
    found = first(data, stbl, b"stsz", b"stsc", b"stco", b"co64")
    if b"stsz" not in found or b"stsc" not in found or not found.keys() & {b"stco", b"co64"}:
        raise FaultError(NO_TABLE, stbl[0])
    stsz = found[b"stsz"]
    nbytes = number(data, need(stsz, 12) + 4)
    nsizes, at = table(data, stsz, 0 if nbytes else 4, skip=4)
    if nsizes != 1:
        raise FaultError(NOT_ONE, stsz[0])
    if nbytes == 0:
        nbytes = number(data, at)
    stsc = found[b"stsc"]
    nruns, at = table(data, stsc, 12)
    if nruns != 1 or number(data, at) != 1 or number(data, at + 4) != 1:
        raise FaultError(NOT_ONE, stsc[0])
    entry_number = number(data, at + 8)
    width, chunks = (8, found[b"co64"]) if b"co64" in found else (4, found[b"stco"])
    nchunks, at = table(data, chunks, width)
    if nchunks != 1:
        raise FaultError(NOT_ONE, chunks[0])
    offset = number(data, at, width)
    if offset > len(data) or nbytes > len(data) - offset:
        raise FaultError(OUTSIDE, chunks[0])
    return offset, nbytes, entry_number


def aperture(data: bytes, box: Box, width: int, height: int) -> tuple[int, int, int, int]:
    at = need(box, 32)
    fields = [number(data, at + 4 * index) for index in range(8)]

    def signed(value: int) -> int:
        return value - 2**32 if value >= 2**31 else value

    def side(size: tuple[int, int], middle: tuple[int, int], room: int) -> tuple[int, int]:
        (above, below), (shift, parts) = size, middle
        if below == 0 or parts == 0 or above % below:
            raise FaultError(BAD_APERTURE, at)
        extent = above // below
        # The centres differ by shift / parts; the margin is half of the rest, plus that shift.
        margin = 2 * signed(shift) + (room - extent) * parts
        if extent < 1 or extent > room or margin % (2 * parts):
            raise FaultError(BAD_APERTURE, at)
        margin //= 2 * parts
        if margin < 0 or margin > room - extent:
            raise FaultError(BAD_APERTURE, at)
        return margin, extent

    left, clean_width = side((fields[0], fields[1]), (fields[4], fields[5]), width)
    top, clean_height = side((fields[2], fields[3]), (fields[6], fields[7]), height)
    return left, top, clean_width, clean_height


def text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def track(data: bytes, trak: Box) -> Track | None:
    """Return a track of ours, or None."""
    media = {}
    for mdia in first(data, trak, b"mdia").values():
        media = first(data, mdia, b"hdlr", b"minf")
    if b"hdlr" not in media:
        return None
    at = need(media[b"hdlr"], 24)
    handler = data[at + 8 : at + 12]
    name = data[at + 24 : media[b"hdlr"][1]].split(b"\0")[0]
    if not name.startswith(b"bzna_"):
        return None
    info = first(data, media[b"minf"], b"stbl", b"dinf") if b"minf" in media else {}
    if b"stbl" not in info:
        raise FaultError(NO_TABLE, trak[0])
    offset, nbytes, entry_number = extent(data, info[b"stbl"])
    kind, box = sample_entry(data, info[b"stbl"], entry_number)
    said = describe(data, handler, kind, box)
    if b"dinf" in info:
        check_reference(data, info[b"dinf"], box)
    return text(name), handler, kind, offset, nbytes, *said


def sample_entry(data: bytes, stbl: Box, entry_number: int) -> tuple[bytes, Box]:
    """Return kind and payload of the sample entry of a number, counted from 1."""
    tables = first(data, stbl, b"stsd")
    if not tables:
        raise FaultError(NO_TABLE, stbl[0])
    stsd = tables[b"stsd"]
    count, at = table(data, stsd, 8)
    if not 1 <= entry_number <= count:
        raise FaultError(NO_TABLE, stsd[0])
    found = boxes(data, at, stsd[1])
    kind, entry = b"", (0, 0)
    for _ in range(entry_number):
        # A box would begin where the table ends.
        kind, entry, _ = next(found, (b"", (0, 0), 0))
        if not kind:
            raise FaultError(BOX_CUT, stsd[1])
    return kind, entry


def check_reference(data: bytes, dinf: Box, entry: Box) -> None:
    """Check that the data reference of a sample entry is this file."""
    found = first(data, dinf, b"dref")
    if not found or entry[1] - entry[0] < 8:
        return
    dref = found[b"dref"]
    _, at = table(data, dref, 8)
    wanted = number(data, entry[0] + 6, 2)
    if wanted == 0:
        raise FaultError(NO_REFERENCE, dref[0])
    for index, (kind, (start, end), offset) in enumerate(boxes(data, at, dref[1]), 1):
        if index < wanted:
            continue
        if kind not in (b"url ", b"urn ", b"alis"):
            raise FaultError(NO_REFERENCE, offset)
        if kind != b"url " or end - start < 4 or not data[start + 3] & 1:
            raise FaultError(ELSEWHERE, offset)
        return
    raise FaultError(NO_REFERENCE, dref[0])


def describe(data: bytes, handler: bytes, kind: bytes, entry: Box) -> Described:
    """Return the fields of a sample entry after its kind."""
    at = entry[0]
    if handler != b"vide":
        mime = b""
        if kind == b"mett":
            mime = data[need(entry, 8) + 8 : entry[1]].partition(b"\0")[2].split(b"\0")[0]
        return b"", b"", (0, 0), (0, 0, 0, 0), text(mime)
    need(entry, VISUAL_NBYTES)
    width, height = number(data, at + 24, 2), number(data, at + 26, 2)
    parts = first(data, (at + VISUAL_NBYTES, entry[1]), *CONFIGS, b"clap")
    clap = parts.pop(b"clap", None)
    clean = aperture(data, clap, width, height) if clap else (0, 0, width, height)
    if clap is None and not (width and height):
        raise FaultError(BAD_APERTURE, at)
    config_kind, box = next(iter(parts.items()), (b"", (0, 0)))
    config = data[box[0] : box[1]]
    frame = width, height
    return config_kind, config, frame, clean, ""


def check_name(name: str, tracks: dict[str, Track], offset: int) -> None:
    if name in tracks:
        raise FaultError(SAME_NAME, offset)


def moov_of(data: bytes, outer: dict[bytes, Box]) -> Box:
    if b"moov" not in outer:
        raise FaultError(NO_MOOV, len(data))
    return outer[b"moov"]


def parse_sample(data: bytes) -> Parsed:
    """Return (0, 0, brands, tracks), or (code, offset, (), {})."""
    try:
        outer: dict[bytes, Box] = {}
        for kind, box, _ in boxes(data, 0, len(data), to_end=True):
            outer.setdefault(kind, box)
        tracks: dict[str, Track] = {}
        for kind, box, offset in boxes(data, *moov_of(data, outer)):
            found = track(data, box) if kind == b"trak" else None
            if found is not None:
                check_name(found[0], tracks, offset)
                tracks[found[0]] = found
    except FaultError as fault:
        code, offset = fault.args
        return code, offset, (), {}
    brands: tuple[bytes, ...] = ()
    if b"ftyp" in outer:
        stored = data[outer[b"ftyp"][0] : outer[b"ftyp"][1]][:4096]
        brands = stored[:4], *(stored[at : at + 4] for at in range(8, len(stored) - 3, 4))
    return 0, 0, brands, tracks
