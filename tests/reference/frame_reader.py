"""Reader of frame stores in plain Python and numpy, from docs/formats/frames.md alone.

The index is found as the page requires. Frames are read one by one, each with the frames that it
refers to. `describe` returns everything that a reader must find, in the form of the files in
tests/conformance.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from . import arraychunk
from .array_reader import CHECKSUMS, read_header, read_metadata, sha256
from .chunk_decoder import decode_chunk, unpack_header
from .refused import RefusedError, need

PLANES, UP, LEFT, ZIGZAG, TIME, BITS, STRIDED = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40
ARRAY, PACKED = 0x80, 0xA0
MAGIC, TAIL = b"BLPKFRMS", 152
COLUMNS = (("<u8", 8), ("<u4", 4), ("<u4", 4), ("<u8", 8), ("<u8", 8), ("<u4", 4))
MAX_CHUNK, MAX_GROUP_NBYTES = 2**31 - 17, 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """Segment whose tail and section of clips are intact."""

    first: int
    nclips: int
    nchunks: int
    nformats: int
    start: int
    end: int
    previous: int
    clips: bytes
    places: tuple[tuple[int, int, int, bytes, int], ...]
    total: int
    ordinals: list[int]
    ranks: list[int]
    removed: list[int]
    flags: int


@dataclass(frozen=True, slots=True)
class Form:
    codec: int
    group: int
    varies: bool
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=int))


@dataclass(frozen=True, slots=True)
class Clip:
    id: str
    offset: int
    nframes: int
    form: Form
    chunks: list[tuple[int, int, int]]  # offset, stored size, filters
    meta: bytes


class Store:
    """The bytes of a store, with its clips."""

    def __init__(self, file: bytes) -> None:
        self.file = file
        self.header = read_header(file, known_features=1)
        need(self.header.features == 1, "format", "not a frame store")
        need((self.header.options, self.header.checksum) == (2, 9), "format", "header")
        self.chain = find_index(file)
        for number, segment in enumerate(self.chain):
            if segment.flags & 4:
                _check_directory(file, segment, self.chain[:number])
        removed = {ordinal for segment in self.chain for ordinal in segment.removed}
        found = [
            (rank, ordinal, clip)
            for segment in self.chain
            if not segment.flags & 4
            for rank, ordinal, clip in zip(
                segment.ranks, segment.ordinals, _clips_of(file, segment), strict=True
            )
            if ordinal not in removed
        ]
        self.clips = [clip for _, _, clip in sorted(found, key=lambda each: each[0])]
        self.by_ordinal = {ordinal: clip for _, ordinal, clip in found}

    def metadata(self) -> Any:
        return read_metadata(self.file, 64, 10)[0]

    def clip(self, id_: str) -> Clip | None:
        """Find a clip as on the page: by its hash, then by its bytes."""
        key = id_.encode("utf-8", "surrogatepass")
        hash_ = xxh3_64_intdigest(key)
        for segment in reversed(self.chain):
            *_, ends, hashes, order = _columns(segment)
            place = int(np.searchsorted(hashes, np.uint64(hash_)))
            while place < segment.nclips and hashes[place] == hash_:
                number = int(order[place])
                ids = segment.clips[36 * segment.nclips + 64 * segment.nformats :]
                start = int(ends[number - 1]) if number else 0
                clip = self.by_ordinal.get(segment.ordinals[number])
                if ids[start : int(ends[number])] == key and clip is not None:
                    return clip
                place += 1
        return None

    def stored(self, clip: Clip, chunk: int) -> bytes:
        """Return the stored bytes of a chunk after comparing their digest."""
        at, size, _ = clip.chunks[chunk]
        place = at + size
        if clip.form.codec == 3:  # the digests follow all frames
            place = clip.chunks[-1][0] + clip.chunks[-1][1] + 8 * chunk
        data, digest = self.file[at : at + size], self.file[place : place + 8]
        need(xxh3_64_digest(data) == digest, "checksum", f"chunk {chunk} of {clip.id!r}")
        return data

    def frame(self, clip: Clip, k: int) -> bytes:
        """Return the bytes of a frame in C order, the file of an image, or a packet of video."""
        form = clip.form
        if form.codec == 4:
            return self.packet(clip, k)
        chunk, inside = divmod(k, form.group)
        stored, filters = self.stored(clip, chunk), clip.chunks[chunk][2]
        if form.codec == 2:
            need(filters in (0, 1), "format", f"image kind {filters}")
            return stored
        if not form.nbytes:
            return b""
        if form.codec == 3:
            return stored[inside * form.nbytes : (inside + 1) * form.nbytes]
        count = min(form.group, clip.nframes - chunk * form.group)
        unpack, decode = unpack_header, decode_chunk
        if filters == ARRAY:
            unpack, decode = arraychunk.unpack_header, arraychunk.decode
        size, expected = unpack(stored).nbytes, count * form.nbytes
        is_packed = filters & PACKED == PACKED
        fits = 32 * size >= expected if is_packed else size == expected
        need(fits, "codec", "a frame has another size")
        need(not is_packed or stored[2] & 2, "codec", "packed residuals are compressed")
        data = decode(stored)
        if filters and filters != ARRAY:
            # A chunk of a group is an array with the axis of frames in front.
            shape = (count, *form.shape) if form.group > 1 else form.shape
            reference = None
            if filters & TIME:
                reference = self.frame(clip, reference_of(k, filters, form.group))
            data = undo_filters(data, filters, shape, form.dtype.itemsize, reference)
        return data[inside * form.nbytes : (inside + 1) * form.nbytes]

    def packet(self, clip: Clip, k: int) -> bytes:
        """Return a packet of video, in the order in which they are decoded."""
        chunk = 0
        while k >= clip.chunks[chunk][2]:
            k -= clip.chunks[chunk][2]
            chunk += 1
        stored, count = self.stored(clip, chunk), clip.chunks[chunk][2]
        width = stored[0]
        need(1 <= width <= 4, "format", "width of sizes")
        planes = np.frombuffer(stored, "u1", width * count, 1).reshape(width, count).astype("u8")
        sizes = sum(planes[j] << np.uint64(8 * j) for j in range(width)).tolist()
        at = 1 + count * width
        need(sorted(stored[at : at + count]) == list(range(count)), "format", "ranks")
        at += count + -(-count // 8)
        for _ in range(2):  # decoding times and durations
            width, is_even = stored[at] & 15, stored[at] & 16
            at += 1 + (2 * width if is_even else 16 + (count - 1) * width)
        need(at + sum(sizes) == len(stored), "format", "sizes of packets")
        return stored[at + sum(sizes[:k]) :][: sizes[k]]


def reference_of(k: int, filters: int, group: int) -> int:
    i = k % 8
    need(i and group == 1, "format", "a frame refers to none before it")
    if not filters & STRIDED:
        return k - (i & -i)
    h = i // 2
    return k - (2 * (h & -h) if h else 1)


def undo_filters(
    data: bytes, filters: int, shape: tuple[int, ...], itemsize: int, reference: bytes | None
) -> bytes:
    is_packed = filters & PACKED == PACKED
    known = PLANES | UP | LEFT | TIME | (PACKED if is_packed else ZIGZAG | BITS)
    known |= STRIDED if filters & TIME else 0
    *lead, channels = shape if len(shape) >= 3 and shape[-1] <= 4 else (*shape, 1)
    fits = itemsize in ((1,) if is_packed else (1, 2, 4, 8))
    fits = fits and (channels in (3, 4) or not filters & PLANES)
    need(fits and not filters & ~known, "codec", f"filters {filters:#x}")
    item = np.dtype(f"<u{itemsize}")
    width = lead[-1] if lead else 1
    nplanes, depth = (channels, 1) if filters & PLANES else (1, channels)
    if is_packed:
        rows = int(np.prod(lead[:-1], dtype=int))
        data, filters = _unpacked(data, rows, width * depth, nplanes), filters & ~PACKED
    stored = np.frombuffer(data, item).reshape(nplanes, -1)
    planes = [_undo_plane(each, filters, (-1, width, depth)) for each in stored]
    if filters & PLANES:
        green, red, blue, *fourth = planes
        planes = [red + green, green, blue + green, *fourth]
    pixels = np.concatenate(planes, axis=2)
    if reference is not None:
        pixels = pixels + np.frombuffer(reference, item).reshape(pixels.shape)
    return pixels.tobytes()


def _unpacked(data: bytes, rows: int, length: int, nplanes: int) -> bytes:
    nblocks = -(-length // 32)
    nwidths = rows * nblocks * nplanes
    need(len(data) >= nwidths, "codec", "the widths of packed residuals are cut")
    stored = np.frombuffer(data, "u1")
    bits, pairs = np.split(stored, [len(data) - nwidths])
    widths = np.stack([pairs & 15, pairs >> 4], 1).reshape(-1).tolist()
    is_whole = max(widths) <= 8 and 2 * sum(widths) == len(bits)
    need(is_whole, "codec", "the widths of packed residuals do not match their size")
    runs = np.zeros((len(widths), 2, 8), "u1")
    at = 0
    for run, width in zip(runs, widths, strict=True):
        if width:
            planes = np.unpackbits(
                bits[at : at + 2 * width].reshape(2, width, 1), 2, None, "little"
            )
            signs = planes[:, -1:].repeat(8 - width, 1)
            items = np.concatenate([planes, signs], 1).transpose(0, 2, 1)
            run[:] = np.packbits(items, 2, "little")[..., 0]
        at += 2 * width
    blocks = runs.reshape(rows, nblocks, nplanes, 32).transpose(2, 0, 1, 3)
    return blocks.reshape(nplanes, rows, -1)[..., :length].tobytes()


def _undo_plane(
    items: np.ndarray[Any, np.dtype[Any]], filters: int, shape: tuple[int, int, int]
) -> np.ndarray[Any, np.dtype[Any]]:
    item = items.dtype
    if filters & BITS:
        whole, nbits = items.size // 8 * 8, 8 * item.itemsize
        packed = items.tobytes()[: whole * item.itemsize]
        bits = np.unpackbits(np.frombuffer(packed, "u1"), bitorder="little").reshape(nbits, whole)
        values = np.zeros(whole, item)
        for number in range(nbits):
            values |= bits[number].astype(item) << item.type(number)
        items = np.concatenate([values, items[whole:]])
    if filters & ZIGZAG:
        items = items >> 1 ^ -(items & 1)
    plane = items.reshape(shape)
    if filters & LEFT:
        plane = np.cumsum(plane, axis=1, dtype=item)
    if filters & UP:
        plane = np.cumsum(plane, axis=0, dtype=item)
    return plane


def find_index(file: bytes) -> list[Segment]:
    """Return the valid chain of segments, in order."""
    end = len(file)
    chain = _chain(file, end)
    while chain is None or chain[-1].flags & 2:
        end = _end_before(file, end)
        need(end, "format", "no index is whole")
        chain = _chain(file, end)
    return chain


def _end_before(file: bytes, end: int) -> int:
    """Return the end of the last tail with a magic before `end`; 0 without one."""
    place = file.rfind(MAGIC, 0, max(end - TAIL - 1 + len(MAGIC), 0))
    return place + TAIL if place >= 0 else 0


def _chain(file: bytes, end: int) -> list[Segment] | None:
    last = _segment(file, end)
    if last is None or not last.first:
        return last and [last]
    end = last.previous
    while end:
        before = _segment(file, end)
        if before is not None and before.total == last.first:
            chain = _chain(file, end)
            if chain is not None:
                return [*chain, last]
        end = _end_before(file, end)
    return None


def _segment(file: bytes, end: int) -> Segment | None:
    """Return the segment that ends at a position; None if it is damaged."""
    tail = file[max(end - TAIL, 0) : end]
    if len(tail) < TAIL or tail[:8] != MAGIC or xxh3_64_digest(tail[:144]) != tail[144:]:
        return None
    version, flags, nformats, *rest = struct.unpack_from("<HHI6Q", tail, 8)
    nclips, nchunks, first, start, nbytes, previous = rest
    need(version == 1 and flags <= 5, "unsupported", f"a segment of version {version}")
    extra = int.from_bytes(tail[139:144], "little") if flags & 1 else 0
    total = first + nclips + extra
    places, at, fits = [], start, start + nbytes == end and previous <= start
    fits = fits and (extra > 0 or flags != 1) and not (flags & 4 and nclips + extra)
    for number in range(3):
        stored, decoded, digest = struct.unpack_from("<QQ8s", tail, 64 + 24 * number)
        how = tail[136 + number]
        fits = fits and (decoded == stored if how == 0 else how == 1 and decoded <= start)
        places.append((at, stored, decoded, digest, how))
        at += stored
    ids = places[0][2] - 36 * nclips - 64 * nformats
    fits = fits and at + TAIL == end and (previous == 0) == (first == 0) and ids >= 0
    fits = fits and places[1][2] == 5 * nchunks and places[2][2] >= 8 * nclips
    if not fits or nformats > nclips or 8 * nchunks > start:
        return None
    try:
        clips, _, _ = (_section(file, place) for place in places)
        ordinals = ranks = list(range(first, first + nclips))
        removed: list[int] = []
        if flags & 1 and not flags & 4:
            ordinals, ranks, removed, clips = _changes(clips, first, nclips, nformats, total)
        fields = nclips, nchunks, nformats, start, end, previous, clips, tuple(places)
        segment = Segment(first, *fields, total, ordinals, ranks, removed, flags)
        if not flags & 4:
            _check_clips(segment)
    except RefusedError:
        return None
    return segment


def _check_directory(file: bytes, directory: Segment, before: list[Segment]) -> None:
    """Check that a directory lists exactly the parts before it, and the hashes of their ids."""
    pages, table = (_section(file, directory.places[number]) for number in (0, 2))
    nparts, nclips, nchunks, nmetas, nremoved, dead, *where = struct.unpack_from("<9Q", table)
    parts = before[len(before) - nparts :]
    need(all(each.flags & 2 for each in parts), "format", "parts of a directory")
    need([part.end for part in parts[:-1]] == [part.start for part in parts[1:]], "format", "parts")
    need((parts[-1].end, directory.previous) == (directory.start,) * 2, "format", "last part")
    need(where == [parts[0].first, parts[0].start, parts[0].previous], "format", "first part")
    sums = [sum(each.nclips for each in parts), sum(each.nchunks for each in parts)]
    sums.append(sum(each.places[2][2] for each in parts))
    need([nclips, nchunks, nmetas] == sums, "format", "sums of a directory")
    hashes = []
    for number, part in enumerate(parts):
        hashes += [(hash_, number) for hash_ in _columns(part)[4].tolist()]
    firsts, digests, at = [], [], 0
    while at < len(pages):
        count = min(1024, (len(pages) - at) // 12)
        page = pages[at : at + 12 * count]
        found = struct.unpack(f"<{count}Q{count}I", page)
        start = at // 12
        wanted = sorted(hashes)[start : start + count]
        need(list(found[:count]) == [each for each, _ in wanted], "format", "hashes of a page")
        pairs = sorted(zip(found[:count], found[count:], strict=True))
        need(pairs == wanted, "format", "parts of a page")
        firsts.append(found[0])
        digests.append(xxh3_64_digest(page))
        at += 12 * count
    columns = [each.end for each in parts] + [each.total for each in parts]
    packed = struct.pack(f"<{len(columns)}Q", *columns)
    packed += b"".join(file[each.end - 8 : each.end] for each in parts)
    packed += struct.pack(f"<{len(firsts)}Q", *firsts) + b"".join(digests)
    packed += struct.pack(f"<{nremoved}Q", *parts[0].removed)
    need(table[72:] == packed and len(hashes) == nclips, "format", "table of a directory")
    need(dead == 0 or directory.flags & 1 > 0, "format", "dead bytes of a directory")


def _changes(
    clips: bytes, first: int, nclips: int, nformats: int, total: int
) -> tuple[list[int], list[int], list[int], bytes]:
    """Return the ordinals and ranks of the clips, those removed, and the rest of the section."""
    room = len(clips) - 16 - 52 * nclips - 64 * nformats
    need(room >= 0, "format", "changes")
    nremoved, _ = struct.unpack_from("<QQ", clips)
    need(8 * nremoved <= room, "format", "changes")
    numbers = struct.unpack_from(f"<{2 * nclips + nremoved}Q", clips, 16)
    ordinals, ranks = list(numbers[:nclips]), list(numbers[nclips : 2 * nclips])
    removed = list(numbers[2 * nclips :])
    for low, part in ((first, ordinals), (0, removed)):
        need(part == sorted(set(part)), "format", "order of ordinals")
        need(all(low <= each < total for each in part), "format", "ordinals")
    need(all(a <= b for a, b in zip(ranks, ordinals, strict=True)), "format", "ranks")
    return ordinals, ranks, removed, clips[16 + 8 * len(numbers) :]


def _section(file: bytes, place: tuple[int, int, int, bytes, int]) -> bytes:
    at, stored, decoded, digest, how = place
    data = file[at : at + stored]
    need(xxh3_64_digest(data) == digest, "checksum", "a section of the index is damaged")
    if how:
        need(unpack_header(data).nbytes == decoded, "format", "a section has another size")
        data = decode_chunk(data)
    return data


def _columns(segment: Segment) -> list[np.ndarray[Any, np.dtype[Any]]]:
    columns, at = [], 0
    for dtype, size in COLUMNS:
        columns.append(np.frombuffer(segment.clips, dtype, segment.nclips, at))
        at += size * segment.nclips
    return columns


def _check_clips(segment: Segment) -> None:
    offsets, nframes, formats, ends, hashes, order = (each.tolist() for each in _columns(segment))
    ids = len(segment.clips) - 36 * segment.nclips - 64 * segment.nformats
    need(all(each < segment.nformats for each in formats), "format", "formats")
    need(all(each < segment.nclips for each in order), "format", "order")
    need(all(each <= segment.start for each in offsets), "format", "offsets")
    need(ends == sorted(ends) and (ends or [0])[-1] == ids, "format", "id_ends")
    need(hashes == sorted(hashes), "format", "hashes")
    rows = [_row(segment, number) for number in range(segment.nformats)]
    need(all(row[1] for row in rows), "format", "group")
    total = sum(_nchunks(rows[form], n) for n, form in zip(nframes, formats, strict=True))
    need(total == segment.nchunks, "format", "the clips have another number of chunks")


def _nchunks(row: bytes, nframes: int) -> int:
    return struct.unpack_from("<I", row, 56)[0] if row[0] == 4 else -(-nframes // row[1])


def _row(segment: Segment, number: int) -> bytes:
    return segment.clips[36 * segment.nclips + 64 * number :][:64]


def _form(row: bytes) -> Form:
    codec, group, ndim, flags, name, *dims = struct.unpack_from("<4B20s8I", row)
    need(codec in (1, 2, 3, 4) and flags <= 1, "unsupported", f"codec {codec}, flags {flags}")
    need(group == 1 or codec != 2, "format", "images do not share chunks")
    need(not flags or codec == 2, "format", "only images differ in shape")
    need(ndim <= 8 and not any(dims[ndim:]) and not any(row[60:]), "format", "dims")
    need(any(row[56:60]) == (codec == 4), "format", "ngroups")
    text = name.rstrip(b"\0").decode("ascii")
    if text[0] in "<>|":
        dtype = np.dtype(text)
    else:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, text))
    form = Form(codec, group, bool(flags), dtype, tuple(dims[:ndim]))
    need(codec != 3 or form.nbytes, "format", "raw frames of zero bytes")
    group = 1 if codec == 4 else group
    limit = MAX_CHUNK if group == 1 else MAX_GROUP_NBYTES
    need(form.nbytes * group <= limit, "format", "a frame is too large")
    return form


def _clips_of(file: bytes, segment: Segment) -> list[Clip]:
    offsets, nframes, formats, ends, _, _ = (each.tolist() for each in _columns(segment))
    planes = np.frombuffer(_section(file, segment.places[1]), "u1").reshape(5, -1).astype("u8")
    sizes = (planes[0] | planes[1] << 8 | planes[2] << 16 | planes[3] << 24).tolist()
    filters = planes[4].tolist()
    metas = _section(file, segment.places[2])
    stops = struct.unpack_from(f"<{segment.nclips}Q", metas)
    ids = segment.clips[36 * segment.nclips + 64 * segment.nformats :]
    texts, clips, chunk = metas[8 * segment.nclips :], [], 0
    for k in range(segment.nclips):
        form = _form(_row(segment, formats[k]))
        at, chunks = offsets[k], []
        nchunks = _nchunks(_row(segment, formats[k]), nframes[k])
        for number in range(chunk, chunk + nchunks):
            chunks.append((at, sizes[number], filters[number]))
            at += sizes[number] + (0 if form.codec == 3 else 8)
        if form.codec == 3 and chunks:
            _check_raw(form, nframes[k], chunks)
            at += 8 * len(chunks)
        need(at <= segment.start, "format", "a chunk ends behind its index")
        chunk += len(chunks)
        id_ = ids[ends[k - 1] if k else 0 : ends[k]].decode("utf-8", "surrogatepass")
        meta = texts[stops[k - 1] if k else 0 : stops[k]]
        if form.codec == 4:
            need(sum(filters[chunk - nchunks : chunk]) == nframes[k], "format", "groups")
            meta = meta.partition(b"\0")[0]
        clips.append(Clip(id_, offsets[k], nframes[k], form, chunks, meta))
    return clips


def _check_raw(form: Form, nframes: int, chunks: list[tuple[int, int, int]]) -> None:
    need(chunks[0][0] % 4096 == 0, "format", "raw frames are not aligned")
    counts = [min(form.group, nframes - first) for first in range(0, nframes, form.group)]
    wanted = [(count * form.nbytes, 0) for count in counts]
    need([chunk[1:] for chunk in chunks] == wanted, "format", "sizes or filters of raw frames")


def describe(file: bytes) -> dict[str, Any]:
    """Return everything that a reader must find in a store."""
    store = Store(file)
    try:
        metadata = store.metadata()
    except RefusedError as err:
        metadata = {"error": err.kind}
    return {
        "kind": "frames",
        "header": {
            "format_version": store.header.version,
            "checksum": CHECKSUMS[store.header.checksum],
            "features": store.header.features,
        },
        "metadata": metadata,
        "segments": [
            {
                "offset": each.start,
                "end": each.end,
                "previous": each.previous,
                "first_clip": each.first,
                "nclips": each.nclips,
                "nchunks": each.nchunks,
                "compressed": [bool(place[4]) for place in each.places],
            }
            for each in store.chain
        ],
        "clips": [_describe_clip(store, clip) for clip in store.clips],
    }


def _describe_clip(store: Store, clip: Clip) -> dict[str, Any]:
    form = clip.form
    frames: list[Any] = []
    for k in range(clip.nframes):
        try:
            frames.append(sha256(store.frame(clip, k)))
        except RefusedError as err:
            frames.append({"error": err.kind})
    return {
        "id": clip.id,
        "meta": json.loads(clip.meta),
        "codec": ("lossless", "image", "raw", "video")[form.codec - 1],
        "dtype": form.dtype.name if form.dtype.isbuiltin == 2 else form.dtype.str,
        "frame_shape": list(form.shape),
        "varies": form.varies,
        "group": form.group,
        "offset": clip.offset,
        "chunks": [
            {"offset": at, "cbytes": size, "filters": filters} for at, size, filters in clip.chunks
        ],
        "frames": frames,
    }
