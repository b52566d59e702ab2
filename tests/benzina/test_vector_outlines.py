"""Boxes and tables of files by Benzina's tools, compared with the manifest."""

import hashlib
from typing import Any

import numpy as np
import pytest

from bloscpack.benzina.mp4.bmff import CHUNK_RUN, children, reader_of, walk
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
