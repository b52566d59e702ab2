"""Extraction: the files have the exact content of the recording, and all are in the folder."""

import errno
import io
import json
import os
import wave
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="raw images become PNG by Pillow")

import bloscpack.vrs as vrs
from bloscpack.exceptions import UnsupportedError
from bloscpack.media import image
from bloscpack.storage import disk
from bloscpack.vrs.block.pixels import unpack_ten_bits
from bloscpack.vrs.export.extraction import KINDS, ExtractReport, extract

from ..openfiles import open_files
from .recordings import Made, make_recording
from .vectorfiles import FOLDER, NAMES


def made(tags: dict[str, str], *payloads: bytes | Made) -> vrs.Recording:
    records = [Made(each) if isinstance(each, bytes) else each for each in payloads]
    return vrs.open(io.BytesIO(make_recording({"1201-1": tags}, records)))


def lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "metadata.jsonl").read_text("ascii")
    return [json.loads(line) for line in text.splitlines()]


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))


def check_counts(report: ExtractReport, folder: Path) -> None:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert report.nfiles.total() == len(paths)
    padding = sum((path.stat().st_size % 2 == 0) for path in paths if path.suffix == ".wav")
    nbytes = sum(path.stat().st_size for path in paths)
    assert 0 <= nbytes - report.nbytes <= padding


@pytest.mark.parametrize(
    ("pixel", "suffix"),
    [
        *((pixel, "png") for pixel in ("grey8", "bgr8", "rgb8", "rgba8", "bayer8_rggb")),
        *((pixel, "png") for pixel in ("grey10", "grey12", "grey16", "raw10", "grey10packed")),
        *((pixel, "npy") for pixel in ("rgb10", "rgb12", "depth32f", "rgb32F", "scalar64F")),
        *((pixel, "yuv") for pixel in ("yuv_i420_split", "yuv_420_nv12", "yuy2")),
    ],
)
@pytest.mark.parametrize("padding", [0, 4])
def test_raw_images_are_exact(tmp_path: Path, pixel: str, suffix: str, padding: int) -> None:
    spec = vrs.Image("raw", 7, 5, pixel).block.image
    stride = spec.row_nbytes + padding
    block = vrs.Image("raw", 7, 5, pixel, stride=stride).block
    payload = np.random.default_rng(1).integers(0, 4, block.nbytes or 0, np.uint8).tobytes()
    with made({"RF:Data:1": str(block)}, payload) as recording:
        report = extract(recording, tmp_path / "out")
        pixels = recording[0].image_blocks[0]
    check_counts(report, tmp_path / "out")
    path = tmp_path / "out" / "1201-1" / f"000000-0.{suffix}"
    data = path.read_bytes()
    if suffix == "yuv":
        assert data == payload
    elif suffix == "npy":
        found = np.load(path)
        assert found.dtype == pixels.dtype
        assert found.tobytes() == pixels.tobytes()
    else:
        if pixel in ("raw10", "grey10packed"):
            pixels = unpack_ten_bits(payload, block.image)
        expected = pixels[..., ::-1] if pixel == "bgr8" else pixels
        assert np.array_equal(image.decode(data), expected)
    line = lines(tmp_path / "out")[1]
    assert line["blocks"][0]["file"] == f"1201-1/000000-0.{suffix}"
    assert line["blocks"][0]["pixel_format"] == pixel


def test_coded_images_are_kept_byte_for_byte(tmp_path: Path) -> None:
    tags = {
        "RF:Data:1": "image/jpg",
        "RF:Data:2": "image/png",
        "RF:Data:3": "image/jxl",
        "RF:Data:4": "custom/size=3+image/png",
    }
    payloads = [Made(b"any bytes", version=version) for version in (1, 2, 3, 4)]
    with made(tags, *payloads) as recording:
        report = extract(recording, tmp_path)
    assert files(tmp_path / "1201-1") == [
        "000000-0.jpg",
        "000001-0.png",
        "000002-0.jxl",
        "000003-0.bin",
        "000003-1.png",
    ]
    assert (tmp_path / "1201-1/000000-0.jpg").read_bytes() == b"any bytes"
    assert (tmp_path / "1201-1/000003-0.bin").read_bytes() == b"any"
    assert report.nfiles == {"image": 4, "custom": 1, "metadata": 1}
    check_counts(report, tmp_path)


