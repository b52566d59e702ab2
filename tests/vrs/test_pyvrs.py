"""Guarantees of pyvrs's readers beyond the wheel: pickles, threads, forks, damage, many files."""

import asyncio
import math
import os
import pickle
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import vrs
from bloscpack.exceptions import BloscpackError, FormatError
from bloscpack.vrs import pyvrs
from bloscpack.vrs.export.extraction import extract
from bloscpack.vrs.pyvrs.framerate import estimate_frame_rate

from .recordingfiles import Rec, build


class Imu(vrs.Layout):
    count = vrs.Value("int32_t")
    name = vrs.String()
    things = vrs.Vector("float")


def make(path: Path, *, type_id: int = 241, frames: int = 4, **options: Any) -> Path:
    """Write a recording of a sensor and of a camera."""
    with vrs.create(path, **options) as writer:
        imu = writer.stream(type_id, flavor="test/imu", tags={"place": "here"})
        imu.define("data", Imu)
        camera = writer.stream("RGB Camera Class", flavor="test/camera")
        camera.define("data", vrs.Image("raw", 6, 4, "grey8"), vrs.Custom(size=2))
        for index in range(frames):
            imu.write("data", float(index), {"count": index, "name": "é", "things": []})
            image = np.full((4, 6), index, np.uint8)
            camera.write("data", index + 0.5, image, b"xy")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make(tmp_path / "a.vrs")


def test_an_empty_variable_part_is_not_left_out(path: Path) -> None:
    with pyvrs.SyncVRSReader(path) as reader:
        assert reader[0].metadata_blocks[0] == {"count": 0, "name": "é", "things": []}


@pytest.mark.parametrize("kind", [pyvrs.SyncVRSReader, pyvrs.AsyncVRSReader])
def test_readers_are_pickled_with_their_settings(path: Path, kind: Any) -> None:
    reader = kind(path)
    reader.set_stream_image_conversion("214-1", pyvrs.ImageConversion.RAW_BUFFER)
    reader.skip_trailing_blocks(214, pyvrs.RecordType.DATA, 1)
    again = pickle.loads(pickle.dumps(reader))
    assert type(again) is kind
    assert (repr(again), len(again)) == (repr(reader), len(reader))
    record = again.read_record_by_time("214-1", 1.5)
    assert record.image_blocks[0].shape == (24,)
    assert record.n_custom_blocks == 0


def test_records_slices_and_filters_are_pickled(path: Path) -> None:
    reader = pyvrs.SyncVRSReader(path)
    reader.set_image_conversion(pyvrs.ImageConversion.RAW_BUFFER)
    filtered = reader.filtered_by_fields(stream_ids="214-1")
    record, part, chosen = pickle.loads(pickle.dumps((filtered[2], reader[1::3], filtered)))
    assert repr(record) == repr(filtered[2])
    assert (record.image_blocks[0] == np.full(24, 2)).all()
    assert [x.record_index for x in part] == [1, 4, 7]
    assert [x.record_index for x in chosen] == [1, 3, 5, 7]
    assert str(chosen) == str(filtered)


def test_a_relative_path_is_pickled_as_absolute(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = pickle.dumps(pyvrs.SyncVRSReader("a.vrs"))
    monkeypatch.chdir("/")
    assert len(pickle.loads(stored)) == 8


def test_a_reader_is_used_in_threads_and_after_a_fork(path: Path) -> None:
    reader = pyvrs.SyncVRSReader(path)
    expected = [_content(record) for record in reader]

    def read(_: int) -> list[Any]:
        return [_content(reader[index]) for index in range(len(reader))]

    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(read, range(16)))
    child = os.fork()
    if not child:
        os._exit(0 if read(0) == expected else 1)
    assert read(0) == expected
    assert os.waitpid(child, 0)[1] == 0


def _content(record: pyvrs.VRSRecord) -> Any:
    images = [image.tolist() for image in record.image_blocks]
    return record.stream_id, record.timestamp, list(record.metadata_blocks), images


def test_a_record_is_usable_after_closing(path: Path) -> None:
    with pyvrs.SyncVRSReader(path) as reader:
        record = reader[1]
    assert record.image_blocks[0].shape == (4, 6)
    with pytest.raises(ValueError, match="closed"):
        reader[1]


def test_settings_apply_to_records_read_later(path: Path) -> None:
    reader = pyvrs.SyncVRSReader(path)
    part, before = reader[1:2], reader[1]
    reader.set_image_conversion(pyvrs.ImageConversion.RAW_BUFFER)
    assert before.image_blocks[0].shape == (4, 6)
    assert part[0].image_blocks[0].shape == (24,)
    assert reader.filtered_by_fields(stream_ids="214-1")[0].image_blocks[0].shape == (24,)


