"""Small vectors of every format, read by this package and by independent code.

Arrays and frame stores have a set of their own, in ``tests/conformance``; files of the original
are read by ``tests/container/test_vectors.py``.
"""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import benzina, vrs

from .conftest import SMALL_VECTORS

pytest.importorskip("simplejpeg", reason="the package simplejpeg is not installed")

from .vectors.make import CLIPS, NSHOTS, PICTURES, frame, make_recording, samples, shot

FORMATS = SMALL_VECTORS / "formats"
RECORDINGS = ("recording", "recording_zstd", "recording_split")
DATASETS = ("hevc", "h264", "av1")


def test_files_are_those_described() -> None:
    described = json.loads((SMALL_VECTORS / "formats.json").read_text("utf-8"))
    found = {
        path.relative_to(FORMATS).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(FORMATS.rglob("*"))
        if path.is_file()
    }
    assert found == described


def is_close(found: Any, expected: Any) -> bool:
    """Return whether two pictures differ by no more than JPEG does."""
    difference = np.abs(np.asarray(found, int) - np.asarray(expected, int))
    return bool(difference.mean() < 4)


class TestRecordings:
    @pytest.mark.parametrize("name", RECORDINGS)
    def test_every_kind_of_content_is_read(self, name: str) -> None:
        with vrs.open(FORMATS / f"{name}.vrs") as recording:
            assert recording.file_tags["made"] == "for tests"
            assert len(recording) == 1 + 4 * NSHOTS
            flavors = {stream.flavor: stream for stream in recording.streams.values()}
            raw, jpeg, sound, other = (
                flavors[f"test/{name}"] for name in ("raw", "jpeg", "sound", "custom")
            )
            assert raw.tags == {"place": "front"}
            assert raw.configurations[0].blocks[0].values()["lens"] == "wide"
            for number in range(NSHOTS):
                for stream in (raw, jpeg):
                    found = stream.data[number].blocks[0].values()
                    assert {key: found[key] for key in ("exposure", "ticks", "names")} == {
                        key: shot(number)[key] for key in ("exposure", "ticks", "names")
                    }
                    assert list(found["where"]) == shot(number)["where"]
                assert np.array_equal(raw.data[number].blocks[1].array(), frame(number, 8, 16))
                assert is_close(jpeg.data[number].blocks[1].array(), frame(number, 24, 32))
                assert np.array_equal(sound.data[number].blocks[0].array(), samples(number))
                payload = bytes(other.states[number].blocks[0].data)
                assert payload == b"state %d" % number * 30

    @pytest.mark.parametrize("name", RECORDINGS)
    def test_all_have_the_same_records(self, name: str) -> None:
        with (
            vrs.open(FORMATS / f"{name}.vrs") as one,
            vrs.open(FORMATS / "recording.vrs") as other,
        ):
            assert one.report.is_clean
            assert [(record.stream_id, record.timestamp) for record in one] == [
                (record.stream_id, record.timestamp) for record in other
            ]
            for row in range(len(one)):
                assert bytes(one.read_payload(row)) == bytes(other.read_payload(row))

    def test_records_lie_where_their_headers_say(self) -> None:
        """Read with `struct` alone, by docs/formats/vrs.md, "Records"."""
        data = (FORMATS / "recording.vrs").read_bytes()
        magic, _, header_size, record_size, index = struct.unpack_from("<8sQIIq", data)
        assert (magic, record_size) == (b"VisionRe", 32)
        found, at, previous = [], header_size, 0
        while at < len(data):
            size, before, type_id, _, time, _, kind, compression, _ = struct.unpack_from(
                "<IIiIdHBBI", data, at
            )
            assert before == previous
            if type_id > 2 and kind in (1, 2, 3):  # neither index, description nor tags
                assert compression == 0
                found.append((time, data[at + 32 : at + size]))
            if type_id == 1:
                assert at == index
            previous, at = size, at + size
        payloads = [payload for _, payload in found]
        for number in range(NSHOTS):
            assert any(each.endswith(frame(number, 8, 16).tobytes()) for each in payloads)
            assert samples(number).tobytes() in payloads
            assert b"state %d" % number * 30 in payloads

    def test_the_frame_store_of_it_becomes_it_again(self, tmp_path: Path) -> None:
        bp.convert(FORMATS / "recording_store.blp", tmp_path / "back.vrs", to="vrs")
        with (
            vrs.open(tmp_path / "back.vrs") as back,
            vrs.open(FORMATS / "recording.vrs") as original,
        ):
            assert back.checksum() == original.checksum()

    def test_the_writer_makes_the_same_records_today(self, tmp_path: Path) -> None:
        make_recording(tmp_path / "now.vrs", compression="none")
        with (
            vrs.open(tmp_path / "now.vrs") as now,
            vrs.open(FORMATS / "recording.vrs") as original,
        ):
            assert len(now) == len(original)
            assert list(now.streams) == list(original.streams)


