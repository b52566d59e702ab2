"""The profile "reference": compared box by box with Benzina's tools, and read by its reader."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.benzina.mp4.bmff import CONTAINERS, children, reader_of
from bloscpack.exceptions import FormatError

from ..conftest import Warned
from . import vectors
from .pictures import decode_frame, photo, planes_of, psnr
from .test_writer import luma

# Fields that depend on the coding of a picture: parameters, bit rate, sizes and places.
CODED = {b"hvcC", b"btrt", b"stsz", b"stco", b"mdat"}
ENTRY_NBYTES = 78


def boxes_of(data: bytes, start: int, end: int) -> list[Any]:
    """Return (type, content) of boxes; the content of containers and sample entries is a list."""
    read, found = reader_of(data), []
    for box in children(read, start, end):
        payload = data[box.payload_offset : box.end]
        if box.kind in CONTAINERS:
            found.append((box.kind, boxes_of(data, box.payload_offset, box.end)))
        elif box.kind == b"stsd":
            found.append((box.kind, payload[:8], boxes_of(data, box.payload_offset + 8, box.end)))
        elif box.kind in (b"hvc1", b"avc1"):
            # Leave out the name of the encoder, 32 bytes at 42.
            fixed = payload[:42] + payload[74:ENTRY_NBYTES]
            inside = boxes_of(data, box.payload_offset + ENTRY_NBYTES, box.end)
            found.append((box.kind, fixed, inside))
        elif box.kind in CODED:
            found.append((box.kind, len(payload) if box.kind in (b"stsz", b"stco") else 0))
        else:
            found.append((box.kind, payload))
    return found


def pack_like(name: str, path: Path) -> Any:
    """Pack pictures with the sizes, names and targets of a file of Benzina's tools."""
    facts = vectors.facts(name)
    with benzina.Writer(path, profile="reference", preset="ultrafast", crf=36) as writer:
        for sample in facts["samples"]:
            width, height = sample["pixels"]["bzna_input"]["clean"]
            writer.add(photo(width, height), sample.get("target"), sample["filename"])
    return benzina.open(path)


@pytest.mark.parametrize("name", ["base5.bzna", "tail8.bzna"])
def test_boxes_are_those_of_the_tools(name: str, tmp_path: Path) -> None:
    expected = vectors.data(name)
    with pack_like(name, tmp_path / "a.bzna") as found, benzina.open(expected) as original:
        data = (tmp_path / "a.bzna").read_bytes()
        assert boxes_of(data, 0, len(data)) == boxes_of(expected, 0, len(expected))
        assert data[:24] == expected[:24]
        assert data[24:32] == expected[24:32]
        assert found.targets.tolist() == original.targets.tolist()
        assert list(found.names) == list(original.names)
        for ours, theirs in zip(found.samples(), original.samples(), strict=True):
            one, other = ours.data, theirs.data
            if name == "base5.bzna":  # tail8 comes from JPEG, whose aspect ratio is kept
                assert boxes_of(one, 0, len(one)) == boxes_of(other, 0, len(other))
            shared = [
                [track.offset for track in sample.layout.tracks.values() if track.config]
                for sample in (ours, theirs)
            ]
            assert (shared[0][0] == shared[0][1]) == (shared[1][0] == shared[1][1])
            assert b"x265" in ours.layout.tracks["bzna_input"].config


def test_a_picture_and_its_thumbnail(tmp_path: Path) -> None:
    rgb = photo(600, 20)
    with benzina.Writer(tmp_path / "a.bzna", profile="reference", preset="ultrafast") as writer:
        writer.add(rgb, 5, "wide")
    with benzina.open(tmp_path / "a.bzna") as found:
        tracks = found[0].layout.tracks
        expected = vectors.data("samples/portrait_notarget.mp4")
        sizes = [tracks[name].frame for name in ("bzna_input", "bzna_thumb")]
        assert sizes == [(1024, 512), (512, 512)]
        track = tracks["bzna_input"]
        frame = decode_frame(track.config_kind, track.config, found[0].read_track("bzna_input"))
        assert psnr(planes_of(frame)[0][:20, :600], luma(rgb)) > 45
        kinds = [box.kind for box in children(reader_of(expected), 0, len(expected))]
        data = found[0].data
        assert [box.kind for box in children(reader_of(data), 0, len(data))] == kinds


def test_targets_end_before_the_first_hole(warned: Warned) -> None:
    sample = vectors.data("samples/coffee_crf10.mp4")
    for targets, kept in [([1, 2, None, 4, None, -1], 2), ([None, 5], 0), ([3, 4], 2), ([], 0)]:
        stream = io.BytesIO()
        warned.clear()
        with benzina.Writer(stream, profile="reference") as writer:
            for target in targets:
                writer.add_encoded(sample, target, "x")
        with benzina.open(stream.getvalue()) as found:
            assert len(found.tracks["bzna_target"]) == kept
            assert len(found.tracks["bzna_fname"]) == len(targets)
            expected = [*targets[:kept], *[-1] * (len(targets) - kept)]
            assert found.targets.tolist() == expected
        lost = len([target for target in targets[kept:] if target not in (None, -1)])
        assert [text.rsplit(" ", 1)[1] for text in warned.texts] == [f"{lost}"] * (lost > 0)


def test_names_always_have_a_track() -> None:
    stream = io.BytesIO()
    with benzina.Writer(stream, profile="reference") as writer:
        writer.add_encoded(vectors.data("samples/avc.mp4"))
    with benzina.open(stream.getvalue()) as found:
        assert list(found.names) == [""]
        assert found.tracks["bzna_thumb"].handler == "vide"


def test_samples_without_thumbnails_are_refused() -> None:
    stream = io.BytesIO()
    without = vectors.data("samples/avc.mp4").replace(b"bzna_thumb", b"some_thumb")
    with (
        benzina.Writer(stream, profile="reference") as writer,
        pytest.raises(FormatError, match="which the reference profile needs"),
    ):
        writer.add_encoded(without)
    assert len(benzina.open(stream.getvalue())) == 0


def test_h264(tmp_path: Path) -> None:
    with benzina.Writer(tmp_path / "a.bzna", profile="reference", codec="h264") as writer:
        writer.add(photo(100, 60), 1, "a")
    with benzina.open(tmp_path / "a.bzna") as found:
        theirs = benzina.parse_sample(vectors.data("samples/avc.mp4"))
        ours = found[0].layout
        for name, track in theirs.tracks.items():
            made = ours.tracks[name]
            assert (made.entry_kind, made.config_kind) == (track.entry_kind, track.config_kind)
        frame = decode_frame(
            b"avcC", ours.tracks["bzna_input"].config, found[0].read_track("bzna_input")
        )
        assert np.array_equal(np.shape(planes_of(frame)[0]), (512, 512))


def test_the_quality_of_the_tools() -> None:
    sizes = []
    for options in ({}, {"crf": 10}, {"crf": 11}):
        writer = benzina.Writer(io.BytesIO(), profile="reference", preset="ultrafast", **options)
        sizes.append(len(writer.encode(photo(200, 200))))
        writer.abort()
    assert sizes[0] == sizes[1] > sizes[2]
