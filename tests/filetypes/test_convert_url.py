"""``bloscpack.convert`` to URLs: files of one type as one object, and no folders."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main
from bloscpack.exceptions import UnsupportedError, WrongKindError

from ..conftest import SMALL_FORMATS, needs_exchange, small_vectors
from ..servers import FileServer

ROWS = np.arange(60.0).reshape(20, 3)


@pytest.fixture
def url() -> Iterator[str]:
    pytest.importorskip("aiohttp")
    memory = fsspec.filesystem("memory")
    yield "memory://converted"
    if memory.exists("/converted"):
        memory.rm("/converted", recursive=True)


@pytest.fixture
def array(tmp_path: Path) -> Path:
    bp.save(tmp_path / "a.blp", ROWS)
    return tmp_path / "a.blp"


def test_files(array: Path, url: str, tmp_path: Path) -> None:
    for name in ("b.blp", "b.npy", "b.npz"):
        bp.convert(array, f"{url}/{name}")
        with pytest.raises(FileExistsError, match="overwrite=True"):
            bp.convert(array, f"{url}/{name}")
        bp.convert(array, f"{url}/{name}", overwrite=True)
    assert np.array_equal(bp.load(f"{url}/b.blp"), ROWS)
    bp.convert(f"{url}/b.npy", tmp_path / "back.blp")
    assert np.array_equal(bp.load(tmp_path / "back.blp"), ROWS)
    with bp.frames.create(tmp_path / "clips.blp") as store:
        store.append("walk", np.zeros((3, 8, 8), "u1"))
    bp.convert(tmp_path / "clips.blp", f"{url}/clips.blp", storage_options={"any": 1})
    with bp.frames.open(f"{url}/clips.blp") as store:
        assert store["walk"].shape == (3, 8, 8)


@needs_exchange
def test_no_folders(array: Path, url: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    with bp.frames.create(tmp_path / "clips.blp") as store:
        store.append("walk", np.zeros((3, 8, 8), "u1"))
    for source, name in ((array, "zarr"), (tmp_path / "clips.blp", "images")):
        with pytest.raises(UnsupportedError, match="a type of one file"):
            bp.convert(source, f"{url}/{name}", to=name)


@needs_exchange
def test_the_command(array: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("aiohttp")
    assert main(["convert", str(array), f"file://{tmp_path}/b.npy"]) == 0
    assert np.array_equal(np.load(tmp_path / "b.npy"), ROWS)
    assert main(["convert", str(array), "http://user:secret@host/b.npy"]) == 1
    assert "nothing can be written to a web server" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.blp", "b.npy"]


def test_a_folder_on_a_web_server(http: FileServer, tmp_path: Path) -> None:
    """Files of a folder are known only by a page that lists them, which the slash asks for."""
    http.files["/a.zarr/zarr.json"] = b"{}"
    for name in ("a.zarr", "a.zarr/"):
        with pytest.raises(FileNotFoundError, match=r"no folder .* lists; .* \.zarr\.zip"):
            bp.convert(http.url(name), tmp_path / "a.blp")
    http.files["/a.zarr"] = b"<!DOCTYPE HTML><title>Index of a.zarr</title>"
    with pytest.raises(WrongKindError, match=r"a web page, not .*: the URL .* ends with a slash"):
        bp.convert(http.url("a.zarr"), tmp_path / "a.blp")
    with pytest.raises(WrongKindError, match="a web page, not a Bloscpack file"):
        bp.open(http.url("a.zarr"))


@pytest.mark.parametrize(
    "name", small_vectors("gulp", "gulp_store.blp", "recording.vrs", "hevc.bzna")
)
def test_options_are_for_urls(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="storage_options are for URLs"):
        bp.convert(SMALL_FORMATS / name, tmp_path / "x.blp", storage_options={"anon": True})
    assert not list(tmp_path.iterdir())
