"""Frame store truncated at any byte: all intact clips, and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entries import Reader, outcome
from store_entries import store_readers

import bloscpack as bp
from bloscpack.exceptions import FormatError
from bloscpack.frames.store.format import SEGMENT_MAGIC, TAIL_SIZE, Tail
from bloscpack.media import image
from tests.conftest import Some

RNG = np.random.default_rng(8)
STILL = np.repeat(RNG.integers(0, 256, (1, 6, 5), "u1"), 9, 0)
IMAGES = [image.encode_jpeg(np.full((8, size, 3), 20 * size, "u1")) for size in (5, 7)]
# Clips of each store; those flushed together are in one list.
STORES: dict[str, list[list[Any]]] = {
    "one": [[STILL]],
    "one by one": [[STILL[:2]], [STILL[2:3]], [np.zeros((0, 2))], [STILL[:1] > 9]],
    "together": [[np.arange(3, dtype="<i8"), STILL[:1], IMAGES]],
    "raw": [[STILL[:2]], [STILL[2:3], STILL[:1] > 9]],
    "merged": [[STILL[:1]] * 4, [STILL[:1]], [STILL[:1]] * 2],
}


def made(path: Path, groups: list[list[Any]], preset: Any = "fast") -> bytes:
    number = 0
    with bp.frames.create(path, preset=preset) as store:
        for group in groups:
            for frames in group:
                store.append(str(number), frames, {"number": number})
                number += 1
            store.flush()
    return path.read_bytes()


def ends_of_clips(data: bytes) -> list[int]:
    """Return the end of the first segment that lists 0, 1, 2... clips."""
    tails, place = [], data.find(SEGMENT_MAGIC)
    while place >= 0:
        tails.append(Tail.unpack(data[place : place + TAIL_SIZE], place + TAIL_SIZE))
        place = data.find(SEGMENT_MAGIC, place + 1)
    totals = sorted({tail.total for tail in tails})
    return [min(tail.end for tail in tails if tail.total == total) for total in totals]


def content(store: Any) -> Iterator[tuple[str, Any, Any]]:
    for id_ in store:
        clip = store[id_]
        frames = [
            (frame.shape, frame.tobytes())
            for frame in map(np.asarray, map(clip.read, range(len(clip))))
        ]
        yield id_, frames, clip.meta


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", STORES)
def test_cut_at_every_byte(tmp_path: Path, name: str, some: Some) -> None:
    data = made(tmp_path / "store", STORES[name], "raw" if name == "raw" else "fast")
    with bp.frames.open(data) as store:
        whole = list(content(store))
    ends = ends_of_clips(data)
    assert len(ends) == len(whole) + 1
    for size in {*some(range(len(data)), 7), *ends, *(end - 1 for end in ends)} - {len(data)}:
        count = sum(end <= size for end in ends) - 1
        if count < 0:
            with pytest.raises(FormatError):
                bp.frames.open(data[:size])
            continue
        with bp.frames.open(data[:size]) as store:
            assert list(content(store)) == whole[:count], size


@pytest.fixture
def every_way(tmp_path: Path) -> dict[str, Reader]:
    (tmp_path / "ways").mkdir()
    return store_readers(tmp_path / "ways")


@pytest.mark.slow
@pytest.mark.parametrize("name", STORES)
def test_cut_in_every_way(tmp_path: Path, every_way: dict[str, Reader], name: str) -> None:
    """All other functions agree on the remaining clips."""
    data = made(tmp_path / "store", STORES[name], "raw" if name == "raw" else "fast")
    ends = ends_of_clips(data)
    for size in [*range(0, len(data), 37), *ends, *(end - 1 for end in ends)]:
        count = sum(end <= size for end in ends) - 1
        found = {way: outcome(way, read, data[:size]) for way, read in every_way.items()}
        if count < 0:
            assert {what for what, _ in found.values()} == {"refused"}, (size, found)
            continue
        expected = [str(number) for number in range(count)]
        assert {what for what, _ in found.values()} == {"value"}, (size, found)
        assert found["store travels"][1] == expected
        assert found["store several"][1] == [*expected, "other"]
        assert found["store append"][1] == count + 1
        assert [id_ for id_, *_ in found["store clips"][1]] == expected
