"""Gulp directories behind URLs: requests, answers, failures."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

pytest.importorskip("simplejpeg", reason="frames are JPEGs")

import bloscpack as bp
from bloscpack.exceptions import FileChangedError

from ..servers import FileServer, S3Server, running

RNG = np.random.default_rng(7)
CLIPS = {f"c{n}": RNG.integers(0, 250, (16, 64, 64, 3), "u1") for n in range(40)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Gulp directory of 40 clips, in the folder `gulp`."""
    folder = tmp_path_factory.mktemp("remote")
    with bp.frames.create(folder / "jpeg.blp", codec="jpeg") as store:
        for id_, clip in CLIPS.items():
            store.append(id_, clip, {"label": id_})
    bp.convert(folder / "jpeg.blp", folder / "gulp")
    return folder


@pytest.fixture(scope="module")
def s3_of_module(folder: Path) -> Iterator[S3Server]:
    with running(S3Server()) as server:
        for path in (folder / "gulp").iterdir():
            server.put(f"gulp/{path.name}", path.read_bytes())
        yield server


@pytest.fixture
def s3(s3_of_module: S3Server, retries_at_once: None) -> S3Server:
    s3_of_module.clear()
    return s3_of_module


@pytest.fixture
def http(folder: Path, retries_at_once: None) -> Iterator[FileServer]:
    with running(FileServer()) as server:
        names = [path.name for path in (folder / "gulp").iterdir()]
        for name in names:
            server.files[f"/gulp/{name}"] = (folder / "gulp" / name).read_bytes()
        server.files["/gulp/"] = "".join(f'<a href="{name}">x</a>' for name in names).encode()
        yield server


def test_requests(s3: S3Server, folder: Path) -> None:
    with (
        bp.frames.open("s3://box/gulp/", storage_options=s3.options) as source,
        bp.frames.open(folder / "gulp") as local,
    ):
        # One request for the list of the folder, one for the index.
        assert len(s3.log) == 2
        assert list(source) == list(CLIPS)
        assert source["c3"].meta == local["c3"].meta
        assert source.name == "s3://box/gulp"
        s3.clear()
        assert np.array_equal(source["c7"][:], local["c7"][:])
        assert len(s3.log) == 1
        s3.clear()
        assert np.array_equal(source["c9"][5], local["c9"][5])
        assert len(s3.log) == 1
        s3.clear()
        requests = [("c1", slice(0, 4)), ("c30", slice(0, 4))]
        assert np.array_equal(source.read(requests), local.read(requests))
        assert len(s3.log) == 2


def test_labels_travel(s3: S3Server, http: FileServer, tmp_path: Path) -> None:
    labels = b'{"walk": 0}'
    s3.put("labelled/label2idx.json", labels)
    for name in [name for name in http.files if name.count("/") == 2 and name != "/gulp/"]:
        s3.put(f"labelled/{name.rpartition('/')[2]}", http.files[name])
    http.files["/gulp/label2idx.json"] = labels
    http.files["/gulp/"] += b'<a href="label2idx.json">x</a>'
    for number, (url, options) in enumerate(
        [("s3://box/labelled", s3.options), (http.url("gulp/"), None)]
    ):
        bp.convert(url, tmp_path / f"{number}.blp", storage_options=options)
        with bp.frames.open(tmp_path / f"{number}.blp") as store:
            assert store.attrs == {"label2idx": {"walk": 0}}


def test_a_folder_is_found_without_a_slash(s3: S3Server) -> None:
    with bp.frames.open("s3://box/gulp", storage_options=s3.options) as source:
        assert len(source) == 40


def test_behind_a_web_server(http: FileServer, folder: Path) -> None:
    with (
        bp.frames.open(http.url("gulp/")) as source,
        bp.frames.open(folder / "gulp") as local,
    ):
        assert len(http.log) == 2
        assert np.array_equal(source["c7"][::3], local["c7"][::3])
        assert len(http.log) == 4


def test_converting(http: FileServer, s3: S3Server, folder: Path, tmp_path: Path) -> None:
    for number, source in enumerate((folder / "gulp", http.url("gulp/"))):
        bp.convert(source, tmp_path / f"{number}.blp")
    bp.convert("s3://box/gulp/", tmp_path / "2.blp", storage_options=s3.options)
    stores = [(tmp_path / f"{number}.blp").read_bytes() for number in range(3)]
    assert stores[1:] == stores[:1] * 2


def test_it_travels(s3: S3Server, folder: Path) -> None:
    source = bp.frames.open("s3://box/gulp/", storage_options=s3.options)
    with bp.frames.open(folder / "gulp") as local:
        again = pickle.loads(pickle.dumps(source))
        assert np.array_equal(again["c12"][3], local["c12"][3])


def test_a_changed_data_file(folder: Path) -> None:
    memory = fsspec.filesystem("memory")
    for path in (folder / "gulp").iterdir():
        memory.pipe_file(f"/changing/{path.name}", path.read_bytes())
    with bp.frames.open("memory://changing") as source:
        assert len(source["c1"][:]) == 16
        memory.pipe_file("/changing/data_0.gulp", b"other")
        with pytest.raises(FileChangedError, match=r"data_0\.gulp"):
            source["c30"][:]
