"""The table of file types, and the identification of a file that is opened once."""

import importlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.filetypes.identify import identify
from bloscpack.filetypes.table import FILETYPES, FileType
from bloscpack.format.filekind import STORE_TAIL_NBYTES
from bloscpack.frames.store.format import TAIL_SIZE
from bloscpack.storage.folder.filelist import ListedFolder
from bloscpack.storage.memory import MemorySource

from ..counting import CountingBytes

VECTORS = Path(__file__).parents[1] / "vectors" / "formats"
CONFORMANCE = Path(__file__).parents[1] / "conformance"
FILES = {
    "array": CONFORMANCE / "array_f8.blp",
    "frames": CONFORMANCE / "frames_jpeg.blp",
    "archive": CONFORMANCE / "archive_fields.blp",
    "gulp": VECTORS / "gulp",
    "vrs": VECTORS / "recording.vrs",
    "bzna": VECTORS / "h264.bzna",
}
NAMES = [filetype.name for filetype in FILETYPES]


def name_of(filetype: FileType | None) -> str | None:
    return None if filetype is None else filetype.name


def type_of(where: Any) -> str | None:
    filetype, source = identify(where)
    source.close()
    return name_of(filetype)


def test_every_type_has_a_file_here() -> None:
    assert [filetype.name for filetype in FILETYPES if filetype.name not in FILES] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_of_one_type(name: str) -> None:
    assert type_of(FILES[name]) == name
    if FILES[name].is_file():
        content = FILES[name].read_bytes()
        assert type_of(content) == type_of(io.BytesIO(content)) == name
        assert type_of(MemorySource(content)) == name


@pytest.mark.parametrize("filetype", FILETYPES, ids=lambda filetype: filetype.name)
def test_the_functions_of_a_row_exist(filetype: FileType) -> None:
    for function in filetype:
        if callable(function):
            module, name = (cell.cell_contents for cell in function.__closure__)  # type: ignore[attr-defined]
            assert callable(getattr(importlib.import_module(f"bloscpack.{module}"), name))


def test_a_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bp.save(tmp_path / "a.blp", np.arange(9))
    opened = []
    inner = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *args: (opened.append(str(path)), inner(path, *args))[1]
    )
    assert bp.verify(tmp_path / "a.blp").ok
    assert [os.path.basename(path) for path in opened if path.endswith(".blp")] == ["a.blp"]


def test_the_first_bytes_are_read_at_once() -> None:
    for name, nreads in (("frames", 1), ("vrs", 1), ("array", 2)):
        if name not in NAMES:
            continue
        source = CountingBytes(FILES[name].read_bytes())
        assert name_of(identify(source)[0]) == name
        assert len(source.reads) == nreads


def test_files_with_a_damaged_beginning() -> None:
    for name in ("frames", "array"):
        content = FILES[name].read_bytes()
        assert type_of(b"PK\3\4" + content[4:]) == name
        assert type_of(content[:3]) == "array"
    assert type_of(b"") is type_of(b"no kind at all") is type_of(b"PK\3\4" + bytes(99)) is None


@pytest.mark.skipif("bzna" not in NAMES, reason="datasets are not read")
def test_a_dataset_is_recognised_by_its_name(tmp_path: Path) -> None:
    for content, expected in ((b"junk" * 9, "bzna"), (b"", None), (b"\x93NUMPY", None)):
        (tmp_path / "x.bzna").write_bytes(content)
        assert type_of(tmp_path / "x.bzna") == expected
    assert type_of(FILES["bzna"].read_bytes()[:400]) == "bzna"


def test_a_folder_is_opened(tmp_path: Path) -> None:
    for name in ("data_0.gulp", "meta_0.gmeta"):
        (tmp_path / name).touch()
    folder = identify(tmp_path)[1]
    assert isinstance(folder, ListedFolder)


def test_the_tail_of_a_store_is_as_long_as_its_layout() -> None:
    assert STORE_TAIL_NBYTES == TAIL_SIZE