class TestGulp:
    @pytest.mark.parametrize("name", ["gulp", "gulp_store.blp"])
    def test_clips_are_read(self, name: str) -> None:
        with bp.frames.open(FORMATS / name) as source:
            assert sorted(source) == sorted(CLIPS)
            for id_, (count, height, width) in CLIPS.items():
                clip = source[id_]
                assert len(clip) == count
                for number in range(count):
                    assert is_close(clip[number], frame(number, height, width))

    def test_images_lie_where_the_index_says(self) -> None:
        """Read with `json` and slices alone, by docs/formats/gulp.md."""
        store = bp.frames.open(FORMATS / "gulp_store.blp")
        for number, (id_, (count, *_)) in enumerate(CLIPS.items()):
            index = json.loads((FORMATS / "gulp" / f"meta_{number}.gmeta").read_text("utf-8"))
            data = (FORMATS / "gulp" / f"data_{number}.gulp").read_bytes()
            found = index[id_]
            assert found["meta_data"] == [{"label": id_, "idx": number}]
            images = [data[at : at + size - pad] for at, pad, size in found["frame_info"]]
            assert len(images) == count
            assert images == store[id_].read_images()
        store.close()


class TestDatasets:
    @pytest.mark.parametrize("name", DATASETS)
    def test_pictures_targets_and_names_are_read(self, name: str) -> None:
        with benzina.open(FORMATS / f"{name}.bzna") as dataset:
            assert len(dataset) == PICTURES
            assert dataset.targets.tolist() == list(range(PICTURES))
            assert [sample.name for sample in dataset.samples()] == ["0.png", "1.png", "2.png"]
            assert dataset.splits["train"] == range(2)
        assert benzina.verify(FORMATS / f"{name}.bzna").ok

    def test_every_codec_holds_the_same_pictures(self) -> None:
        pytest.importorskip("av", reason="pictures are decoded by PyAV")
        found = []
        for name in DATASETS:
            with benzina.open(FORMATS / f"{name}.bzna") as dataset:
                found.append([np.asarray(sample.decode()) for sample in dataset.samples()])
        for pictures in found:
            assert [picture.shape for picture in pictures] == [
                (64 + 16 * k, 64 + 16 * k, 3) for k in range(PICTURES)
            ]
            assert all(map(is_close, pictures, found[0]))

    @pytest.mark.parametrize("name", DATASETS)
    def test_another_demuxer_finds_the_samples(self, name: str) -> None:
        av = pytest.importorskip("av", reason="the demuxer is FFmpeg's")
        data = (FORMATS / f"{name}.bzna").read_bytes()
        with benzina.open(data) as dataset, av.open(str(FORMATS / f"{name}.bzna")) as container:
            packets = [packet for packet in container.demux() if packet.size]
            found = {bytes(packet) for packet in packets}
            assert {bytes(sample.data) for sample in dataset.samples()} <= found
