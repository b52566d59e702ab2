"""Small files in the written form, with payloads that no decoder can decode."""

from collections.abc import Sequence

import numpy as np

from bloscpack.benzina.mp4.format import INPUT, NAME, TARGET, THUMB, Profile, pack_name
from bloscpack.benzina.mp4.moviewriter import Extents, film_entry, pack_head, pack_movie
from bloscpack.benzina.mp4.samplewriter import StoredPicture, pack_sample

HVCC = b"\x01" + bytes(range(1, 22)) + b"\0"  # without parameter sets


def picture(
    payload: bytes = b"picture",
    frame: tuple[int, int] = (64, 64),
    clean: tuple[int, int, int, int] = (0, 0, 33, 64),
    config_kind: bytes = b"hvcC",
) -> StoredPicture:
    return StoredPicture(config_kind, HVCC, payload, frame, clean)


def sample(number: int = 0, profile: Profile = "default") -> bytes:
    """Return a sample with a thumbnail of unique bytes."""
    target = number.to_bytes(8, "little", signed=True)
    big = picture(b"picture %d" % number, (128, 64), (0, 0, 100, 50))
    small = picture(b"thumb %d" % number)
    return pack_sample(big, small, name=pack_name(f"{number}.png"), target=target, profile=profile)


def dataset(samples: Sequence[bytes], profile: Profile = "default") -> bytes:
    """Return a dataset of samples from `sample`, in order."""
    places: dict[str, list[tuple[int, int]]] = {INPUT: [], TARGET: [], NAME: [], THUMB: []}
    parts: list[bytes] = []
    at = len(pack_head(0))

    def add(track: str, data: bytes) -> None:
        nonlocal at
        places[track].append((at, len(data)))
        parts.append(data)
        at += len(data)

    for data in samples:
        places[THUMB].append((at + data.index(b"thumb "), len(b"thumb 0")))
        add(INPUT, data)
    for number in range(len(samples)):
        add(TARGET, number.to_bytes(8, "little"))
    for number in range(len(samples)):
        add(NAME, pack_name(f"{number}.png"))
    pairs = {name: np.array(found, np.uint64).reshape(-1, 2) for name, found in places.items()}
    tracks = {name: Extents(pair[:, 0], pair[:, 1]) for name, pair in pairs.items()}
    entry = film_entry(samples[0]) if samples else b""
    body = b"".join(parts)
    return pack_head(len(body)) + body + pack_movie(tracks, entry, profile=profile)


def nested(kind: bytes, depth: int) -> bytes:
    """Return nested boxes of one type, each containing only the next."""
    return b"".join(nbytes.to_bytes(4, "big") + kind for nbytes in range(8 * depth, 0, -8))