def test_audio_of_all_records_is_one_file(tmp_path: Path) -> None:
    path, out = tmp_path / "a.vrs", tmp_path / "out"
    rng = np.random.default_rng(2)
    parts = [rng.integers(-99, 99, (n, 2)).astype("i2") for n in (5, 7, 300)]
    with vrs.create(path) as writer:
        stream = writer.stream("stereo audio")
        stream.define("data", vrs.Audio("int16le", channels=2, rate=8000))
        stream.define("data", vrs.Audio("uint8", channels=1, rate=8000), version=2)
        for time, part in enumerate(parts):
            stream.write("data", time, part)
        stream.write("data", 3, np.full((3, 1), 9, "u1"), version=2)
        stream.write("data", 4, parts[0])
    with vrs.open(path) as recording:
        report = extract(recording, out)
    names = [f"231-1/audio-0-{n}.wav" for n in range(3)]
    assert files(out) == [*names, "metadata.jsonl"]
    with wave.open(os.fspath(out / names[0])) as stream:
        assert (stream.getnchannels(), stream.getframerate()) == (2, 8000)
        found = np.frombuffer(stream.readframes(stream.getnframes()), "<i2").reshape(-1, 2)
    assert np.array_equal(found, np.concatenate(parts))
    with wave.open(os.fspath(out / names[1])) as stream:
        assert stream.readframes(9) == b"\x09\x09\x09"
    assert (out / names[1]).stat().st_size % 2 == 0
    check_counts(report, out)
    for line, part in zip(lines(out)[1:], parts, strict=False):
        (block,) = line["blocks"]
        data = (out / block["file"]).read_bytes()
        at, nbytes = block["offset"], block["file_nbytes"]
        assert data[at : at + nbytes] == part.tobytes()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("is_full", [False, True])
def test_no_file_of_many_streams_stays_open(tmp_path: Path, is_full: bool) -> None:
    with vrs.create(tmp_path / "a.vrs") as writer:
        streams = [writer.stream("stereo audio") for _ in range(6)]
        for stream in streams:
            stream.define("data", vrs.Audio("uint8", channels=1, rate=8000))
        for time in range(3):
            for stream in streams:
                stream.write("data", time, np.full((3, 1), time, "u1"))
    counts = []

    def count(*_: object) -> None:
        counts.append(sum("audio" in path for path in open_files(tmp_path)))
        if is_full and len(counts) == 12:
            raise OSError(28, "full")

    with vrs.open(tmp_path / "a.vrs") as recording, suppress(OSError):
        extract(recording, tmp_path / "out", progress=count, nthreads=1)
    assert max(counts) == 0
    assert open_files(tmp_path / "out") == []
    paths = sorted((tmp_path / "out").rglob("*.wav"))
    assert len(paths) == 6
    if not is_full:
        assert all(path.read_bytes()[44:53] == b"\0\0\0\1\1\1\2\2\2" for path in paths)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("nwrites", range(12))
def test_a_full_disk_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nwrites: int
) -> None:
    """Completing the files fails as well then."""
    with vrs.create(tmp_path / "a.vrs") as writer:
        streams = [writer.stream("stereo audio") for _ in range(3)]
        for stream in streams:
            stream.define("data", vrs.Audio("uint8", channels=1, rate=8000))
            stream.write("data", 0, np.zeros((3, 1), "u1"))
    left, write_at = [nwrites], disk.write_at

    def write(*args: Any) -> None:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        write_at(*args)

    with vrs.open(tmp_path / "a.vrs") as recording:
        monkeypatch.setattr(disk, "write_at", write)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            extract(recording, tmp_path / "out", nthreads=1)
        assert open_files(tmp_path / "out") == []


def test_a_wav_that_would_be_too_large_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bloscpack.vrs.export.extraction.MAX_NBYTES", 10)
    tags = {"RF:Data:1": "audio/pcm/uint8/channels=1/rate=8000"}
    with made(tags, b"123456", b"1234", b"1") as recording:
        extract(recording, tmp_path)
    sizes = [path.stat().st_size for path in sorted((tmp_path / "1201-1").iterdir())]
    assert sizes == [44 + 10, 44 + 2]


