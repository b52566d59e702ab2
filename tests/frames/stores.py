"""Small stores for tests, and files that record how they are read."""

from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack.frames.store.format import SEGMENT_MAGIC, TAIL_SIZE, Tail

Array = np.ndarray[Any, np.dtype[Any]]


def clip(number: int, nframes: int = 3, shape: tuple[int, ...] = (24, 25)) -> Array:
    """Return noise frames: each has a chunk to itself and is incompressible."""
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (nframes, *shape), dtype=np.uint8)


def decimals(nframes: int, dtype: str = "f4", side: int = 160) -> Array:
    """Return frames of a smooth field with one decimal place, which are stored as array chunks."""
    y, x = np.mgrid[:side, :side]
    fields = [np.sin(y / 40 + k / 9) * 30 + np.cos(x / 31) * 20 for k in range(nframes)]
    return np.round(np.stack(fields), 1).astype(dtype)


def name(number: int) -> str:
    return f"clip {number}"


def fill(store: bp.frames.FrameStore, *numbers: int) -> None:
    for number in numbers:
        store.append(name(number), clip(number), {"number": number})


def made(path: Path, *groups: int) -> bytes:
    """Create a store of clips, flushed after each of `groups` of them, and return the file."""
    done = 0
    with bp.frames.create(path, nthreads=1) as store:
        for count in groups:
            fill(store, *range(done, done + count))
            done += count
            store.flush()
    return path.read_bytes()


def check(store: bp.frames.FrameStore, *numbers: int) -> None:
    """Check that a store has exactly these clips, with all their frames."""
    assert list(store) == [name(number) for number in numbers]
    for number in numbers:
        found = store[name(number)]
        assert np.array_equal(found.read(), clip(number))
        assert found.meta == {"number": number}


def tails(data: bytes) -> list[Tail]:
    """Return the tails of all segments in a file."""
    found, place = [], data.find(SEGMENT_MAGIC)
    while place >= 0:
        found.append(Tail.unpack(data[place : place + TAIL_SIZE], place + TAIL_SIZE))
        place = data.find(SEGMENT_MAGIC, place + 1)
    return found


def changed(data: bytes, place: int, value: bytes | None = None) -> bytes:
    """Return the data with bytes replaced at an offset, by default with one different byte."""
    value = bytes([data[place] ^ 0x5A]) if value is None else value
    return data[:place] + value + data[place + len(value) :]
