"""Small datasets of a few pictures, with arbitrary names and optionally wrong tables."""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bloscpack.benzina.codec.encoder import Encoder
from bloscpack.benzina.mp4.moviewriter import (
    HEAD_NBYTES,
    Extents,
    film_entry,
    pack_head,
    pack_movie,
)
from bloscpack.benzina.mp4.samplelayout import parse_sample
from bloscpack.benzina.mp4.samplewriter import StoredPicture, pack_sample

from .datasetfiles import extents
from .pictures import Pixels, photo

SIDE = 64


@functools.cache
def picture(number: int) -> Pixels:
    """Return a picture of unique size and content."""
    return photo(20 + 3 * number, 30 + number, number)


@functools.cache
def sample(number: int) -> bytes:
    """Return the picture as a losslessly coded sample with its own target and name."""
    height, width = picture(number).shape[:2]
    encoder = Encoder("hevc", lossless=True, preset="ultrafast")
    coded = encoder.encode(picture(number), SIDE, SIDE)
    stored = StoredPicture(
        *coded, frame=(SIDE, SIDE), clean=(0, 0, width, height), colour=encoder.colour
    )
    name = f"{number}.png\0".encode()
    return pack_sample(stored, None, name=name, target=number.to_bytes(8, "little"))


def write_dataset(
    path: Path,
    names: Sequence[bytes] | None = None,
    *,
    count: int = 3,
    offsets: dict[int, int] | None = None,
    targets: Sequence[bytes] | None = None,
) -> Path:
    """Write a dataset.

    Parameters
    ----------
    names : sequence of bytes
        As they are stored, with any content; one sample for each. None for no track of names.
    offsets : dict of int to int
        Offsets of samples that the tables place elsewhere.
    """
    count = count if names is None else len(names)
    samples = [sample(number % 3) for number in range(count)]
    if targets is None:
        targets = [number.to_bytes(8, "little", signed=True) for number in range(count)]
    entries = {"bzna_input": samples, "bzna_target": targets, "bzna_fname": list(names or ())}
    tracks, at = {}, HEAD_NBYTES
    for name, parts in entries.items():
        tracks[name] = extents(parts, at)
        at += sum(map(len, parts))
    for number, offset in (offsets or {}).items():
        tracks["bzna_input"].offsets[number] = offset
    if names is None:
        del tracks["bzna_fname"]
    thumbs = [parse_sample(data).tracks["bzna_thumb"] for data in samples]
    starts = tracks["bzna_input"].offsets
    tracks["bzna_thumb"] = Extents(
        starts + np.array([thumb.offset for thumb in thumbs], np.uint64),
        np.array([thumb.nbytes for thumb in thumbs], np.uint64),
    )
    entry = film_entry(samples[0]) if samples else b""
    content = b"".join(part for parts in entries.values() for part in parts)
    path.write_bytes(pack_head(len(content)) + content + pack_movie(tracks, entry))
    return path
