"""Recordings behind URLs: requests, answers, failures."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import vrs
from bloscpack.exceptions import FileChangedError, RemoteError
from tests.servers import FileServer, S3Server, ranges, running

IMAGES = np.random.default_rng(7).integers(0, 250, (40, 120, 160), "u1")


class Imu(vrs.Layout):
    temperature = vrs.Value("float")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a camera and of five values for each of its images."""
    path = tmp_path_factory.mktemp("remote") / "a.vrs"
    with vrs.create(path, tags={"place": "yard"}) as writer:
        imu, camera = writer.stream("imu"), writer.stream("RGB Camera Class")
        imu.define("data", Imu)
        camera.define("data", vrs.Image("raw", 160, 120, "grey8"))
        for number, image in enumerate(IMAGES):
            for tick in range(5):
                imu.write("data", number + tick / 5, {"temperature": number})
            camera.write("data", number, image)
    return path


@pytest.fixture(scope="module")
def s3(path: Path) -> Iterator[S3Server]:
    with running(S3Server()) as server:
        server.put("a.vrs", path.read_bytes())
        yield server


@pytest.fixture(scope="module")
def http(path: Path) -> Iterator[FileServer]:
    with running(FileServer()) as server:
        server.files["/a.vrs"] = path.read_bytes()
        yield server


@pytest.fixture(autouse=True)
def _fresh(request: pytest.FixtureRequest, retries_at_once: None) -> None:
    for name in ("s3", "http"):
        if name in request.fixturenames:
            request.getfixturevalue(name).clear()


@pytest.fixture
def recording(s3: S3Server) -> Iterator[vrs.Recording]:
    with vrs.open("s3://box/a.vrs", storage_options=s3.options) as recording:
        yield recording


def test_opening_is_two_requests(s3: S3Server, recording: vrs.Recording) -> None:
    assert len(s3.log) == 2
    assert len(recording) == 240
    assert recording.file_tags == {"place": "yard"}
    assert recording.name == "s3://box/a.vrs"


def test_a_clip_is_one(s3: S3Server, recording: vrs.Recording) -> None:
    s3.clear()
    clip = recording.streams["214-1"].clip()
    assert np.array_equal(clip[20:24], IMAGES[20:24])
    assert len(s3.log) == 1
    table = recording.table
    rows = clip.rows[20:24]
    start, end = table.offset[rows[0]], table.offset[rows[-1]] + table.size[rows[-1]]
    assert ranges(s3) == [(int(start), int(end - start))]


def test_converting_keeps_everything(
    http: FileServer, s3: S3Server, path: Path, tmp_path: Path
) -> None:
    for number, source in enumerate((path, http.url("a.vrs"))):
        bp.convert(source, tmp_path / f"{number}.blp")
    bp.convert("s3://box/a.vrs", tmp_path / "2.blp", storage_options=s3.options)
    stores = [(tmp_path / f"{number}.blp").read_bytes() for number in range(3)]
    assert stores[1:] == stores[:1] * 2


def test_as_a_source_of_clips(s3: S3Server) -> None:
    with bp.frames.open("s3://box/a.vrs", storage_options=s3.options) as source:
        assert len(s3.log) == 2
        requests = [("214-1", slice(10, 12)), ("214-1", slice(25, 27))]
        assert np.array_equal(source.read(requests)[1], IMAGES[25:27])
        # They are close to each other.
        assert len(s3.log) == 3
        again = pickle.loads(pickle.dumps(source))
    assert np.array_equal(again["214-1"][3], IMAGES[3])


def test_a_column(s3: S3Server, recording: vrs.Recording) -> None:
    imu = next(each for each in recording.streams.values() if each.id != "214-1")
    s3.clear()
    assert np.array_equal(imu.field("temperature"), np.repeat(np.arange(40), 5))
    # The headers first, then the fields, whose offsets the headers give.
    assert len(s3.log) <= 2


def test_all_records(s3: S3Server, recording: vrs.Recording, path: Path) -> None:
    s3.clear()
    with vrs.open(path) as local:
        for ours, theirs in zip(recording, local, strict=True):
            assert ours.timestamp == theirs.timestamp
            assert len(ours.blocks) == len(theirs.blocks)
    assert len(s3.log) < 10
    assert recording.checksum() == vrs.open(path).checksum()


def test_a_recording_in_chunks(http: FileServer, path: Path) -> None:
    data = path.read_bytes()
    cut = len(data) // 2
    http.files["/b.vrs"], http.files["/b.vrs_1"] = data[:cut], data[cut:]
    urls = [http.url("b.vrs"), http.url("b.vrs_1")]
    with vrs.open(urls) as recording:
        assert np.array_equal(recording.streams["214-1"].clip()[:], IMAGES)
        again = pickle.loads(pickle.dumps(recording))
        assert len(again) == 240


@pytest.mark.parametrize("fault", ["drop", "short", "503"])
def test_trouble(s3: S3Server, recording: vrs.Recording, fault: str) -> None:
    clip = recording.streams["214-1"].clip()
    s3.faults.append(fault)
    assert np.array_equal(clip[8:9], IMAGES[8:9])
    s3.always = fault
    with pytest.raises(RemoteError, match=r"a\.vrs"):
        clip[15:17]


def test_another_version(http: FileServer, path: Path) -> None:
    data = path.read_bytes()
    http.files["/b.vrs"] = data
    with vrs.open(http.url("b.vrs")) as recording:
        handle = pickle.dumps(recording)
        http.files["/b.vrs"] = data + b"more"
        with pytest.raises(FileChangedError):
            recording.streams["214-1"].clip()[15:17]
    with pytest.raises(FileChangedError):
        len(pickle.loads(handle))
