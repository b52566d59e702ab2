"""The small recordings of ``tests/vectors``, read by this package and by independent code."""

import struct
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import vrs
from tests.conftest import SMALL_FORMATS
from tests.oracle import Oracle
from tests.vectors.pictures import frame, is_close

pytest.importorskip("simplejpeg", reason="the package simplejpeg is not installed")

from tests.vectors.recordings import NSHOTS, make_recording, samples, shot

RECORDINGS = ("recording", "recording_zstd", "recording_split")


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_kind_of_content_is_read(name: str) -> None:
    with vrs.open(SMALL_FORMATS / f"{name}.vrs") as recording:
        assert recording.report.is_clean
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


def test_records_lie_where_their_headers_say() -> None:
    """Read with `struct` alone, by docs/formats/vrs.md, "Records"."""
    data = (SMALL_FORMATS / "recording.vrs").read_bytes()
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


def test_the_frame_store_of_it_becomes_it_again(tmp_path: Path) -> None:
    bp.convert(SMALL_FORMATS / "recording_store.blp", tmp_path / "back.vrs", to="vrs")
    with (
        vrs.open(tmp_path / "back.vrs") as back,
        vrs.open(SMALL_FORMATS / "recording.vrs") as original,
    ):
        assert back.checksum() == original.checksum()


def test_the_writer_makes_the_same_records_today(tmp_path: Path) -> None:
    make_recording(tmp_path / "now.vrs", compression="none")
    with (
        vrs.open(tmp_path / "now.vrs") as now,
        vrs.open(SMALL_FORMATS / "recording.vrs") as original,
    ):
        assert len(now) == len(original)
        assert list(now.streams) == list(original.streams)


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_wheel_reads_them(wheel: Oracle, name: str) -> None:
    path = SMALL_FORMATS / f"{name}.vrs"
    found = wheel("dump(path, conversion='RAW_BUFFER')", path=str(path))
    with vrs.open(path) as recording:
        assert found["n_records"] == len(recording)
        assert found["checksum"] == recording.checksum()
        assert found["file_tags"] == dict(recording.file_tags)
        assert list(found["streams"]) == [str(stream) for stream in recording.streams]
