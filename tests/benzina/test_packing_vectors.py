"""Files of Benzina's tools, rebuilt byte for byte from their content."""

import numpy as np
import pytest

from bloscpack.benzina.mp4.bmff import children, reader_of
from bloscpack.benzina.mp4.boxes import unpack_visual
from bloscpack.benzina.mp4.format import INPUT, pack_name
from bloscpack.benzina.mp4.movie import Movie, unpack_movie
from bloscpack.benzina.mp4.moviewriter import (
    HEAD_NBYTES,
    Extents,
    film_entry,
    pack_head,
    pack_movie,
)
from bloscpack.benzina.mp4.samplelayout import parse_sample
from bloscpack.benzina.mp4.samplewriter import StoredPicture, pack_sample

from . import vectors

DATASETS = [
    name for name in vectors.names("dataset") if vectors.facts(name)["made_by"] == "reference"
]
SAMPLES = vectors.names("input_sample")


def extents_of(locations: list[list[int]]) -> Extents:
    pairs = np.array(locations, np.uint64).reshape(-1, 2)
    return Extents(pairs[:, 0], pairs[:, 1])


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset(name: str) -> None:
    data, facts = vectors.data(name), vectors.facts(name)
    tracks = {
        track: extents_of(expected["locations"]) for track, expected in facts["tracks"].items()
    }
    first, nbytes = facts["tracks"][INPUT]["locations"][0]
    entry = film_entry(data[first : first + nbytes])
    _, mdat, moov = facts["boxes"]
    assert pack_head(mdat[2] - mdat[3]) == data[:HEAD_NBYTES]
    assert pack_movie(tracks, entry, profile="reference") == data[moov[1] :]


def test_a_dataset_past_4_gib() -> None:
    recipe = vectors.manifest()["sparse"]["sparse_4g.bzna"]
    tail = vectors.data(recipe["segments"][1]["file"])
    start = recipe["fname_offset"] + 5 * 7 - recipe["segments"][1]["offset"]
    sizes = [size for _, size in vectors.facts("base5.bzna")["tracks"][INPUT]["locations"]]
    inputs = [[at, size] for at, size in zip(recipe["input_offsets"], sizes, strict=True)]
    tracks = {
        "bzna_input": extents_of(inputs),
        "bzna_target": extents_of([[recipe["target_offset"] + 8 * k, 8] for k in range(5)]),
        "bzna_fname": extents_of([[recipe["fname_offset"] + 7 * k, 7] for k in range(5)]),
    }
    packed = pack_movie(tracks, profile="reference")
    assert packed == tail[start:]
    assert packed.count(b"co64") == 3


def facts_of(sample: bytes) -> tuple[StoredPicture, StoredPicture, Movie]:
    """Return both pictures of a sample, with the additions of FFmpeg's muxer to their entries."""
    layout, movie = parse_sample(sample), unpack_movie(reader_of(sample), len(sample))
    pictures = []
    for name in ("bzna_input", "bzna_thumb"):
        track, entry = layout.tracks[name], movie.tracks[name].entry
        visual = unpack_visual(sample[entry.offset + 8 :])
        inside = children(reader_of(sample), entry.offset + 8 + 78, sum(entry))
        boxes = {box.kind: sample[box.payload_offset : box.end] for box in inside}
        aspect = boxes.get(b"pasp")
        pictures.append(
            StoredPicture(
                track.config_kind,
                track.config,
                sample[track.offset : track.offset + track.nbytes],
                track.frame,
                track.clean,
                compressor=visual.compressor,
                aspect=aspect and (int.from_bytes(aspect[:4]), int.from_bytes(aspect[4:])),
            )
        )
    return pictures[0], pictures[1], movie


def check_sample(sample: bytes, name: str, target: int | None) -> None:
    picture, thumb, _ = facts_of(sample)
    stored = None if target is None else target.to_bytes(8, "little", signed=True)
    packed = pack_sample(picture, thumb, name=pack_name(name), target=stored, profile="reference")
    assert packed == sample


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample(name: str) -> None:
    facts = vectors.facts(name)
    check_sample(vectors.data(name), facts["filename"], facts.get("target"))


@pytest.mark.parametrize("name", DATASETS)
def test_samples_of_a_dataset(name: str) -> None:
    data, facts = vectors.data(name), vectors.facts(name)
    for sample in facts["samples"]:
        stored = data[sample["offset"] :][: sample["size"]]
        check_sample(stored, sample["filename"], sample.get("target"))
