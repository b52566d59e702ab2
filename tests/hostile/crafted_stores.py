"""Frame stores made field by field, so that each field may be false; all digests are correct."""

import struct
from typing import Any

import numpy as np
from crafted import memcpy_chunk
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from bloscpack.frames.store.format import Section, Tail
from bloscpack.frames.store.front import pack_front
from bloscpack.media import image

LOSSLESS, IMAGE, RAW = 1, 2, 3
COLUMNS = ("offsets", "nframes", "formats", "id_ends", "hashes", "order")
_TYPES = dict(zip(COLUMNS, ("<u8", "<u4", "<u4", "<u8", "<u8", "<u4"), strict=True))


def row(
    shape: tuple[int, ...] = (2, 3),
    dtype: bytes = b"|u1",
    *,
    codec: int = LOSSLESS,
    group: int = 1,
    ndim: int | None = None,
    flags: int = 0,
    rest: bytes = bytes(8),
) -> bytes:
    """Return a row of the table of formats."""
    dims = [*shape, *[0] * (8 - len(shape))]
    count = len(shape) if ndim is None else ndim
    return struct.pack("<4B20s8I", codec, group, count, flags, dtype, *dims) + rest


def frame(nbytes: int = 6, value: int = 7) -> bytes:
    """Return a chunk of one frame."""
    return memcpy_chunk(bytes([value]) * nbytes)


def front() -> bytes:
    return pack_front({"codec": "lossless", "preset": "fast", "quality": 90}, {})


def segment(
    at: int,
    clips: list[dict[str, Any]],
    *,
    rows: list[bytes] | None = None,
    columns: dict[str, Any] | None = None,
    sections: dict[int, Any] | None = None,
    **lies: Any,
) -> bytes:
    """Return a segment of `clips` (id, offset, nframes, cbytes, filters, meta, format) for `at`.

    `columns` replace columns of the section of clips, `sections` replace whole sections by bytes or
    by (bytes, decoded size), and `lies` replace fields of the tail.
    """
    rows = [row()] if rows is None else rows
    ids = [clip["id"] for clip in clips]
    hashes = [xxh3_64_intdigest(id_) for id_ in ids]
    order = sorted(range(len(ids)), key=hashes.__getitem__)
    true: dict[str, Any] = {
        "offsets": [clip["offset"] for clip in clips],
        "nframes": [clip["nframes"] for clip in clips],
        "formats": [clip.get("format", 0) for clip in clips],
        "id_ends": np.cumsum([len(id_) for id_ in ids]),
        "hashes": [hashes[number] for number in order],
        "order": order,
    } | (columns or {})
    parts = [np.array(true[name], _TYPES[name]).tobytes() for name in COLUMNS]
    cbytes = [nbytes for clip in clips for nbytes in clip["cbytes"]]
    filters = bytes(
        each for clip in clips for each in clip.get("filters", [0] * len(clip["cbytes"]))
    )
    metas = [clip.get("meta", b"{}") for clip in clips]
    ends = np.cumsum([len(meta) for meta in metas]).astype("<u8").tobytes()
    planes = np.array(cbytes, "<u4").view("u1").reshape(-1, 4).T.tobytes()
    stored: list[Any] = [
        b"".join((*parts, *rows, *ids)),
        planes + filters,
        ends + b"".join(metas),
    ]
    described = []
    for number in range(3):
        data, how = (sections or {}).get(number, stored[number]), 0
        decoded = len(data)
        if isinstance(data, tuple):
            (data, decoded), how = data, 1
        stored[number] = data
        described.append(Section(len(data), decoded, xxh3_64_digest(data), how))
    body = b"".join(stored)
    fields = {
        "nformats": len(rows),
        "nclips": len(clips),
        "nchunks": len(cbytes),
        "first_clip": 0,
        "offset": at,
        "nbytes": len(body) + 152,
        "previous": 0,
        "sections": tuple(described),
    }
    return body + Tail(**(fields | lies)).pack()


def store_file(
    chunks: list[bytes],
    *,
    nframes: int | None = None,
    clip: dict[str, Any] | None = None,
    clips: list[dict[str, Any]] | None = None,
    **options: Any,
) -> bytes:
    """Return a store of one clip "a" with these chunks, a frame each; `clips` may declare more."""
    data = front()
    offset = len(data)
    for each in chunks:
        data += each + xxh3_64_digest(each)
    defaults = {
        "id": b"a",
        "offset": offset,
        "nframes": len(chunks) if nframes is None else nframes,
        "cbytes": [len(each) for each in chunks],
    } | (clip or {})
    if clips is not None:
        clips = [{**defaults, **each} for each in clips]
    return data + segment(len(data), [defaults] if clips is None else clips, **options)


def raw_file(
    frames: list[bytes],
    *,
    rows: list[bytes] | None = None,
    clip: dict[str, Any] | None = None,
    ndigests: int | None = None,
) -> bytes:
    """Return a store of one clip "a" of these raw frames, each with its own digest."""
    data = front()
    start = segment(len(data), [], rows=[])
    data += start
    data += bytes(-len(data) % 4096)
    fields: dict[str, Any] = {
        "id": b"a",
        "offset": len(data),
        "nframes": len(frames),
        "cbytes": [len(each) for each in frames],
    } | (clip or {})
    data += b"".join(frames) + b"".join(map(xxh3_64_digest, frames[:ndigests]))
    return data + segment(len(data), [fields], rows=[row(codec=RAW)] if rows is None else rows)


def jpeg_with_size(height: int, width: int) -> bytes:
    data = bytearray(image.encode_jpeg(np.zeros((8, 8, 3), "u1")))
    place = data.index(b"\xff\xc0")
    struct.pack_into(">HH", data, place + 5, height, width)
    return bytes(data)