def test_images_are_decoded_once_and_in_threads(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    convert = vrs.Block.converted

    def noted(block: vrs.Block, conversion: Any) -> Any:
        threads.append(threading.current_thread())
        return convert(block, conversion)

    monkeypatch.setattr(vrs.Block, "converted", noted)
    reader = pyvrs.AsyncVRSReader(path)

    async def read() -> list[pyvrs.VRSRecord]:
        return [await reader[1], *[record async for record in await reader[3:4]]]

    for record in asyncio.run(read()):
        assert record.image_blocks[0] is record.image_blocks[0]
    assert len(threads) == 2
    assert threading.main_thread() not in threads


def test_a_damaged_record_is_an_error_and_not_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    with vrs.create(path, compression="zmedium") as writer:
        camera = writer.stream("RGB Camera Class")
        camera.define("data", vrs.Image("raw", 40, 40, "grey8"))
        for index in range(3):
            camera.write("data", float(index), np.full((40, 40), index, np.uint8))
    with vrs.open(path) as recording:
        offset = recording.table.offset.item(1) + 32
    data = bytearray(path.read_bytes())
    data[offset : offset + 8] = bytes(8)
    path.write_bytes(data)
    reader = pyvrs.SyncVRSReader(path)
    assert [int(reader[index].image_blocks[0].max()) for index in (0, 2)] == [0, 2]
    with pytest.raises(BloscpackError):
        reader[1]


def test_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    with vrs.create(path, tags={"who": "J\udcfcrgen"}) as writer:
        imu = writer.stream(241, tags={"who": "\udcfc"})
        imu.define("data", Imu)
        imu.write("data", 0.0, {"count": 1, "name": "\udce9", "things": [1]})
    reader = pyvrs.SyncVRSReader(path, encoding="latin-1")
    assert reader.file_tags == {"who": "Jürgen"}
    assert reader.stream_tags == {"241-1": {"who": "ü"}}
    assert reader.find_stream(241, "who", "ü") == "241-1"
    assert reader[0].metadata_blocks[0] == {"count": 1, "name": "é", "things": [1.0]}
    strict = pyvrs.SyncVRSReader(path, encoding="utf-8")
    with pytest.raises(FormatError, match="utf-8"):
        strict[0].metadata_blocks[0]
    assert pyvrs.SyncVRSReader(path)[0].metadata_blocks[0]["name"] == "\udce9"


def test_files_of_different_sessions_are_refused(tmp_path: Path) -> None:
    paths = [
        make(tmp_path / f"{name}.vrs", tags=tags)
        for name, tags in (
            ("a", {"session_id": "1", "x": "first"}),
            ("b", {"x": "second", "y": "new"}),
            ("c", {"session_id": "2"}),
        )
    ]
    together = pyvrs.SyncVRSReader(paths[:2], multi_path=True)
    assert together.file_tags == {"session_id": "1", "x": "first", "y": "new"}
    assert len(together) == 16
    with pytest.raises(ValueError, match="session_id is '1', '2'"):
        pyvrs.SyncVRSReader(paths, multi_path=True)


def test_streams_of_several_files_keep_apart(tmp_path: Path) -> None:
    paths = [make(tmp_path / "a.vrs", frames=2), make(tmp_path / "b.vrs", type_id=300, frames=3)]
    reader = pickle.loads(pickle.dumps(pyvrs.SyncVRSReader(paths, multi_path=True)))
    assert reader.stream_ids == {"241-1", "300-1", "214-1", "214-2"}
    times = reader.get_timestamp_list()
    assert times == sorted(times)
    assert [record.timestamp for record in reader] == times
    second = reader.filtered_by_fields(stream_ids="214-2")
    assert [record.image_blocks[0][0, 0] for record in second] == [0, 1, 2]
    assert {record.stream_id for record in second} == {"214-2"}
    serials = [reader.get_serial_number_for_stream(name) for name in ("214-1", "214-2")]
    assert [reader.get_stream_for_serial_number(serial) for serial in serials] == ["214-1", "214-2"]


def test_no_instance_id_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    with vrs.create(path) as writer:
        writer.stream(241, instance_id=65535)
    with pytest.raises(ValueError, match="241-65535: no free instance id is left"):
        pyvrs.SyncVRSReader([path, path], multi_path=True)


def test_an_error_for_a_missing_stream_lists_the_streams(path: Path) -> None:
    reader = pyvrs.SyncVRSReader(path)
    with pytest.raises(pyvrs.StreamNotFoundError) as caught:
        reader.get_stream_info("9-9")
    text = "No matching stream for 9-9. Available streams are:\n"
    text += "  214-1 - RGB Camera Class\n  241-1 - IMU Data Class"
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value))) == text


