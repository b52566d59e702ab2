"""Benzina dataset truncated at any byte, on disk or while open: whole samples, or an error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.benzina.mp4.bmff import pack_box
from bloscpack.benzina.mp4.format import pack_name
from bloscpack.benzina.mp4.moviewriter import Extents, pack_movie
from bloscpack.exceptions import CodecError, FormatError, TruncatedError
from tests.benzina import making, vectors
from tests.benzina.datasetfiles import dataset_bytes
from tests.conftest import Some

COUNT = 2
SAMPLES = [making.sample(number) for number in (1, 1000)]  # of two sizes
TARGETS = [number.to_bytes(8, "little") for number in range(COUNT)]
NAMES = [pack_name(f"{number}.png") for number in range(COUNT)]
ENTRIES = {"bzna_input": SAMPLES, "bzna_target": TARGETS, "bzna_fname": NAMES}


def in_front() -> tuple[bytes, list[int]]:
    """Return a dataset with its index at the front, and the end of each entry, in order.

    The index is followed by a box without a size: no box reveals a cut in it.
    """
    parts = [part for entries in ENTRIES.values() for part in entries]
    sizes = np.array([len(part) for part in parts], np.uint64)

    def movie(start: int) -> bytes:
        offsets = start + np.cumsum(sizes) - sizes
        tracks = {
            name: Extents(offsets[k * COUNT :][:COUNT], sizes[k * COUNT :][:COUNT])
            for k, name in enumerate(ENTRIES)
        }
        return pack_box(b"ftyp", b"isom\0\0\0\0bzna") + pack_movie(tracks)

    start = len(movie(0)) + 8
    data = movie(start) + b"\0\0\0\0mdat" + b"".join(parts)
    return data, (start + np.cumsum(sizes)).tolist()


def read_at(dataset: benzina.Dataset, nbytes: int, ends: list[int]) -> None:
    """Read everything, and compare it with the content of the first `nbytes`."""
    read = {
        "bzna_input": lambda k: dataset[k].data,
        "bzna_target": lambda k: dataset[k].target.to_bytes(8, "little"),
        "bzna_fname": lambda k: (dataset[k].name_bytes or b"") + b"\0",
    }
    for number, end in enumerate(ends):
        name, k = [*read][number // COUNT], number % COUNT
        check(lambda name=name, k=k: read[name](k), ENTRIES[name][k], is_there=end <= nbytes)
    check(lambda: dataset.targets.tolist(), [0, 1], is_there=ends[2 * COUNT - 1] <= nbytes)
    check(lambda: list(dataset.names), ["0.png", "1.png"], is_there=ends[-1] <= nbytes)
    for sample in dataset.samples():
        is_there = ends[sample.index] <= nbytes
        check(lambda sample=sample: sample.data, SAMPLES[sample.index], is_there=is_there)
        assert sample.index in (0, 1)


def check(read: Callable[[], Any], expected: Any, *, is_there: bool) -> None:
    if is_there:
        assert read() == expected
        return
    with pytest.raises(TruncatedError, match="its bytes"):
        read()


def test_every_cut_of_a_file_with_its_index_at_the_end() -> None:
    data = dataset_bytes(SAMPLES, NAMES, TARGETS)
    for nbytes in range(len(data)):
        with pytest.raises(FormatError):
            benzina.open(data[:nbytes])
    with benzina.open(data) as dataset:
        assert [sample.data for sample in dataset.samples()] == SAMPLES


def test_every_cut_of_a_file_with_its_index_in_front(some: Some) -> None:
    data, ends = in_front()
    start = ends[0] - len(SAMPLES[0])
    whole = [start - 8, *range(start, len(data) + 1)]  # of whole boxes
    for nbytes in set(some(range(start), 7)) - {*whole}:
        with pytest.raises(FormatError):
            benzina.open(data[:nbytes])
    for nbytes in some(whole, 7):
        with benzina.open(data[:nbytes]) as dataset:
            read_at(dataset, nbytes, ends)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_used", [False, True], ids=["new", "used"])
def test_cut_while_it_is_open(is_used: bool, tmp_path: Path) -> None:
    """Tables that were read before remain; reading the missing data raises."""
    data, ends = in_front()
    path = tmp_path / "a.bzna"
    for nbytes in range(len(data), 0, -13):
        path.write_bytes(data)
        with benzina.open(path) as dataset:
            for track in dataset.tracks.values() if is_used else ():
                assert len(track.offsets) == COUNT
            with path.open("r+b") as file:
                file.truncate(nbytes)
            if is_used:
                read_at(dataset, nbytes, ends)
                continue
            for index in range(COUNT):
                sample = dataset[index]
                for name in ("data", "name", "target", "location"):
                    if nbytes < ends[-1]:
                        try:
                            getattr(sample, name)
                        except TruncatedError:
                            continue
                    getattr(sample, name)


def test_every_cut_of_a_sample() -> None:
    data = vectors.data("samples/dot.mp4")
    assert benzina.parse_sample(data).tracks
    for nbytes in range(len(data)):
        with pytest.raises(FormatError):
            benzina.parse_sample(data[:nbytes])
    # In a dataset that stores as few bytes for it.
    for nbytes in range(0, len(data), 101):
        with benzina.open(dataset_bytes([data[:nbytes], data])) as dataset:
            with pytest.raises(FormatError, match="sample 0: "):
                dataset[0].layout  # noqa: B018 - parsed here
            assert dataset[1].layout == benzina.parse_sample(data)


def test_pictures_that_are_cut() -> None:
    """Lost bytes of a picture are zeros, which its decoder may accept."""
    pytest.importorskip("av")
    base = vectors.data("solo1.bzna")
    facts = vectors.facts("solo1.bzna")["samples"][0]
    sample = base[facts["offset"] : facts["offset"] + facts["size"]]
    thumb = benzina.parse_sample(sample).tracks["bzna_thumb"]
    wanted = benzina.open(base)[0].decode()
    nrefused = 0
    for nbytes in range(0, thumb.nbytes, 97):
        damaged = sample[: thumb.offset + nbytes].ljust(thumb.offset + thumb.nbytes, b"\0")
        damaged += sample[len(damaged) :]
        with benzina.open(dataset_bytes([damaged, sample])) as dataset:
            try:
                assert dataset[0].decode().shape == wanted.shape
            except (FormatError, CodecError):
                nrefused += 1
            np.testing.assert_array_equal(dataset[1].decode(), wanted)
    assert nrefused > 0
