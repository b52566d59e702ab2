"""An index of the size of ImageNet's, in a file without pictures."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.benzina.mp4.moviewriter import (
    HEAD_NBYTES,
    Extents,
    film_entry,
    pack_head,
    pack_movie,
)

from . import vectors
from .conftest import Counted

IMAGENET = 1_431_167
NAME_NBYTES = 25


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imagenet") / "ilsvrc2012.bzna"
    sizes = (np.arange(IMAGENET, dtype=np.uint64) * 7919) % 100_000 + 50_000
    offsets = HEAD_NBYTES + np.cumsum(sizes) - sizes
    end = int(offsets[-1] + sizes[-1])
    ordinals = np.arange(IMAGENET, dtype=np.uint64)
    tracks = {
        "bzna_input": Extents(offsets, sizes),
        "bzna_target": Extents(end + 8 * ordinals, np.full(IMAGENET, 8, np.uint64)),
        "bzna_fname": Extents(
            end + 8 * IMAGENET + NAME_NBYTES * ordinals,
            np.full(IMAGENET, NAME_NBYTES, np.uint64),
        ),
        "bzna_thumb": Extents(offsets + 28, sizes - 7000),
    }
    entry = film_entry(vectors.data("samples/dot.mp4"))
    moov = pack_movie(tracks, entry, profile="reference")
    nbytes = (8 + NAME_NBYTES) * IMAGENET
    with path.open("wb") as stream:
        stream.write(pack_head(end - HEAD_NBYTES + nbytes))
        stream.seek(end)
        stream.write((ordinals.astype("<i8") % 1000).tobytes())
        names = np.tile(np.frombuffer(b"ILSVRC2012_00000000.JPEG\0", "u1"), (IMAGENET, 1))
        for digit in range(8):
            names[:, 18 - digit] += (ordinals // 10**digit % 10).astype("u1")
        stream.write(names.tobytes())
        stream.seek(end + nbytes)
        stream.write(moov)
    return path


def test_opens_in_a_few_reads(path: Path, counted: Counted) -> None:
    dataset = benzina.open(path, splits="imagenet")
    reads = counted.take()
    assert len(reads) <= 16
    assert sum(nbytes for _, nbytes in reads) < 200_000
    assert len(dataset) == IMAGENET
    assert len(dataset.split("train")) == IMAGENET - 150_000
    assert dataset.split("val").indices == range(IMAGENET - 150_000, IMAGENET - 100_000)
    assert len(dataset.split("test")) == 100_000
    assert counted.take() == []
    last = dataset[-1]
    assert last.location + last.size == dataset.tracks["bzna_target"][0].offset
    assert last.target == (IMAGENET - 1) % 1000
    assert last.name is not None
    assert last.name.startswith("ILSVRC2012_01431166")
    counted.take()
    assert dataset.split("val").targets[:2].tolist() == [167, 168]
    assert [nbytes for _, nbytes in counted.take()] == [8 * IMAGENET]
    assert len(pickle.dumps(dataset.split("val"))) < 1000
    dataset.close()


def test_ids(path: Path) -> None:
    with benzina.open(path) as dataset:
        assert dataset["ILSVRC2012_00777777.JPEG"].index == 777_777
        assert dataset.keys()[12345] == "ILSVRC2012_00012345.JPEG"
        assert "ILSVRC2012_01431167.JPEG" not in dataset