def test_video_is_one_stream(tmp_path: Path) -> None:
    tags = {
        "RF:Data:1": "image/video/8x8/pixel=rgb8/codec=H.264",
        "RF:Data:2": "image/video/8x8/pixel=rgb8/codec=../../../x",
    }
    tags["RF:Configuration:1"] = "data_layout"
    layout = vrs.DataLayout.from_json(
        json.dumps(
            {
                "data_layout": [
                    {"name": name, "type": "DataPieceValue<uint32_t>"}
                    for name in ("image_width", "image_height", "image_pixel_format")
                ]
            }
        )
    )
    tags["DL:Configuration:1:0"] = layout.to_json()
    values = {"image_width": 8, "image_height": 8, "image_pixel_format": 4}
    configuration = Made(layout.encode(values), record_type=vrs.RecordType.CONFIGURATION)
    frames = [Made(b"abc"), Made(b"de"), Made(b"f", version=2), Made(b"g")]
    with made(tags, configuration, *frames) as recording:
        report = extract(recording, tmp_path)
    assert not report.damage
    contents = {
        name: (tmp_path / "1201-1" / name).read_bytes() for name in files(tmp_path / "1201-1")
    }
    assert contents == {"image-0-0.h264": b"abcde", "image-0-1.video": b"f", "image-0-2.h264": b"g"}
    found = [line["blocks"][0] for line in lines(tmp_path)[2:]]
    assert [(block["offset"], block["file_nbytes"]) for block in found] == [
        (0, 3),
        (3, 2),
        (0, 1),
        (0, 1),
    ]


def test_damage_is_reported_and_the_rest_is_there(tmp_path: Path) -> None:
    tags = {"RF:Data:1": "custom/size=4", "RF:Data:2": "data_layout", "DL:Data:2:0": "{"}
    records = [Made(b"1234"), Made(b"123"), Made(b"5678"), Made(b"", version=2), Made(b"last")]
    with made(tags, *records) as recording:
        damaged = extract(recording, tmp_path / "a")
    assert [each.record for each in damaged.damage] == [1, 3]
    assert damaged.nrecords == 5
    names = ["000000-0.bin", "000002-0.bin", "000004-0.bin"]
    assert files(tmp_path / "a" / "1201-1") == names
    found = lines(tmp_path / "a")[1:]
    assert "4 bytes needed, 3 left" in found[1]["blocks"][0]["error"]
    assert "DL:Data:2:0" in found[3]["error"]


def test_a_record_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    with vrs.create(path, compression="fast") as writer:
        stream = writer.stream("imu")
        stream.define("data", vrs.Custom())
        for time in range(5):
            stream.write("data", time, bytes(300))
    with vrs.open(path) as recording:
        offset = recording.table.offset.item(2)
    data = bytearray(path.read_bytes())
    data[offset + 32] ^= 1
    path.write_bytes(data)
    with vrs.open(path) as recording:
        report = extract(recording, tmp_path / "out")
    (damage,) = report.damage
    assert (damage.record, damage.stream) == (2, "241-1")
    assert report.nrecords == 4
    found = lines(tmp_path / "out")[1:]
    assert found[2] == {"record": 2, "stream": "241-1", "error": damage.what}
    assert [line["record"] for line in found] == [0, 1, 2, 3, 4]


def test_kinds_and_records_are_chosen(tmp_path: Path) -> None:
    tags = {"RF:Data:1": "custom/size=1+image/jpg"}
    with made(tags, b"ab", b"cd", b"ef") as recording:
        extract(recording, tmp_path / "a", kinds=["image"], records=recording[1:])
        extract(recording, tmp_path / "b", kinds=["metadata"])
        extract(recording, tmp_path / "c", kinds=[])
        with pytest.raises(ValueError, match="kind 'sound'"):
            extract(recording, tmp_path / "d", kinds=["sound"])
    assert files(tmp_path / "a") == ["1201-1/000001-1.jpg", "1201-1/000002-1.jpg"]
    assert files(tmp_path / "b") == ["metadata.jsonl"]
    assert "file" not in lines(tmp_path / "b")[1]["blocks"][0]
    assert files(tmp_path / "c") == []
    assert not (tmp_path / "d").exists()


