"""Benzina datasets behind URLs: requests, answers, failures."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import benzina
from bloscpack.exceptions import FileChangedError, FormatError, NotBloscpackError

from ..servers import FileServer, S3Server, running

pytestmark = pytest.mark.usefixtures("retries_at_once")

RNG = np.random.default_rng(7)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("av")
    path = tmp_path_factory.mktemp("datasets") / "a.bzna"
    with benzina.Writer(path, tile=32, preset="ultrafast") as writer:
        for number in range(24):
            writer.add(RNG.integers(0, 250, (96, 96, 3), "u1"), name=str(number))
    return path


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with running(S3Server()) as server:
        yield server


def test_requests(http: FileServer, path: Path) -> None:
    http.files["/a.bzna"] = path.read_bytes()
    with bp.frames.open(path) as local, bp.frames.open(http.url("a.bzna")) as source:
        # The head, and the outline at the end.
        assert len(http.log) == 2
        ids = list(source)
        assert ids == list(local)
        http.clear()
        assert np.array_equal(source[ids[20]][:], local[ids[20]][:])
        assert len(http.log) == 1
        again = pickle.loads(pickle.dumps(source))
        assert np.array_equal(again[ids[9]][0], local[ids[9]][0])


def test_a_damaged_header_is_identified_by_the_name(http: FileServer) -> None:
    http.files["/y.bzna"] = http.files["/y.bin"] = b"something else" * 20
    with pytest.raises(FormatError, match=r"y\.bzna: box 'thin' at offset 0"):
        bp.frames.open(http.url("y.bzna"))
    with pytest.raises(FormatError, match=r"y\.bzna\?\.\.\.: box 'thin' at offset 0"):
        bp.frames.open(http.url("y.bzna?key=1"))
    with pytest.raises(NotBloscpackError):
        bp.frames.open(http.url("y.bin"))


def test_options(s3: S3Server, path: Path) -> None:
    url = s3.put("a.bzna", path.read_bytes())
    with benzina.open(url, storage_options=s3.options) as dataset:
        assert len(dataset) == 24
    s3.clear()
    report = bp.verify(url, storage_options=s3.options)
    assert (report.ok, report.nchunks, report.path) == (True, 24, url)
    # The head; the outline at the end, to identify and to read it; the samples.
    assert len(s3.log) == 4


def test_another_version(http: FileServer, path: Path) -> None:
    http.files["/b.bzna"] = path.read_bytes()
    with benzina.open(http.url("b.bzna")) as dataset:
        handle = pickle.dumps(dataset)
        http.files["/b.bzna"] = path.read_bytes() + b"more"
        with pytest.raises(FileChangedError):
            dataset[20].decode()
    with pytest.raises(FileChangedError):
        pickle.loads(handle)
