"""Rules of the writer: the layout of the file, tags early and late, and refused records."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack.vrs as vrs
from bloscpack.vrs.format.format import FILE_HEADER_SIZE, FileHeader, RecordHeader, RecordType
from bloscpack.vrs.format.recordindex import unpack_index
from bloscpack.vrs.write import recordfile

from ..openfiles import open_files


class Imu(vrs.Layout):
    temperature = vrs.Value("float")
    gyro = vrs.Array("float", 3)


class Sized(vrs.NextBlockLayout):
    note = vrs.String()


def headers(data: bytes) -> list[RecordHeader]:
    """Return the record headers of a file, by going from one record to the next."""
    found, offset = [], FILE_HEADER_SIZE
    while offset < len(data):
        found.append(RecordHeader.unpack(data, offset))
        found[-1].check(offset)
        offset += found[-1].size
    assert offset == len(data)
    return found


def test_the_order_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbits", lambda nbits: 12345 if nbits == 30 else None)
    path = tmp_path / "a.vrs"
    before = time.time_ns()
    with vrs.create(path, tags={"a": "b"}) as recording:
        # The header exists at once, without offsets of parts that do not.
        header = FileHeader.unpack(path.read_bytes())
        assert header == FileHeader(header.creation_id)
        assert abs(header.creation_id - before) < 10e9
        assert header.creation_id & (1 << 30) - 1 == 12345
        stream = recording.stream("imu", flavor="x")
        stream.define("data", Imu)
        stream.write("data", 2.0, {"temperature": 1})
        stream.write("data", 1.0, {})
        # Tags are written with the first record, and records when they are flushed.
        (description,) = headers(path.read_bytes())
        recording.flush()
        assert headers(path.read_bytes())[0] == description
        description, *records = headers(path.read_bytes())
        assert (description.stream_id, description.format_version) == ((2, 0), 2)
        assert [record.timestamp for record in records] == [2.0, 1.0]
        recording.stream("barometer")
    data = path.read_bytes()
    found = headers(data)
    sizes = [record.size for record in found]
    assert [record.previous_size for record in found] == [0, *sizes[:-1]]
    assert [(str(record.stream_id), record.record_type) for record in found] == [
        ("2-0", RecordType.DATA),
        ("241-1", RecordType.DATA),
        ("241-1", RecordType.DATA),
        ("247-1", RecordType.TAGS),
        ("1-0", RecordType.DATA),
    ]
    header = FileHeader.unpack(data)
    assert header.index_offset == len(data) - sizes[-1]
    assert header.first_record_offset == 0
    with vrs.open(path) as ours:
        assert [record.timestamp for record in ours] == [1.0, 2.0]
        assert list(ours.streams) == ["241-1", "247-1"]


def test_the_count_of_records_written(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        stream.write_payload("data", 0, b"")
        assert "1 streams, 1 records, open" in repr(recording)
        assert recording.path == str(tmp_path / "a.vrs")
        assert list(recording.streams) == [stream.id] == ["100-1"]
    assert "closed" in repr(recording)


def test_small_records_are_few_calls_and_large_ones_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []
    real = recordfile.disk.write_at

    def noting(fd: int, offset: int, *parts: Any) -> None:
        calls.append(parts)
        real(fd, offset, *parts)

    with vrs.create(tmp_path / "a.vrs", compression="none") as recording:
        stream = recording.stream(100)
        stream.define("data", Imu, vrs.Image("raw", 512, 512, "grey8"))
        image = np.zeros((512, 512), np.uint8)
        recording.flush()
        monkeypatch.setattr(recordfile.disk, "write_at", noting)
        for i in range(1000):
            stream.write_payload("data", i, bytes(1000))
        assert len(calls) == 0
        stream.write("data", 1, {}, image)
        ((buffer, _, metadata, written),) = calls
        assert (len(metadata), len(written)) == (16, 512 * 512)
        assert np.shares_memory(np.frombuffer(written, np.uint8), image)
        assert buffer == b""  # written in the same call
        for i in range(3000):
            stream.write_payload("data", i, bytes(1000))
        assert len(calls) == 3


def test_chunks(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "run_0", chunk_nbytes=1000, compression="none") as recording:
        stream = recording.stream(100)
        for size in (100, 800, 100, 3000, 100, 867, 868):
            stream.write_payload("data", size, bytes(size))
    # The first file has tags and index; a reader of run_0 looks for run_1.
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.pop("run_0") == recording_head(tmp_path / "run_0")
    assert sizes == {
        "run_1": 132 + 832,
        "run_2": 132,
        "run_3": 3032,
        "run_4": 132,
        "run_5": 899,
        "run_6": 900,
    }
    with vrs.open(tmp_path / "run_0") as ours:
        assert ours.report.is_clean, ours.report
        assert len(ours) == 7


def recording_head(path: Path) -> int:
    return FileHeader.unpack(path.read_bytes()).first_record_offset


def test_a_split_index_lists_only_written_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordfile, "SPLIT_RECORDS", 10)
    with vrs.create(tmp_path / "a", chunk_nbytes=1 << 20) as recording:
        stream = recording.stream(100)
        for i in range(25):
            stream.write_payload("data", i, bytes(i))
        head = (tmp_path / "a").read_bytes()
        at = FileHeader.unpack(head).index_offset
        index = unpack_index(RecordHeader.unpack(head, at), head[at + 32 :], nbytes_present=1 << 20)
        assert len(index.entries) == 20
        written = (tmp_path / "a_1").stat().st_size
        assert int(index.entries["size"].sum()) == written
    with vrs.open(tmp_path / "a") as ours:
        assert ours.report.is_clean
        assert len(ours) == 25


@pytest.mark.parametrize("index_compression", ["none", "zfast"])
def test_an_index_in_front_is_compressed_rather_than_moved(
    tmp_path: Path, index_compression: str
) -> None:
    path = tmp_path / "a.vrs"
    options: dict[str, Any] = {"index": "front", "index_compression": index_compression}
    with vrs.create(path, index_room=70, **options) as recording:
        stream = recording.stream(100)
        for i in range(150):
            stream.write_payload("data", i, b"")
    with vrs.open(path) as ours:
        assert len(ours) == 150
        assert ours.header.index_offset < ours.header.first_record_offset


def test_an_empty_recording(tmp_path: Path) -> None:
    for name, options in {"a": {}, "b": {"index": "front"}, "c": {"chunk_nbytes": 9}}.items():
        with vrs.create(tmp_path / name, tags={"k": "v"}, **options):
            pass
        with vrs.open(tmp_path / name) as ours:
            assert ours.report.is_clean, (name, ours.report)
            assert (len(ours), ours.file_tags) == (0, {"k": "v"})
    assert len(list(tmp_path.iterdir())) == 3


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match=r"a\.vrs"):
        vrs.create(path)
    assert path.read_bytes() == b"mine"
    path.rename(tmp_path / "b.vrs_1")
    with pytest.raises(FileExistsError, match=r"b\.vrs_1"):
        vrs.create(tmp_path / "b.vrs", chunk_nbytes=1000)
    assert [each.name for each in tmp_path.iterdir()] == ["b.vrs_1"]


def test_overwriting_removes_chunks_but_no_other_recording(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with vrs.create(path, chunk_nbytes=100) as recording:
        for i in range(3):
            recording_stream(recording).write_payload("data", i, bytes(90))
    assert len(list(tmp_path.iterdir())) == 4
    with vrs.create(tmp_path / "a_4"):
        pass
    # Refused at once, and not when the fourth chunk is needed; without chunks it is in no way.
    with pytest.raises(FileExistsError, match="a_4"):
        vrs.create(path, overwrite=True, chunk_nbytes=1000)
    assert len(vrs.open(path)) == 3
    (tmp_path / "a_4").rename(tmp_path / "a_04")
    with vrs.create(path, overwrite=True, chunk_nbytes=1000) as recording:
        recording_stream(recording).write_payload("data", 7, b"new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "a_04", "a_1"]
    with vrs.open(path) as ours:
        assert [record.timestamp for record in ours] == [7.0]
    # A recording of another name that is in the way of a chunk stays.
    (tmp_path / "a_04").rename(tmp_path / "b_1")
    with vrs.create(tmp_path / "b"):
        pass
    with pytest.raises(FileExistsError, match="b_1"):
        vrs.create(tmp_path / "b", overwrite=True, chunk_nbytes=1000)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "a_1", "b", "b_1"]


@pytest.mark.parametrize("old", ["text", "recording"])
def test_overwriting_keeps_a_file_that_is_not_a_chunk(tmp_path: Path, old: str) -> None:
    path = tmp_path / "a.vrs"
    if old == "text":
        path.write_text("text")
    else:
        vrs.create(path).close()
    before = path.read_bytes()
    (tmp_path / "a.vrs_1").write_text("precious")
    with pytest.raises(FileExistsError, match=r"a\.vrs_1"):
        vrs.create(path, overwrite=True)
    assert (tmp_path / "a.vrs_1").read_text() == "precious"
    assert path.read_bytes() == before


def test_overwriting_keeps_links_and_permissions(tmp_path: Path) -> None:
    path, link = tmp_path / "a.vrs", tmp_path / "link"
    path.write_text("private")
    path.chmod(0o600)
    link.symlink_to(path)
    with vrs.create(link, overwrite=True, chunk_nbytes=100) as recording:
        recording_stream(recording).write_payload("data", 1, bytes(90))
    assert link.is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.vrs", "a.vrs_1", "link"]
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}


def recording_stream(recording: vrs.Writer) -> vrs.StreamWriter:
    return recording.streams.get("100-1") or recording.stream(100)


def test_the_folder_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with vrs.create("a", chunk_nbytes=10) as recording:
        stream = recording.stream(100)
        stream.write_payload("data", 0, b"x")
        (tmp_path / "other").mkdir()
        os.chdir("other")
        stream.write_payload("data", 1, b"y")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "a_1", "a_2", "other"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"index": "middle"}, "'end' or 'front'"),
        ({"compression": "zip"}, "compression 'zip'"),
        ({"index_compression": "fast"}, "Zstandard"),
        ({"chunk_nbytes": 0}, "chunk_nbytes 0"),
        ({"index_room": -1}, "index_room -1"),
        ({"tags": {"a": "\ud800"}}, "surrogates"),
    ],
)
def test_impossible_options(tmp_path: Path, options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        vrs.create(tmp_path / "a.vrs", **options)
    assert not list(tmp_path.iterdir())


def test_wrong_records_write_nothing(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        stream.define("data", Imu, vrs.Image("raw", 4, 2, "rgb8"))
        image = np.zeros((2, 4, 3), np.uint8)
        stream.write("data", 0, {}, image)
        wrong: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
            (ValueError, "no 'state' records of version 1", ("state", 1)),
            (ValueError, "no 'dta' records", ("dta", 1, {}, image)),
            (TypeError, "1 values for 2 blocks", ("data", 1, {})),
            (TypeError, "expected a dict or a Layout", ("data", 1, [1], image)),
            (ValueError, "temp", ("data", 1, {"temp": 1}, image)),
            (ValueError, "gyro", ("data", 1, {"gyro": [1, 2]}, image)),
            (ValueError, "temperature", ("data", 1, {"temperature": "warm"}, image)),
            (ValueError, r"shape \(4, 2, 3\)", ("data", 1, {}, image.transpose(1, 0, 2))),
            (TypeError, "float64, expected uint8", ("data", 1, {}, image.astype(float))),
            (ValueError, "23 bytes, expected 24", ("data", 1, {}, bytes(23))),
            (TypeError, "expected bytes, not str", ("data", 1, {}, "image")),
            (ValueError, "finite", ("data", float("nan"), {}, image)),
            (ValueError, "finite", ("data", float("-inf"), {}, image)),
            (ValueError, "finite", ("data", 10**400, {}, image)),
            (TypeError, "real number", ("data", "now", {}, image)),
            (TypeError, "real number", ("data", None, {}, image)),
        ]
        for kind, match, arguments in wrong:
            with pytest.raises(kind, match=match):
                stream.write(*arguments)
        with pytest.raises(ValueError, match="version 2 are defined"):
            stream.write("data", 1, {}, image, version=2)
        for version in (-1, 1 << 32):
            with pytest.raises(ValueError, match=f"version {version}: expected"):
                stream.write_payload("data", 1, b"", version=version)
        with pytest.raises(TypeError, match="float"):
            stream.write_payload("data", 1, b"", version=1.5)  # type: ignore[arg-type]
        stream.write("data", 1, Imu(temperature=2), bytes(24))
    assert len(headers((tmp_path / "a.vrs").read_bytes())) == 4


def test_numpy_values(tmp_path: Path) -> None:
    layout = vrs.DataLayout(Imu.definition().pieces + Extra.definition().pieces)
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        stream.define("data", layout)
        gyro, counts = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.uint16)
        for i, number in enumerate((1.5, np.float32(1.5), np.float64(1.5))):
            values = {"temperature": number, "gyro": gyro, "counts": counts, "last": np.int8(-7)}
            stream.write("data", i, values)
    with vrs.open(tmp_path / "a.vrs") as ours:
        expected = {"temperature": 1.5, "gyro": [1, 2, 3], "counts": [4, 5, 6], "last": -7}
        assert [record.metadata_blocks[0] for record in ours] == [expected] * 3


class Extra(vrs.Layout):
    counts = vrs.Array("uint16", 3)
    last = vrs.Value("int8")


def test_times_of_any_number_type_and_order(tmp_path: Path) -> None:
    times = [3, np.float32(0.5), np.int64(2), -1.5, 1e300, 3]
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        for t in times:
            stream.write_payload("data", t, b"")
    with vrs.open(tmp_path / "a.vrs") as ours:
        assert [record.timestamp for record in ours] == sorted(map(float, times))


def test_the_size_of_the_next_block(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        stream.define("data", Sized, vrs.Custom(), Sized, vrs.Custom())
        looked_at = Sized(note="x")
        assert looked_at.next_content_block_size == 0
        stream.write("data", 0, looked_at, b"abc", {}, b"")
        stream.write("data", 1, {"next_content_block_size": 2}, b"ab", {}, b"x")
        with pytest.raises(ValueError, match="is 3: the next block has 2 bytes"):
            stream.write("data", 2, {"next_content_block_size": 3}, b"ab", {}, b"x")
        with pytest.raises(ValueError, match="is 3: the next block has 2 bytes"):
            stream.write("data", 2, Sized(next_content_block_size=3), b"ab", {}, b"x")
    with vrs.open(tmp_path / "a.vrs") as ours:
        assert [bytes(block) for block in ours[0].custom_blocks] == [b"abc", b""]
        assert ours[0].metadata_blocks[0] == {"next_content_block_size": 3, "note": "x"}
        assert [bytes(block) for block in ours[1].custom_blocks] == [b"ab", b"x"]


def test_payloads_of_any_buffer(tmp_path: Path) -> None:
    numbers = np.arange(6, dtype=np.uint8)
    buffers = [b"\0\1", bytearray(b"\0\1"), memoryview(b"\0\1"), numbers[:2]]
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        for i, buffer in enumerate(buffers):
            stream.write_payload("data", i, buffer)
        with pytest.raises(TypeError, match="not list"):
            stream.write_payload("data", 0, [1, 2])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="contiguous"):
            stream.write_payload("data", 0, numbers[::2])
        with pytest.raises(TypeError, match="2 dimensions"):
            stream.write_payload("data", 0, numbers.reshape(2, 3))
    with vrs.open(tmp_path / "a.vrs") as ours:
        assert [bytes(record.payload) for record in ours] == [b"\0\1"] * 4


def test_values_changed_after_the_call_are_not_in_the_file(tmp_path: Path) -> None:
    image = np.zeros((10, 10), np.uint8)
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream(100)
        stream.define("data", vrs.Image("raw", 10, 10, "grey8"))
        for i in range(3):
            image[:] = i
            stream.write("data", i, image)
    with vrs.open(tmp_path / "a.vrs") as ours:
        assert [int(record.image_blocks[0].max()) for record in ours] == [0, 1, 2]


def test_stored_payloads_are_written_unchanged(tmp_path: Path) -> None:
    payload = bytes(1000)
    with vrs.create(tmp_path / "a.vrs") as recording:
        recording.stream(100).write_payload("data", 0, payload)
    data = (tmp_path / "a.vrs").read_bytes()
    _, record, _ = headers(data)
    offset = FILE_HEADER_SIZE + headers(data)[0].size + 32
    stored = data[offset : offset + record.size - 32]
    with vrs.create(tmp_path / "b.vrs", compression="none") as recording:
        stream = recording.stream(100)
        stream.write_stored("state", 0, stored, record.compression, 1000, version=7)
        stream.write_stored("state", 1, b"abc", 0, 3)
        with pytest.raises(ValueError, match="3 bytes, expected 4"):
            stream.write_stored("state", 1, b"abc", 0, 4)
        with pytest.raises(ValueError, match="9"):
            stream.write_stored("state", 1, b"abc", 9, 4)
        with pytest.raises(ValueError, match="nbytes -1"):
            stream.write_stored("state", 1, b"abc", record.compression, -1)
    with vrs.open(tmp_path / "b.vrs") as ours:
        assert [bytes(each.payload) for each in ours] == [payload, b"abc"]
        assert (ours[0].format_version, ours[0].record_type) == (7, "state")


def test_a_record_that_is_too_large(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs", compression="none") as recording:
        stream = recording.stream(100)
        with pytest.raises(ValueError, match="expected less than 4 GiB"):
            stream._write(RecordType.DATA, 0, [Sizeless((1 << 32) - 32)], 1)  # type: ignore[list-item]
    assert (tmp_path / "a.vrs").stat().st_size < 1000


class Sizeless:
    """Claims a size that it does not have."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes

    def __len__(self) -> int:
        return self._nbytes