def test_a_folder_with_files_is_refused_by_default(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with made({"RF:Data:1": "custom"}, b"new") as recording:
        with pytest.raises(FileExistsError, match="is not empty"):
            extract(recording, tmp_path)
        extract(recording, tmp_path, overwrite=True)
        (tmp_path / "1201-1/000000-0.bin").write_text("a longer old one")
        extract(recording, tmp_path, overwrite=True)
    assert (tmp_path / "1201-1/000000-0.bin").read_bytes() == b"new"
    assert (tmp_path / "mine").read_text() == "x"
    with made({}, b"") as recording, pytest.raises(FileExistsError):
        extract(recording, tmp_path / "mine")


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    out.mkdir()
    (outside / "target").write_text("precious")
    (out / "1201-1").symlink_to(outside)
    with made({"RF:Data:1": "custom"}, b"new") as recording:
        with pytest.raises(FileExistsError):
            extract(recording, out, overwrite=True)
        assert os.listdir(outside) == ["target"]
        (out / "1201-1").unlink()
        (out / "1201-1").mkdir()
        (out / "1201-1/000000-0.bin").symlink_to(outside / "target")
        (out / "metadata.jsonl").unlink()
        (out / "metadata.jsonl").symlink_to(outside / "target")
        extract(recording, out, overwrite=True)
    assert (outside / "target").read_text() == "precious"
    assert (out / "1201-1/000000-0.bin").read_bytes() == b"new"
    assert not (out / "metadata.jsonl").is_symlink()


def test_empty_blocks_make_no_files(tmp_path: Path) -> None:
    tags = {"RF:Data:1": "+".join(["custom/size=0"] * 900)}
    with made(tags, *[b""] * 3) as recording:
        report = extract(recording, tmp_path)
    assert report.nfiles == {"metadata": 1}


@pytest.mark.parametrize(
    "text", ["audio/pcm/int16le/channels=1", "audio/opus", "image/raw", "image/size=20/raw+empty"]
)
def test_blocks_of_unknown_coding_are_counted(tmp_path: Path, text: str) -> None:
    recording = made({"RF:Data:1": text}, bytes(20), bytes(20))
    report = extract(recording, tmp_path / "all")
    assert (report.nleft_out, report.damage, report.nfiles) == (2, [], {"metadata": 1})
    assert extract(recording, tmp_path / "some", kinds=["metadata"]).nleft_out == 0


def test_progress_counts_stored_bytes(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    with made({"RF:Data:1": "data_layout/size=0"}, *[b""] * 1200) as recording:
        total = int(recording.stored_nbytes.sum())
        extract(recording, tmp_path, progress=lambda *state: calls.append(state))
    assert calls[-1] == (total, total)
    assert len(calls) == 3


SMALL = [name for name in NAMES if not name.endswith("synthetic")]


@pytest.mark.parametrize("name", SMALL)
def test_vectors(name: str, tmp_path: Path) -> None:
    with vrs.open(FOLDER / f"{name}.vrs") as recording:
        report = extract(recording, tmp_path, nthreads=2)
        check_counts(report, tmp_path)
        assert not report.damage
        assert report.nrecords == len(recording)
        first, *found = lines(tmp_path)
        assert first["records"] == len(found) == len(recording)
        for record, line in zip(recording, found, strict=True):
            assert [line[key] for key in ("record", "stream", "type", "version")] == [
                record.record_index,
                record.stream_id,
                record.record_type,
                record.format_version,
            ]
            assert len(line["blocks"]) == len(record.blocks)
            for block, document in zip(record.blocks, line["blocks"], strict=True):
                check_block(block, document, tmp_path)


def check_block(block: vrs.Block, document: dict[str, Any], folder: Path) -> None:
    """Compare a block with its line, and with the file that holds its bytes."""
    assert document["kind"] == block.kind
    name = document.get("file")
    if block.kind == "metadata":
        assert list(document["values"]) == list(block.values())
    elif name is None:
        assert block.kind == "unsupported" or "error" in document or not block.nbytes
    elif name.endswith((".png", ".npy", ".wav")) and document.get("image_format") != "png":
        assert (folder / name).stat().st_size > 0
    else:
        data = (folder / name).read_bytes()
        start = document.get("offset", 0)
        assert data[start : start + len(block.data)] == block.data


def test_kinds_are_those_of_the_command() -> None:
    from bloscpack.vrs.cli.extract import KINDS as SHOWN

    assert SHOWN == KINDS


def test_a_url_is_not_taken_for_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedError, match="cannot be written to a URL"):
        extract(made({}, b"abc"), "s3://b/x")
    assert os.listdir(tmp_path) == []
