"""Clips of a recording in a store, and records whose payloads do not fit columns."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import vrs
from bloscpack.vrs.store import columnimport

from .recordings import ACCELERATION, FRAMES, SAMPLES, Imu, imu_values, write_recording


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("columns")
    bp.convert(write_recording(folder / "a.vrs"), folder / "a.blp")
    with bp.frames.open(folder / "a.blp") as opened:
        yield opened


def there_and_back(source: Path) -> tuple[list[str], Path]:
    """Convert to a store and back, which compares checksums; return the ids of the store."""
    store, back = source.with_suffix(".blp"), source.with_name("back.vrs")
    bp.convert(source, store)
    made = bp.convert(store, back)
    with vrs.open(source) as one, vrs.open(back) as two:
        assert made.frames == len(one)
        assert [record.payload for record in two] == [record.payload for record in one]
        assert two.checksum() == one.checksum()
    with bp.frames.open(store) as opened:
        return list(opened), back


def test_fields_are_columns(store: Any) -> None:
    data = "241-1/data-1"
    assert store[f"{data}/timestamp"].dtype == np.float64
    assert np.array_equal(store[f"{data}/timestamp"][:], np.arange(50) / 100)
    assert store[f"{data}/0/accelerometer"].dtype == np.float32
    assert np.array_equal(store[f"{data}/0/accelerometer"][:], ACCELERATION)
    assert store[f"{data}/0/accelerometer"].meta == {"field": "accelerometer"}
    assert np.array_equal(store[f"{data}/0/temperature"][10:20:3], np.arange(10, 20, 3) / 2)
    assert store[f"{data}/0/is_good"].dtype == np.bool_
    assert store[f"{data}/0/is_good"][:].tolist() == [k % 3 == 0 for k in range(50)]
    assert store["241-1/configuration-1/0/at"][:].tolist() == [[1, 2, 3]]


def test_values_of_varying_number(store: Any) -> None:
    name, counts = "241-1/data-1/0/name", "241-1/data-1/0/counts"
    offsets = store[f"{name}:offsets"][:]
    assert np.diff(offsets).tolist() == [k % 4 for k in range(50)]
    assert store[name][:].reshape(-1)[: offsets[-1]].tobytes() == b"n" * offsets[-1]
    offsets, values = store[f"{counts}:offsets"][:], store[counts][:].reshape(-1)
    assert values.dtype == np.uint16
    for number in range(50):
        found = values[offsets[number] : offsets[number + 1]].tolist()
        assert found == imu_values(number)["counts"]


def test_frames_are_clips(store: Any) -> None:
    raw, png = store["1201-1/data-1/1/image"], store["1202-1/data-1/0/image"]
    assert raw.shape == png.shape == FRAMES.shape
    assert np.array_equal(raw[:], FRAMES)
    assert np.array_equal(png[1:3], FRAMES[1:3])
    assert png.read_images([0])[0][:4] == b"\x89PNG"
    assert store["1201-1/data-1/0/at"][:][:, 0].tolist() == [0, 1, 2, 3, 4]


def test_samples(store: Any) -> None:
    audio, offsets = store["400-1/data-1/0/audio"], store["400-1/data-1/0/audio:offsets"][:]
    assert np.diff(offsets).tolist() == [20, 19, 18, 17]
    samples = audio[:].reshape(-1, 2)
    assert samples.dtype == np.dtype("<i2")
    assert np.array_equal(samples[20:39], SAMPLES[1][:19])


def test_tags(store: Any) -> None:
    meta = store["recording"].meta
    assert meta["file_tags"] == {"place": "lab"}
    assert meta["streams"]["241-1"]["tags"] == {"role": "head"}
    assert "RF:Data:1" in meta["streams"]["241-1"]["vrs_tags"]


def test_payloads_that_do_not_fit_keep_their_bytes(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as writer:
        imu = writer.stream("imu")
        imu.define("data", Imu)
        imu.write("data", 0, imu_values(3))
        fixed, entries = bytes(17), pack("<4I", 0, 3, 3, 2)
        for time, payload in enumerate(
            [
                b"",  # no block at all
                b"short",
                fixed + entries + b"abc\1\0more",  # bytes behind the block
                fixed + pack("<4I", 1, 2, 3, 2) + b"abc\1\0",  # a gap
                fixed + pack("<4I", 0, 3, 1, 4) + b"abc\1\0",  # an overlap
                fixed + pack("<4I", 1, 3, 3, 2) + b"abc\1\0",  # both
                fixed + pack("<4I", 0, 2, 2, 3) + b"abc\1\0",  # half a value at the end
                fixed + entries + b"abc\1\0",
            ]
        ):
            imu.write_payload("data", time, payload)
        imu.write_payload("data", 9, b"state", version=7)  # no format
    ids, _ = there_and_back(tmp_path / "a.vrs")
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert len(store["241-1/data-1.raw/timestamp"]) == 7
        assert len(store["241-1/data-1/timestamp"]) == 2
        assert store["241-1/data-7.raw/payload"][:].tobytes() == b"state"
    assert "241-1/data-1.raw/payload:offsets" in ids


def test_bytes_that_are_not_bool_survive(tmp_path: Path) -> None:
    class Flag(vrs.Layout):
        value = vrs.Value("bool")

    with vrs.create(tmp_path / "a.vrs") as writer:
        stream = writer.stream("imu")
        stream.define("data", Flag)
        for number in (0, 1, 2, 255):
            stream.write_payload("data", number, bytes([number]))
    there_and_back(tmp_path / "a.vrs")
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert store["241-1/data-1/0/value"][:].tolist() == [0, 1, 2, 255]


def test_images_of_other_sizes_are_other_clips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnimport, "_MAX_FORMS", 3)
    with vrs.create(tmp_path / "a.vrs") as writer:
        stream = writer.stream(1201)
        stream.define("data", Size, vrs.Image("raw"))
        for number in range(10):
            height = 2 + number % 5
            size = {"width": 3, "height": height, "pixel_format": 1, "stride": 3 + number % 2}
            stream.write_payload("data", number, _image_payload(size))
    ids, _ = there_and_back(tmp_path / "a.vrs")
    assert "1201-1/data-1.2/1/image:rest" in ids or "1201-1/data-1/1/image:rest" in ids
    # The third form holds plain bytes.
    assert {id_.split("/")[1] for id_ in ids if "/" in id_} == {
        "data-1",
        "data-1.2",
        "data-1.3",
        "data-1.raw",
    }


class Size(vrs.Layout):
    image_width = vrs.Value("uint32")
    image_height = vrs.Value("uint32")
    image_stride = vrs.Value("uint32")
    image_pixel_format = vrs.Value("uint32")


def _image_payload(size: dict[str, int]) -> bytes:
    nbytes = size["height"] * size["stride"]
    named = {f"image_{name}": value for name, value in size.items()}
    return Size.definition().encode(named) + bytes(k % 251 for k in range(nbytes))


def test_order_of_the_file_stays(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as writer:
        streams = [writer.stream("imu") for _ in range(3)]
        for stream in streams:
            stream.define("data", Imu)
        rng = np.random.default_rng(3)
        for number in rng.integers(0, 20, 200).tolist():
            streams[number % 3].write("data", number, imu_values(number))
    _, back = there_and_back(tmp_path / "a.vrs")
    with vrs.open(tmp_path / "a.vrs") as one, vrs.open(back) as two:
        assert np.array_equal(one.table.position, two.table.position)


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path) -> None:
    frame = np.random.default_rng(1).integers(0, 255, (512, 1024), np.uint8)
    with vrs.create(tmp_path / "a.vrs", compression="none") as writer:
        stream = writer.stream(1201)
        stream.define("data", vrs.Image("raw", width=1024, height=512, pixel_format="grey8"))
        for number in range(200):
            stream.write("data", number, np.roll(frame, number))
    peaks = []
    fast: dict[str, Any] = {"preset": "fast"}
    for one, two, options in (("a.vrs", "a.blp", fast), ("a.blp", "b.vrs", {})):
        tracemalloc.start()
        bp.convert(tmp_path / one, tmp_path / two, nthreads=1, **options)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 70 << 20  # of 100 MiB


@pytest.mark.slow
def test_columns_are_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    count = 20000
    acceleration = np.round(rng.normal(0, 41, (count, 3))) / 2048 + np.array([0, 0, 9.81])
    with vrs.create(tmp_path / "a.vrs") as writer:
        imu = writer.stream("imu")
        imu.define("data", Imu)
        payloads = np.zeros(count, "<f4, (3,)<f4, ?, (4,)<u4")
        payloads["f0"] = np.round(20 + np.arange(count) / 5000, 2)
        payloads["f1"] = acceleration
        data = payloads.tobytes()
        for number in range(count):
            payload = data[33 * number : 33 * number + 33]
            imu.write_payload("data", number / 1000, payload)
    there_and_back(tmp_path / "a.vrs")
    assert (tmp_path / "a.vrs").stat().st_size > 3 * (tmp_path / "a.blp").stat().st_size
