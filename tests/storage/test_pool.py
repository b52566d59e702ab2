"""Pool of files: the number of open files, and their choice."""

import os
from pathlib import Path

import pytest

from bloscpack.exceptions import FileChangedError
from bloscpack.storage.pool import FilePool

from ..openfiles import open_files


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    found = [tmp_path / str(number) for number in range(5)]
    for number, path in enumerate(found):
        path.write_bytes(b"%d" % number * 10)
    return found


def test_as_many_as_the_limit(paths: list[Path]) -> None:
    pool = FilePool(2)
    sources = [pool.open(path) for path in paths]
    for number in (0, 4, 2, 2, 1, 3, 0):
        assert sources[number].read_at(3, 4) == b"%d" % number * 4
        assert sources[number].size() == 10
        assert pool.nopen == 2
    buffer = bytearray(3)
    assert sources[4].read_into(1, memoryview(buffer)) == 3
    assert buffer == b"444"


def test_maps_do_not_keep_files_open(paths: list[Path]) -> None:
    pool = FilePool(1)
    sources = [pool.open(path) for path in paths]
    for number, source in enumerate(sources):
        view = source.map_at(2, 3)
        assert view == b"%d" % number * 3
        del view
    assert len(open_files(paths[0].parent)) <= 2  # one open file, and its map
    kept = sources[0].map_at(2, 3)
    sources[1].read_at(0, 1)
    assert kept == b"000"  # a view outlives the release of its file


def test_closed_for_good(paths: list[Path]) -> None:
    pool = FilePool(1)
    one, two = pool.open(paths[0]), pool.open(paths[1])
    one.close()  # which is not open at the moment
    two.close()
    two.close()
    assert pool.nopen == 0
    for source in (one, two):
        for read in (source.size, lambda source=source: source.read_at(0, 1)):
            with pytest.raises(ValueError, match="closed"):
                read()
    assert pool.nopen == 0


def test_another_file_of_the_same_name(paths: list[Path]) -> None:
    pool = FilePool(1)
    one = pool.open(paths[0])
    pool.open(paths[1])
    os.replace(paths[2], paths[0])
    with pytest.raises(FileChangedError, match="replaced") as error:
        one.read_at(0, 1)
    assert str(paths[0]) in str(error.value)
    paths[0].unlink()
    with pytest.raises(FileNotFoundError):
        one.size()


def test_more_of_the_same_file(paths: list[Path]) -> None:
    pool = FilePool(1)
    one = pool.open(paths[0])
    pool.open(paths[1])
    with paths[0].open("ab") as file:
        file.write(b"more")
    assert one.size() == 14


def test_a_missing_file(tmp_path: Path) -> None:
    pool = FilePool()
    with pytest.raises(FileNotFoundError):
        pool.open(tmp_path / "missing")
    assert pool.nopen == 0
