"""Datasets by Benzina's tools, and variants of them: everything that is read without decoding."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.benzina.mp4.bmff import pack_box
from bloscpack.exceptions import NotFoundError

from . import vectors
from .conftest import Counted
from .datasetfiles import boxes, replaced

each_dataset = pytest.mark.parametrize("name", vectors.names("dataset"))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check(dataset: benzina.Dataset, logical: dict[str, Any]) -> None:
    """Compare the content with the manifest, read in two ways."""
    count = logical["count"]
    names = logical.get("filenames") or [None] * count
    targets = logical["targets"] + [-1] * (count - len(logical["targets"]))
    assert len(dataset) == count
    assert list(dataset.names) == names
    assert dataset.targets.tolist() == targets
    assert dataset.targets.dtype == np.int64
    one_by_one = [dataset[index] for index in range(count)]
    for samples in (one_by_one, list(dataset.samples())):
        assert [sample.index for sample in samples] == list(range(count))
        assert [sample.name for sample in samples] == names
        assert [sample.target for sample in samples] == targets
        assert [sha256(sample.data) for sample in samples] == logical["sample_sha256"]
        assert [len(sample.data) for sample in samples] == [sample.size for sample in samples]


@each_dataset
@pytest.mark.parametrize("kind", ["path", "bytes", "file object"])
def test_content(name: str, kind: str) -> None:
    path = vectors.FOLDER / name
    logical = vectors.facts(name)["logical"]
    if kind == "file object":
        with path.open("rb") as stream, benzina.open(stream) as dataset:
            check(dataset, logical)
        return
    with benzina.open(path if kind == "path" else path.read_bytes()) as dataset:
        assert dataset.name == (str(path) if kind == "path" else None)
        check(dataset, logical)


@each_dataset
def test_samples_read_only_missing_parts(name: str) -> None:
    # Targets and names of single samples are read alone if nothing else was requested.
    logical = vectors.facts(name)["logical"]
    with benzina.open(vectors.FOLDER / name) as dataset:
        for index, target in enumerate(logical["targets"]):
            assert dataset[index].target == target
        last = dataset[-1]
        assert last.index == len(dataset) - 1
        assert last.target == dict(enumerate(logical["targets"])).get(last.index, -1)
        assert last.name == (logical.get("filenames") or [None])[-1]


@pytest.mark.parametrize(
    "name", [name for name in vectors.names("dataset") if "samples" in vectors.facts(name)]
)
def test_places_and_tracks(name: str) -> None:
    facts = vectors.facts(name)
    with benzina.open(vectors.FOLDER / name) as dataset:
        for sample, said in zip(dataset.samples(), facts["samples"], strict=True):
            assert (sample.location, sample.size) == (said["offset"], said["size"])
            assert sample.layout.tracks.keys() == said["tracks"].keys()
            for inner, track in said["tracks"].items():
                offset, nbytes = track["locations"][0]
                assert sample.read_track(inner) == sample.data[offset : offset + nbytes]
            with pytest.raises(NotFoundError, match=r"no track 'x'; it has bzna_"):
                sample.read_track("x")
        assert dataset.tracks.keys() == facts["tracks"].keys()
        content = (vectors.FOLDER / name).read_bytes()
        for inner, said in facts["tracks"].items():
            track = dataset.tracks[inner]
            places = [list(track[index]) for index in range(len(track))]
            assert places == said["locations"]
            assert track.offsets.tolist() == [offset for offset, _ in places]
            assert track.sizes.tolist() == [nbytes for _, nbytes in places]
            assert track[-1] == track[len(track) - 1]
            assert (track.name, track.handler) == (inner, said["handler"])
            assert track.mime == said.get("mett", {}).get("mime", "")
            assert track.shape == (tuple(reversed(said["frame"])) if "frame" in said else None)
            for index, (offset, nbytes) in enumerate(places):
                assert track.read(index) == content[offset : offset + nbytes]
            for index in (len(track), -len(track) - 1):
                with pytest.raises(IndexError, match=f"sample {index} of a track of {len(track)}"):
                    track[index]


def table(kind: bytes, *numbers: int, entry: int = 1, nbytes: int = 4) -> bytes:
    """Return a table box."""
    stored = b"".join(number.to_bytes(nbytes, "big") for number in numbers)
    return pack_box(kind, bytes(4) + (len(numbers) // entry).to_bytes(4, "big") + stored)


@pytest.mark.parametrize("per_chunk", [[5], [2, 3], [1, 3, 1], [2, 2, 1], [1, 1, 3]])
@pytest.mark.parametrize("nbytes", [4, 8])
def test_several_samples_in_a_chunk(per_chunk: list[int], nbytes: int) -> None:
    # Samples, targets and names each follow one another.
    data = vectors.data("base5.bzna")
    facts = vectors.facts("base5.bzna")
    firsts = [sum(per_chunk[:k]) for k in range(len(per_chunk))]
    runs = [
        (k + 1, count, 1) for k, count in enumerate(per_chunk) if not k or count != per_chunk[k - 1]
    ]
    for track in ("bzna_input", "bzna_target", "bzna_fname"):
        places = facts["tracks"][track]["locations"]
        (stsc,) = boxes(data, b"stsc", track)
        data = replaced(data, stsc, table(b"stsc", *sum(runs, ()), entry=3))
        (stco,) = boxes(data, b"stco", track)
        starts = [places[first][0] for first in firsts]
        kind = b"stco" if nbytes == 4 else b"co64"
        data = replaced(data, stco, table(kind, *starts, nbytes=nbytes))
    with benzina.open(data) as dataset:
        check(dataset, facts["logical"])
        for track in ("bzna_input", "bzna_target", "bzna_fname"):
            found = dataset.tracks[track]
            places = [list(found[k]) for k in range(5)]
            assert places == facts["tracks"][track]["locations"]


def test_past_4_gib(tmp_path: Path, counted: Counted) -> None:
    path = tmp_path / "sparse.bzna"
    recipe = vectors.write_sparse(path)
    with benzina.open(path) as dataset:
        # The first bytes and the end from the moov on, but none of the 4 GiB between.
        assert sum(nbytes for _, nbytes in counted.take()) < 1 << 16
        check(dataset, recipe["logical"])
        assert [sample.location for sample in dataset.samples()] == recipe["input_offsets"]
        assert dataset.tracks["bzna_target"][0].offset == recipe["target_offset"]
        assert dataset.tracks["bzna_fname"][0].offset == recipe["fname_offset"]
        assert all(sample.layout.tracks for sample in dataset.samples())