def test_a_closed_recording(tmp_path: Path) -> None:
    recording = vrs.create(tmp_path / "a.vrs")
    stream = recording.stream(100)
    stream.define("data", Imu)
    recording.close()
    recording.close()
    recording.abort()
    assert recording.closed
    data = (tmp_path / "a.vrs").read_bytes()
    calls = [
        lambda: stream.write("data", 0, {}),
        lambda: stream.write_payload("data", 0, b""),
        lambda: recording.stream(100),
        lambda: stream.define("data", Imu, version=2),
        lambda: stream.tags.update(a="b"),
        lambda: recording.tags.update(a="b"),
        recording.flush,
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the recording is closed"):
            call()
    assert (tmp_path / "a.vrs").read_bytes() == data


def test_many_threads(tmp_path: Path) -> None:
    nthreads, n = 4, 300
    with vrs.create(tmp_path / "a.vrs", chunk_nbytes=20_000) as recording:

        def work(number: int) -> None:
            stream = recording.stream(100, instance_id=number)
            stream.define("data", vrs.Custom())
            for i in range(n):
                stream.write("data", i, bytes([number]) * (i % 400))
                if i == n // 2:
                    stream.tags["half"] = "done"

        threads = [threading.Thread(target=work, args=(i,)) for i in range(nthreads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with vrs.open(tmp_path / "a.vrs") as ours:
        assert ours.report.is_clean
        assert len(ours) == nthreads * n
        for record in ours:
            number = int(record.stream_id.removeprefix("100-"))
            assert bytes(record.payload) == bytes([number]) * (int(record.timestamp) % 400)
        assert all(stream.tags == {"half": "done"} for stream in ours.streams.values())


@pytest.mark.slow
def test_no_file_stays_open(tmp_path: Path) -> None:
    for options in ({}, {"chunk_nbytes": 50}):
        for end in ("close", "abort"):
            recording = vrs.create(tmp_path / "a.vrs", overwrite=True, **options)
            for i in range(5):
                recording_stream(recording).write_payload("data", i, bytes(60))
            getattr(recording, end)()
            assert open_files(tmp_path) == []
