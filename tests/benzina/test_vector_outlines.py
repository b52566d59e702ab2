"""Boxes and tables of files by Benzina's tools, compared with the manifest."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.benzina.mp4.bmff import CHUNK_RUN, Window, children, reader_of, walk
from bloscpack.benzina.mp4.format import unpack_name
from bloscpack.benzina.mp4.movie import Movie, TrackTable, sample_offsets, unpack_movie
from bloscpack.benzina.mp4.samplelayout import parse_sample

from . import vectors

DATASETS = vectors.names("dataset")
SAMPLES = vectors.names("input_sample")
each_dataset = pytest.mark.parametrize("name", DATASETS)


def outline_of(data: bytes) -> Movie:
    return unpack_movie(reader_of(data), len(data))


def locations(data: bytes, track: TrackTable) -> list[list[int]]:
    """Return [offset, size] of every sample."""
    runs = np.frombuffer(data, CHUNK_RUN, track.runs.count, track.runs.offset)
    chunks = np.frombuffer(data, track.chunks.dtype, track.chunks.count, track.chunks.offset)
    sizes = np.frombuffer(data, track.sizes.dtype, track.sizes.count, track.sizes.offset)
    if track.sample_nbytes:
        sizes = np.full(track.count, track.sample_nbytes)
    offsets = sample_offsets(track, sizes, runs, chunks)
    return [[int(a), int(b)] for a, b in zip(offsets, sizes, strict=True)]


def top_level(data: bytes) -> list[list[Any]]:
    boxes = children(reader_of(data), 0, len(data), to_end=True)
    return [[box.kind.decode(), box.offset, box.nbytes, box.header_nbytes] for box in boxes]


@each_dataset
def test_boxes_and_brands(name: str) -> None:
    facts, data = vectors.facts(name), vectors.data(name)
    if "boxes" in facts:
        assert top_level(data) == facts["boxes"]
        brands = bytes.fromhex(facts["brands"])
        assert outline_of(data).brands == (brands[:4], brands[8:12], brands[12:16])
    else:
        assert {box[0] for box in top_level(data)} == {"ftyp", "mdat", "moov"}


@each_dataset
def test_tracks(name: str) -> None:
    facts, data = vectors.facts(name), vectors.data(name)
    movie = outline_of(data)
    assert movie.others == ()
    for track_name, expected in facts.get("tracks", {}).items():
        check_track(data, movie.tracks[track_name], expected)
    if "tracks" in facts:
        assert movie.tracks.keys() == facts["tracks"].keys()


def check_track(data: bytes, track: TrackTable, expected: dict[str, Any]) -> None:
    assert track.name.encode() + b"\0" == bytes.fromhex(expected["name_bytes"])
    assert track.handler.decode() == expected["handler"]
    assert track.entry_kind.decode() == expected["entry"]
    assert track.media == (expected["timescale"], expected["duration"])
    assert track.header.flags == expected["tkhd_flags"]
    assert track.header.width == expected["tkhd_width_16_16"]
    assert track.header.height == expected["tkhd_height_16_16"]
    assert locations(data, track) == expected["locations"]
    assert track.count == len(expected["locations"])
    assert track.chunks.dtype.itemsize == {"stco": 4, "co64": 8}[expected["chunk_offset_box"]]
    if "mett" in expected:
        assert track.mime == expected["mett"]["mime"]
        assert (track.frame, track.config_kind, track.config) == ((0, 0), b"", (0, 0))
        return
    config = data[track.config.offset : track.config.offset + track.config.nbytes]
    assert hashlib.sha256(config).hexdigest() == expected["config_sha256"]
    assert list(track.frame) == expected["frame"]
    assert track.config_kind.decode() == expected["entry_children"][0]
    inside = children(reader_of(data), track.entry.offset + 8 + 78, sum(track.entry))
    assert [box.kind.decode() for box in inside] == expected["entry_children"]


def check_logical(data: bytes, logical: dict[str, Any]) -> None:
    """Check the content of a dataset, read through the tables of its tracks."""
    tracks = outline_of(data).tracks

    def contents(name: str) -> list[bytes]:
        return [data[at : at + size] for at, size in locations(data, tracks[name])]

    samples = contents("bzna_input")
    assert [hashlib.sha256(sample).hexdigest() for sample in samples] == logical["sample_sha256"]
    targets = [int.from_bytes(target, "little", signed=True) for target in contents("bzna_target")]
    assert targets == logical["targets"]
    if logical["filenames"] is None:
        assert "bzna_fname" not in tracks
    else:
        assert [unpack_name(stored) for stored in contents("bzna_fname")] == logical["filenames"]
    for sample, (at, size), thumb in zip(
        samples,
        locations(data, tracks["bzna_input"]),
        locations(data, tracks["bzna_thumb"]),
        strict=True,
    ):
        inner = parse_sample(sample).tracks["bzna_thumb"]
        assert thumb == [at + inner.offset, inner.nbytes]
        assert at + size <= len(data)


@each_dataset
def test_contents(name: str) -> None:
    facts = vectors.facts(name)
    check_logical(vectors.data(name), facts["logical"])


def check_sample(data: bytes, facts: dict[str, Any]) -> None:
    assert top_level(data) == facts["boxes"]
    layout = parse_sample(data)
    assert layout.brands == (b"isom", b"isom") == (facts["brands"] and layout.brands)
    assert layout.tracks.keys() == facts["tracks"].keys()
    for name, expected in facts["tracks"].items():
        track = layout.tracks[name]
        assert track.name == name
        assert track.handler.decode() == expected["handler"]
        assert track.entry_kind.decode() == expected["entry"]
        assert [[track.offset, track.nbytes]] == expected["locations"]
        if "mett" in expected:
            assert track.mime == expected["mett"]["mime"]
            assert track[5:9] == (b"", b"", (0, 0), (0, 0, 0, 0))
            continue
        assert track.mime == ""
        assert list(track.frame) == expected["frame"]
        assert track.config_kind.decode() == expected["entry_children"][0]
        assert hashlib.sha256(track.config).hexdigest() == expected["config_sha256"]
        clap = expected["clap"]
        assert track.clean == (0, 0, clap["width"][0], clap["height"][0])
        if name in facts["pixels"]:
            assert list(track.clean[2:]) == facts["pixels"][name]["clean"]
    stored = layout.tracks["bzna_fname"]
    assert unpack_name(data[stored.offset :][: stored.nbytes]) == facts["filename"]
    shared = layout.tracks["bzna_thumb"].offset == layout.tracks["bzna_input"].offset
    assert shared == facts["thumb_shares_input_bytes"]


@each_dataset
def test_samples_of_datasets(name: str) -> None:
    facts, data = vectors.facts(name), vectors.data(name)
    for sample in facts.get("samples", []):
        check_sample(data[sample["offset"] :][: sample["size"]], sample)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    check_sample(vectors.data(name), vectors.facts(name))


@pytest.mark.parametrize("name", [*DATASETS, *SAMPLES])
def test_the_walk_comes_to_every_box(name: str) -> None:
    data = vectors.data(name)
    found = list(walk(reader_of(data), 0, len(data), to_end=True))
    assert sum(box.nbytes for path, box in found if not path) == len(data)
    for track in outline_of(data).tracks.values() if name in DATASETS else ():
        tables = {box.payload_offset for path, box in found if path[-1:] == (b"stbl",)}
        assert {track.runs.offset - 8, track.chunks.offset - 8} <= tables


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the dataset that is longer than 4 GiB, nearly all of it a hole."""
    recipe = vectors.manifest()["sparse"]["sparse_4g.bzna"]
    path = tmp_path_factory.mktemp("sparse") / "sparse.bzna"
    with path.open("wb") as file:
        file.truncate(recipe["total_size"])
        for segment in recipe["segments"]:
            file.seek(segment["offset"])
            file.write(vectors.data(segment["file"]))
    return path


def test_past_4_gib(sparse: Path) -> None:
    recipe = vectors.manifest()["sparse"]["sparse_4g.bzna"]
    taken: list[int] = []
    with sparse.open("rb") as file:

        def read_at(offset: int, nbytes: int) -> bytes:
            file.seek(offset)
            got = file.read(nbytes)
            taken.append(len(got))
            return got

        movie = unpack_movie(Window(read_at), recipe["total_size"])
        # The first bytes and the end from the moov on, but none of the 4 GiB between.
        assert taken == [8192, recipe["total_size"] - recipe["fname_offset"] - 5 * 7]
        track = movie.tracks["bzna_input"]
        assert track.chunks.dtype == ">u8"
        assert movie.tracks["bzna_target"].chunks.dtype == ">u8"
        offsets = np.frombuffer(read_at(track.chunks.offset, track.chunks.nbytes), ">u8")
        assert offsets.tolist() == recipe["input_offsets"]
        sizes = np.frombuffer(read_at(track.sizes.offset, track.sizes.nbytes), ">u4").tolist()
        digests = [
            hashlib.sha256(read_at(int(at), size)).hexdigest()
            for at, size in zip(offsets, sizes, strict=True)
        ]
        assert digests == recipe["logical"]["sample_sha256"]
