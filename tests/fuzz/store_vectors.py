"""Small frame stores of every kind, their content, and the positions of their fields."""

import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.frames.store import directory, lossless
from bloscpack.frames.store.format import (
    CLIP_SIZE,
    DIGEST_SIZE,
    FLAG_DIRECTORY,
    FLAG_PART,
    FORMAT_SIZE,
    SEGMENT_MAGIC,
    TAIL_SIZE,
    Tail,
)
from bloscpack.media import image

HEADER_SIZE = 64
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class SoundClip:
    """Content of a clip: frames that may differ in shape, or one array of them."""

    frames: tuple[Array, ...]
    meta: dict[str, Any]


@dataclass(frozen=True)
class StoreVector:
    """Valid store.

    Attributes
    ----------
    fields : list of (int, int)
        Position and size of the numbers that readers use.
    chunks : list of (int, int, int)
        Position and stored size of each chunk, and the position of its digest.
    tails : list of Tail
        Tails of all segments.
    """

    name: str
    data: bytes
    clips: dict[str, SoundClip] = field(repr=False)
    fields: list[tuple[int, int]] = field(repr=False)
    chunks: list[tuple[int, int, int]] = field(repr=False)
    tails: list[Tail] = field(repr=False)

    def seal(self, data: bytearray) -> None:
        """Recompute digests at the positions of the valid file."""
        if len(data) < len(self.data):
            return
        data[HEADER_SIZE - DIGEST_SIZE : HEADER_SIZE] = xxh3_64_digest(
            bytes(data[: HEADER_SIZE - DIGEST_SIZE])
        )
        for offset, cbytes, place in self.chunks:
            digest = xxh3_64_digest(bytes(data[offset : offset + cbytes]))
            data[place : place + DIGEST_SIZE] = digest
        for tail in self.tails:
            start = tail.end - TAIL_SIZE
            if tail.flags & FLAG_DIRECTORY:
                self._seal_table(data, tail)
            for number, section in enumerate(tail.sections):
                at = tail.section_offset(number)
                digest = xxh3_64_digest(bytes(data[at : at + section.stored]))
                place = start + 64 + 24 * number + 16
                data[place : place + DIGEST_SIZE] = digest
            end = tail.end - DIGEST_SIZE
            data[end : tail.end] = xxh3_64_digest(bytes(data[start:end]))

    def _seal_table(self, data: bytearray, tail: Tail) -> None:
        """Recompute the digests in the table of a directory, which has one page."""
        parts = [each for each in self.tails if each.flags & FLAG_PART]
        at = tail.section_offset(2) + 72 + 16 * len(parts)
        for part in parts:
            data[at : at + DIGEST_SIZE] = data[part.end - DIGEST_SIZE : part.end]
            at += DIGEST_SIZE
        page = bytes(data[tail.offset : tail.offset + tail.sections[0].stored])
        data[at + 8 : at + 8 + DIGEST_SIZE] = xxh3_64_digest(page)


