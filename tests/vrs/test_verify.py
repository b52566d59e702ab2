"""Verification of recordings: all damage is reported, with the record that has it."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import bloscpack.vrs as vrs
from bloscpack.vrs.format.format import RECORD_HEADER_SIZE
from bloscpack.vrs.verify import RecordingReport, verify

from .recordings import Made, make_recording
from .vectorfiles import FOLDER, NAMES

LABEL = '{"data_layout":[{"name":"n","type":"DataPieceValue<int32_t>"}]}'
TAGS = {"RF:Data:1": "data_layout+custom", "DL:Data:1:0": LABEL}


def opened(path: Path | bytes) -> vrs.Recording:
    return vrs.open(BytesIO(path) if isinstance(path, bytes) else path, index="auto")


def written(path: Path, count: int = 40) -> Path:
    """Write records that are compressed."""
    with vrs.create(path, compression="fast") as writer:
        stream = writer.stream("imu")
        stream.define("data", vrs.ImageLayout, vrs.Custom(size=300))
        for n in range(count):
            stream.write("data", n, {"image_width": n}, bytes(300))
    return path


def report_of(path: Path, **options: bool) -> RecordingReport:
    with vrs.open(path) as recording:
        return verify(recording, **options)


def test_a_sound_recording(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    with vrs.open(written(tmp_path / "a.vrs", 2000)) as recording:
        report = verify(recording, progress=lambda *state: calls.append(state))
        total = int(recording.stored_nbytes.sum())
    assert (report.ok, report.nfaults, report.damage, report.notices) == (True, 0, [], [])
    assert (report.nchunks, report.nblocks, report.nbytes) == (2000, 4000, 2000 * 312)
    assert len(calls) == 4
    assert calls[-1] == (total, total)
    assert calls == sorted(calls)


@pytest.mark.parametrize("nthreads", [1, 4])
def test_damage_is_reported_by_record_and_hides_none(tmp_path: Path, nthreads: int) -> None:
    path = written(tmp_path / "a.vrs", 1200)
    damaged = [0, 3, 4, 5, 511, 512, 1199]
    with vrs.open(path) as recording:
        offsets = recording.table.offset[damaged]
    data = bytearray(path.read_bytes())
    for offset in offsets.tolist():
        data[offset + RECORD_HEADER_SIZE] ^= 0xFF  # the magic of the frame
    data[int(offsets[1]) + 12] ^= 0xFF  # the format version
    path.write_bytes(data)
    with vrs.open(path) as recording:
        report = verify(recording, nthreads=nthreads)
    assert [each.record for each in report.damage] == damaged
    names = [str(each).partition(": ")[0] for each in report.damage]
    assert names == [f"record {row} of stream 241-1" for row in damaged]
    assert (report.nfaults, report.nchunks, report.ok) == (7, 1193, False)


def test_a_header_that_the_index_contradicts(tmp_path: Path) -> None:
    path = written(tmp_path / "a.vrs")
    with vrs.open(path) as recording:
        offset = recording.table.offset.item(7)
    data = bytearray(path.read_bytes())
    data[offset + 16 : offset + 24] = np.float64(99).tobytes()
    path.write_bytes(data)
    report = report_of(path)
    assert [each.record for each in report.damage] == [7]
    assert "timestamp 99.0, but the index has 7.0" in report.damage[0].what


def test_faults_found_on_opening_are_reported(tmp_path: Path) -> None:
    path = written(tmp_path / "a.vrs")
    with vrs.open(path) as recording:
        end = recording.table.offset.item(30) + 5
    path.write_bytes(path.read_bytes()[:end])
    report = report_of(path)
    assert report.nchunks == 30
    assert [each.record for each in report.damage] == [None, None]
    assert "index rebuilt" in report.damage[0].what
    assert "are not a record" in report.damage[1].what


def test_blocks_that_are_cut_off_or_wrong() -> None:
    made = [Made(bytes(4) + b"x"), Made(bytes(3)), Made(bytes(4))]
    with opened(make_recording({"1201-1": TAGS}, made)) as recording:
        report = verify(recording)
    cut, note = report.damage[1], report.damage[0]
    assert note.record is None
    assert cut.record == 1
    assert cut.what.startswith("record 1 of stream 1201-1")
    assert report.nfaults == 2
    assert report.nchunks == 3


def test_a_format_that_is_damaged() -> None:
    tags = {"RF:Data:1": "data_layout", "DL:Data:1:0": "{"}
    with opened(make_recording({"1201-1": tags}, [Made(b"1"), Made(b"2")])) as recording:
        report = verify(recording)
    assert [each.record for each in report.damage] == [None, 0, 1]
    assert "tag DL:Data:1:0" in report.damage[1].what


def test_images_are_decoded_on_demand() -> None:
    pytest.importorskip("PIL", reason="images are read by Pillow")
    tags = {"RF:Data:1": "image/jpg"}
    with opened(make_recording({"1201-1": tags}, [Made(b"no image")] * 2)) as recording:
        assert verify(recording).nfaults == 1
        report = verify(recording, decode=True)
    assert [each.record for each in report.damage] == [None, 0, 1]
    assert "block 0: neither a JPEG nor a PNG" in report.damage[1].what


def test_what_is_not_known_is_a_notice() -> None:
    tags = {
        "RF:Data:1": "image/size=4/custom_codec/8x8/codec=mine",
        "RF:Data:2": "custom/size=1",
        "RF:Data:3": "image/raw",
        "RF:Data:4": "custom/size=1",
    }
    made = [Made(b"1234"), Made(b"1234", version=2), Made(b"12", version=3), Made(b"", version=5)]
    with opened(make_recording({"1201-1": tags}, [*made, made[1]])) as recording:
        report = verify(recording, decode=True)
    assert report.nfaults == 1  # the index
    found = [notice.removeprefix("stream 1201-1, data version ") for notice in report.notices]
    assert found == [
        "1, block 0: an unsupported block: its format is incomplete (1 record)",
        "2: bytes unread (2 records)",
        "3: block 0: size unknown (1 record)",
    ]


def test_faults_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bloscpack.damage.report.MAX_DAMAGE", 5)
    made = [Made(b"")] * 20
    with opened(make_recording({"1201-1": TAGS}, made)) as recording:
        report = verify(recording)
    assert (len(report.damage), report.nfaults) == (5, 21)
    assert report.notices[-1] == "16 more faults are not listed"


# Files with expected problems: the encoder wrote arbitrary bytes as images, or no index.
FAULTY = {"cxx_crash_noindex", "enc_no_index", "enc_trailing"}


@pytest.mark.parametrize("name", NAMES)
def test_vectors(name: str) -> None:
    with vrs.open(FOLDER / f"{name}.vrs") as recording:
        report = verify(recording)
        assert report.nchunks == len(recording)
        problems = [problem.what for problem in report.damage]
        assert problems == recording.report.lines()
        assert bool(problems) == (name in FAULTY)
