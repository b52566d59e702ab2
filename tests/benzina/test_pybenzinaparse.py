"""The parser by Benzina's authors reads our files, and writes the same bytes."""

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.benzina.mp4.format import INPUT, NAME, TARGET, THUMB
from bloscpack.benzina.mp4.moviewriter import Extents, pack_movie
from bloscpack.benzina.mp4.samplelayout import parse_sample
from tests.conftest import SMALL_VECTORS
from tests.oracle import Oracle

from . import making

each_profile = pytest.mark.parametrize("profile", ["default", "reference"])


@each_profile
def test_every_field_is_understood(parser: Oracle, profile: str) -> None:
    """Packing the parsed fields gives the same bytes."""
    sample = making.sample(7, profile)  # type: ignore[arg-type]
    data = making.dataset([sample, sample], profile)  # type: ignore[arg-type]
    for stored in (sample, data):
        for kind in (b"ftyp", b"moov"):
            (box,) = parser("packed(data, kind)", data=stored, kind=kind)
            assert box in stored
            assert box[4:8] == kind


@each_profile
def test_it_finds_the_samples(parser: Oracle, profile: str) -> None:
    sample = making.sample(7, profile)  # type: ignore[arg-type]
    for name, track in parse_sample(sample).tracks.items():
        stored = name.encode() + b"\0"
        (found,) = parser("locations(data, name, 1)", data=sample, name=stored)
        assert found == (track.offset, track.nbytes)
        if name in (INPUT, THUMB):
            *_, width, height = track.clean
            assert parser("shape(data, name)", data=sample, name=stored) == [width, height]
    data = making.dataset([sample] * 3, profile)  # type: ignore[arg-type]
    found = parser("locations(data, name, 3)", data=data, name=b"bzna_input\0")
    assert [data[at : at + size] for at, size in found] == [sample] * 3
    found = parser("locations(data, name, 3)", data=data, name=b"bzna_target\0")
    targets = [int.from_bytes(data[at : at + size], "little") for at, size in found]
    assert targets == [0, 1, 2]


@pytest.mark.parametrize("codec", ["hevc", "h264", "av1"])
def test_it_finds_the_samples_of_the_small_vectors(parser: Oracle, codec: str) -> None:
    data = (SMALL_VECTORS / "formats" / f"{codec}.bzna").read_bytes()
    with benzina.open(data) as dataset:
        ours = [(sample.location, sample.size) for sample in dataset.samples()]
    assert len(ours) == 3
    assert parser("locations(data, name, 3)", data=data, name=b"bzna_input\0") == ours
    for track, expected in (
        (b"bzna_target\0", [number.to_bytes(8, "little") for number in range(3)]),
        (b"bzna_fname\0", [b"%d.png\0" % number for number in range(3)]),
    ):
        found = parser("locations(data, name, 3)", data=data, name=track)
        assert [data[at : at + size] for at, size in found] == expected
    for at, size in ours:
        (found,) = parser(
            "locations(data, name, 1)", data=data[at : at + size], name=b"bzna_input\0"
        )
        assert 0 < found[0] < found[0] + found[1] <= size


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("start", [40, 2**32 - 10, 2**40])
def test_its_tracks_are_ours(parser: Oracle, count: int, start: int) -> None:
    """Reference profile, including no targets at all and offsets past 4 GiB."""
    sizes = [5, 7, 9][:count]
    offsets = [start + sum(sizes[:index]) for index in range(count)]
    extents = Extents(np.array(offsets, np.uint64), np.array(sizes, np.uint64))
    moov = pack_movie({INPUT: extents, TARGET: extents, NAME: extents}, profile="reference")
    mimes = {INPUT: b"video/mp4", TARGET: b"application/octet-stream", NAME: b"text/plain"}
    for number, (name, mime) in enumerate(mimes.items(), 1):
        made = parser(
            "track(name, mime, sizes, start, number)",
            name=name.encode() + b"\0",
            mime=mime + b"\0",
            sizes=sizes,
            start=start,
            number=number,
        )
        assert made in moov