def _fields(tails: list[Tail], chunks: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Return the positions of the numbers; those of the last segments are used most often."""
    found = [(at, 1) for at in (4, 5, 6, 7, 36, 38)] + [(40, 8), (48, 4)]
    found += [(HEADER_SIZE + at, 4) for at in (12, 16, 20)]
    for weight, tail in zip((1, 3), (tails[0], tails[-1]), strict=True):
        start = tail.end - TAIL_SIZE
        numbers = [(start + at, size) for at, size in ((8, 2), (10, 2), (12, 4))]
        numbers += [(start + at, 8) for at in range(16, 64, 8)]
        for section in range(3):
            numbers += [(start + 64 + 24 * section + at, 8) for at in (0, 8)]
            numbers.append((start + 136 + section, 1))
        numbers += _table_fields(tail) if tail.flags & FLAG_DIRECTORY else _clip_fields(tail)
        found += numbers * weight
    for offset, _, _ in chunks[:3] + chunks[-1:]:
        found += [(offset + at, 1) for at in range(4)] + [(offset + at, 4) for at in (4, 8, 12)]
    return found


def _table_fields(tail: Tail) -> list[tuple[int, int]]:
    """Return the positions of all numbers of the table, and of some of the page."""
    table, pages = tail.section_offset(2), tail.section_offset(0)
    found = [(table + at, 8) for at in range(0, tail.sections[2].stored, 8)]
    return found + [(pages + at, 4) for at in range(0, tail.sections[0].stored, 20)]


def _clip_fields(tail: Tail) -> list[tuple[int, int]]:
    """Return the positions of the columns of clips, formats, chunks and metadata."""
    if any(section.stored != section.decoded for section in tail.sections):
        return []
    nclips, found, at = tail.nclips, [], tail.section_offset(0)
    for size in (8, 4, 4, 8, 8, 4):
        found += [(at + size * number, size) for number in (0, nclips // 2, nclips - 1)]
        at += size * nclips
    for _ in range(tail.nformats):
        found += [(at + byte, 1) for byte in range(8)] + [(at + 24 + 4 * k, 4) for k in range(4)]
        at += FORMAT_SIZE
    assert at == tail.offset + nclips * CLIP_SIZE + tail.nformats * FORMAT_SIZE
    at = tail.section_offset(1)
    found += [(at + plane * tail.nchunks, 1) for plane in range(5)]
    return [*found, (tail.section_offset(2), 8)] if nclips else []


def _tails(data: bytes) -> list[Tail]:
    found, place = [], data.find(SEGMENT_MAGIC)
    while place >= 0:
        found.append(Tail.unpack(data[place : place + TAIL_SIZE], place + TAIL_SIZE))
        place = data.find(SEGMENT_MAGIC, place + 1)
    return found


def _vector(name: str, data: bytes) -> StoreVector:
    clips, chunks = {}, []
    with bp.frames.open(data) as store:
        for id_ in store:
            clip = store[id_]
            clips[id_] = SoundClip(tuple(clip[index] for index in range(len(clip))), clip.meta)
            places = store._index.chunks_of(clip._ordinal)
            columns = (places.offsets, places.cbytes, places.digests)
            chunks += zip(*(column.tolist() for column in columns), strict=True)
    tails = _tails(data)
    return StoreVector(name, data, clips, _fields(tails, chunks), chunks, tails)


@cache
def store_vectors() -> list[StoreVector]:
    """Return stores of every kind of frame, chain and section."""
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"

        def made(name: str, *clips: tuple[Any, dict[str, Any]], flush: bool = False) -> StoreVector:
            with bp.frames.create(path, overwrite=True, nthreads=1, attrs={"n": 1}) as store:
                for number, (frames, options) in enumerate(clips):
                    store.append(f"{name} {number}", frames, {"number": number}, **options)
                    if flush:
                        store.flush()
                if name == "open":  # as left by a killed writer
                    return _vector(name, path.read_bytes())
            return _vector(name, path.read_bytes())

        ramp = np.add.outer(np.arange(9), np.arange(20)).astype("u1")
        still = np.repeat(rng.integers(0, 256, (1, 12, 16, 3), "u1"), 11, 0)
        still[:, 0, 0, 0] = np.arange(11)
        noise = rng.integers(0, 255, (3, 9, 8, 3), dtype="u1")
        rough = rng.integers(0, 16, (9, 16, 48, 3), dtype="u1")
        moving = np.stack([np.roll(rough[0, :, :16], 2 * k, 1) * np.uint8(16) for k in range(6)])
        images = [image.encode_jpeg(frame) for frame in noise]
        images.append(image.encode_png(noise[0, :5]))
        tenths = np.round(np.add.outer(ramp[:3, :1], ramp) * np.float32(0.1), 1)
        with patch.object(lossless, "_MIN_ARRAY_NBYTES", 0):
            arrays = made("arrays", (tenths.reshape(3, 9, 20), {"preset": "small"}))
        with patch.object(directory, "PART_CLIPS", 4):
            parts = made("parts", *[(np.full((1, 2), number, "i2"), {}) for number in range(14)])
        return [
            arrays,
            made("empty"),
            made("rgb", (noise, {"preset": "small"}), (np.stack([ramp] * 2), {})),
            made("packed", (rough, {}), (rough[:2, ..., 0], {}), (rough // 7 + rough[0], {})),
            made("still", (still, {"preset": "small"}), (still[:9], {})),
            made("shared", (rng.integers(0, 2, (300, 5, 4)).astype(bool), {})),
            made(
                "raw",
                (noise, {"preset": "raw"}),
                (ramp[None], {}),
                (rng.integers(0, 9, (300, 5, 4), "u1"), {"preset": "raw"}),
            ),
            made("video", (moving, {"codec": "video", "gop": 4}), (moving[:1], {})),
            made("image", (images[:3], {}), (images, {}), (noise[:1], {"codec": "jpeg"})),
            made(
                "others",
                (rng.integers(0, 60000, (5, 20, 20), dtype="u2"), {"preset": "small"}),
                (np.linspace(0, 1, 500).reshape(5, 100), {}),
                (np.arange(5).astype("M8[ns]"), {}),
                (np.zeros((4, 0, 3), "c8"), {}),
                (np.zeros((0, 3)), {}),
                (rng.random((2, 1, 1, 1, 1, 1, 2, 1, 3)).astype(">f4"), {}),
            ),
            made("open", *[(noise[k : k + 1], {}) for k in (0, 1, 2, 0)]),
            made("flushed", *[(ramp[None, k:], {}) for k in range(5)], flush=True),
            made("many", *[(np.full((1, 2), number, "i2"), {}) for number in range(30)]),
            parts,
        ]