def test_asynchronous_readers_are_not_iterated_over(path: Path) -> None:
    reader = pyvrs.AsyncVRSReader(path)
    with pytest.raises(TypeError, match="async for"):
        list(reader)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ('{"chunks": ', "not JSON"),
        ({"chunks": []}, "expected 'chunks'"),
        ({"chunks": ["a"], "storage": "cloud"}, "only local files"),
        ({}, "expected 'chunks'"),
    ],
)
def test_descriptions_of_files(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pyvrs.FileSpec(spec)


def test_any_text_is_a_path(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    for name in ('{"chunks":["a.vrs"]}', "file:a.vrs", "a.vrs?x=1"):
        with pytest.raises(FileNotFoundError):
            pyvrs.SyncVRSReader(name)
        path.with_name(name).write_bytes(path.read_bytes())
        assert len(pyvrs.SyncVRSReader(name)) == 8
    spec = pyvrs.FileSpec('{"chunks":["a.vrs"]}')
    assert (len(pyvrs.SyncVRSReader(spec)), spec.get_chunks()) == (8, ["a.vrs"])


@pytest.mark.parametrize(
    ("intervals", "rate"),
    [
        ([], 30.0),
        ([0.25], 4.0),
        ([0.1] * 5 + [1.0], 4.0),
        # A single gap does not change the rate of many records.
        ([0.03125] * 40 + [100.0], 32.0),
        ([0.03125] * 12 + [0.0625] * 12 + [8.0] * 2, 24 / 1.125),
        ([0.0] * 20, float("inf")),
    ],
)
def test_frame_rates(intervals: list[float], rate: float) -> None:
    times = np.cumsum([0.0, *intervals]).tolist()
    assert estimate_frame_rate(times) == pytest.approx(rate)


def test_modules_of_pyvrs_have_their_names() -> None:
    assert pyvrs.filter.RecordFilter is pyvrs.RecordFilter
    assert pyvrs.filter.SyncFilteredVRSReader is pyvrs.SyncFilteredVRSReader
    assert pyvrs.slice.VRSReaderSlice is pyvrs.VRSReaderSlice
    assert pyvrs.record.VRSRecord is pyvrs.VRSRecord
    assert pyvrs.record.VRSBlocks is pyvrs.VRSBlocks
    utils = pyvrs.utils
    ids = {"1201-1", "1201-2", "214-1"}
    assert utils.filter_by_stream_ids(ids, ["1201-*"]) == {"1201-1", "1201-2"}
    assert utils.filter_by_record_type({"data", "state"}, ["data", "none"]) == {"data"}
    assert utils.string_of_set({"b", "a"}) == "{a, b}"
    assert utils.get_recordable_type_id_name("1201-1") == pyvrs.recordable_type_id_name("1201-1")
    assert utils.tags_to_justified_table_str({}) == "File contains no file tags."
    several = {("a", "int"): 1, ("b", "int"): 2, ("a", "float"): 3.0}
    assert utils.stringify_metadata_keys(several) == {"a<int>": 1, "a<float>": 3.0, "b": 2}


@pytest.mark.parametrize(
    ("name", "given", "call"),
    [
        ("kinds", "images", lambda: extract(None, "out", kinds="images")),  # type: ignore[arg-type]
        ("regex_stream_ids", "1*", lambda: pyvrs.utils.filter_by_stream_ids({"1-1"}, "1*")),
        (
            "requested_record_types",
            "data",
            lambda: pyvrs.utils.filter_by_record_type(set(), "data"),
        ),
    ],
)
def test_one_text_is_not_a_list_of_its_letters(
    name: str, given: str, call: Callable[[], object]
) -> None:
    with pytest.raises(
        TypeError, match=f"{name} is a list, not a single str: \\['{re.escape(given)}'"
    ):
        call()


def test_a_filter_without_limits_keeps_records_without_a_time(tmp_path: Path) -> None:
    records = [Rec(time, b"x", stream=(241, 1)) for time in (0.0, math.nan, 2.0)]
    (tmp_path / "a.vrs").write_bytes(build(records).data)
    with pyvrs.SyncVRSReader(tmp_path / "a.vrs") as reader:
        assert len(reader.filtered_by_fields(stream_ids="241-1")) == 3
        assert len(reader.filtered_by_fields(min_timestamp=1)) == 2
        assert len(reader.filtered_by_fields(max_timestamp=1)) == 2
        nothing = reader.filtered_by_fields(stream_ids="nothing")
        assert repr(nothing.min_timestamp) == repr(nothing.max_timestamp) == "0"
