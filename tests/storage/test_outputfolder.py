"""Output folder for extraction: no name leads outside, no existing file is lost."""

import os
from pathlib import Path

import pytest

from bloscpack.storage.folder.outputfolder import Folder


def test_files_and_folders_are_made(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "new" / "out")
    folder.write("a/b/c.txt", b"one")
    folder.write("a/d.txt", memoryview(b"two"))
    assert (tmp_path / "new/out/a/b/c.txt").read_bytes() == b"one"
    assert Path(folder.path("a/d.txt")).read_bytes() == b"two"


@pytest.mark.parametrize(
    "name",
    ["../x", "a/../../x", "..", "", "/x", "a//x", "a/", "./x", "a/./x"],
)
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path / "out")
    with pytest.raises(ValueError, match="leads out of the folder"):
        folder.write(name, b"")
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == []


def test_a_folder_with_files_is_refused_by_default(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("a longer old one")
    with pytest.raises(FileExistsError, match="is not empty"):
        Folder(tmp_path)
    folder = Folder(tmp_path, overwrite=True)
    folder.write("mine", b"new")
    assert (tmp_path / "mine").read_bytes() == b"new"
    with pytest.raises(OSError, match="mine"):
        folder.write("mine/x", b"")


def test_what_was_written_is_not_written_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("a", b"1")
    with pytest.raises(FileExistsError):
        folder.write("a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    out.mkdir()
    (outside / "target").write_text("precious")
    (out / "away").symlink_to(outside)
    (out / "file").symlink_to(outside / "target")
    (out / "dangling").symlink_to(outside / "new")
    folder = Folder(out, overwrite=True)
    with pytest.raises(FileExistsError):
        folder.write("away/target", b"x")
    with pytest.raises(FileExistsError):
        folder.write("away/deeper/target", b"x")
    folder.write("file", b"mine")
    folder.write("dangling", b"mine")
    assert os.listdir(outside) == ["target"]
    assert (outside / "target").read_text() == "precious"
    assert (out / "file").read_bytes() == (out / "dangling").read_bytes() == b"mine"
    assert not (out / "file").is_symlink()
