"""Datasets for tests, and functions that locate and damage their boxes."""

from collections.abc import Mapping, Sequence

import numpy as np

from bloscpack.benzina.mp4.bmff import BoxHeader, reader_of, walk
from bloscpack.benzina.mp4.boxes import unpack_hdlr
from bloscpack.benzina.mp4.format import INPUT, NAME, TARGET
from bloscpack.benzina.mp4.moviewriter import HEAD_NBYTES, Extents, pack_head, pack_movie


def extents(parts: Sequence[bytes], start: int) -> Extents:
    """Return the extents of parts that follow each other."""
    sizes = np.array([len(part) for part in parts], np.uint64)
    return Extents(start + np.cumsum(sizes) - sizes, sizes)


def dataset_bytes(
    samples: Sequence[bytes],
    names: Sequence[bytes] | None = None,
    targets: Sequence[bytes] | None = None,
    splits: Mapping[str, range] | None = None,
) -> bytes:
    """Return a dataset of samples of arbitrary bytes, with the given names and targets."""
    parts: list[bytes] = []
    tracks = {}
    for name, stored in ((INPUT, samples), (TARGET, targets), (NAME, names)):
        if stored is not None:
            tracks[name] = extents(stored, HEAD_NBYTES + sum(map(len, parts)))
            parts += stored
    content = b"".join(parts)
    return pack_head(len(content)) + content + pack_movie(tracks, splits=splits)


def named(*names: bytes) -> bytes:
    """Return a dataset with a one-byte sample per stored name."""
    return dataset_bytes([b"%d" % (index % 10) for index in range(len(names))], list(names))


def boxes(data: bytes, kind: bytes, track: str | None = None) -> list[BoxHeader]:
    """Return the boxes of a type, in the whole file or within a track, in file order."""
    traks: list[BoxHeader] = []
    found: dict[str | None, list[BoxHeader]] = {None: []}
    here: list[BoxHeader] = []
    for path, box in walk(reader_of(data), 0, len(data), to_end=True):
        if box.kind == b"trak":
            here = []
            traks.append(box)
        if box.kind == b"hdlr" and path[:2] == (b"moov", b"trak"):
            _, name = unpack_hdlr(data[box.payload_offset : box.end])
            found[name.decode()] = here
        if path[:2] == (b"moov", b"trak") or box.kind == b"trak":
            here.append(box)
        found[None].append(box)
    return [box for box in found[track] if box.kind == kind]


def patched(data: bytes, at: int, new: bytes) -> bytes:
    """Return `data` with `new` written over it at `at`."""
    assert at + len(new) <= len(data)
    return data[:at] + new + data[at + len(new) :]


def with_entry(
    data: bytes, kind: bytes, track: str, index: int, value: int, nbytes: int = 4
) -> bytes:
    """Return a file with one number of a box's table replaced."""
    (box,) = boxes(data, kind, track)
    head = 12 if kind == b"stsz" else 8
    at = box.payload_offset + head + index * nbytes
    return patched(data, at, value.to_bytes(nbytes, "big"))


def replaced(data: bytes, old: BoxHeader, new: bytes) -> bytes:
    """Return a file with a box of its moov replaced; the moov follows the data it locates."""
    changed = data[: old.offset] + new + data[old.end :]
    for _, box in walk(reader_of(data), 0, len(data), to_end=True):
        if box.offset < old.offset and box.end >= old.end:
            nbytes = box.nbytes + len(new) - old.nbytes
            changed = patched(changed, box.offset, nbytes.to_bytes(4, "big"))
    return changed
