"""Several files as one source, and the numbered neighbours that belong to a path."""

import gc
import io
import os
from itertools import pairwise
from pathlib import Path

import pytest

from bloscpack.storage.memory import MemorySource
from bloscpack.storage.pool import MAX_OPEN_FILES
from bloscpack.vrs.read.filesource import ChunkedSource, open_recording_source

from ..openfiles import open_files


def parts_of(source: ChunkedSource) -> list[str]:
    names = [os.path.basename(part.source.name or "") for part in source.parts]
    source.close()
    return names


def test_reads_across_parts() -> None:
    data = bytes(range(100))
    cuts = [0, 30, 30, 31, 90, 100]
    pieces = [data[a:b] for a, b in pairwise(cuts)]
    source = ChunkedSource([MemorySource(piece) for piece in pieces])
    assert source.size() == 100
    for start in range(0, 101, 3):
        for nbytes in (0, 1, 7, 50, 1 << 62):
            assert bytes(source.read_at(start, nbytes)) == data[start : start + nbytes]
    assert source.locate(30, 1) == (source.parts[2].source, 0)
    assert source.locate(33, 57) == (source.parts[3].source, 2)
    assert source.locate(31, 60) == (source, 31)
    source.keep(3)
    assert bytes(source.read_at(20, 100)) == data[20:31]
    source.close()
    source.close()
    with pytest.raises(ValueError, match="closed"):
        source.read_at(0, 1)


def test_one_part() -> None:
    source = ChunkedSource([MemorySource(b"abc")])
    assert bytes(source.read_at(1, 1 << 62)) == b"bc"
    assert bytes(source.read_at(7, 5)) == b""
    assert source.locate(1, 2) == (source.parts[0].source, 1)
    assert source.locate(1, 3) == (source, 1)
    source.close()
    with pytest.raises(ValueError, match="closed"):
        source.read_at(0, 1)


@pytest.mark.parametrize(
    ("name", "neighbours", "expected"),
    [
        ("x.vrs", ["x.vrs_1", "x.vrs_2", "x.vrs_4"], ["x.vrs", "x.vrs_1", "x.vrs_2"]),
        ("x_0", ["x_1", "x_2", "x_0_1"], ["x_0", "x_1", "x_2"]),
        ("x_1", ["x_2", "x_1_1"], ["x_1", "x_1_1"]),
        ("x.vrs", ["x.vrs_0", "x.vrs_2", "x_1"], ["x.vrs"]),
    ],
)
def test_neighbours(tmp_path: Path, name: str, neighbours: list[str], expected: list[str]) -> None:
    for each in (name, *neighbours):
        (tmp_path / each).write_bytes(b"some bytes")
    assert parts_of(open_recording_source(tmp_path / name)) == expected


def test_another_recording_is_not_a_neighbour(tmp_path: Path) -> None:
    for name, data in {"x": b"a", "x_1": b"VisionRexyz", "x_2": b"b"}.items():
        (tmp_path / name).write_bytes(data)
    assert parts_of(open_recording_source(str(tmp_path / "x"))) == ["x"]


def test_neighbours_are_those_of_a_links_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in ("real/x", "real/x_1", "link_1"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "link").symlink_to("real/x")
    source = open_recording_source(tmp_path / "link")
    assert bytes(source.read_at(0, 99)) == b"real/xreal/x_1"
    assert source.name == str(tmp_path / "link")
    source.close()


def test_a_list_has_all_files(tmp_path: Path) -> None:
    for name in ("b", "a", "a_1"):
        (tmp_path / name).write_bytes(name.encode())
    source = open_recording_source([tmp_path / "b", str(tmp_path / "a")])
    assert bytes(source.read_at(0, 99)) == b"ba"
    assert source.is_explicit
    source.close()
    with pytest.raises(ValueError, match="at least one path"):
        open_recording_source([])
    with pytest.raises(FileNotFoundError):
        open_recording_source([tmp_path / "b", tmp_path / "missing"])
    with pytest.raises(FileNotFoundError):
        open_recording_source(tmp_path / "missing")


def test_other_sources() -> None:
    for where in (b"abc", bytearray(b"abc"), io.BytesIO(b"abc")):
        assert bytes(open_recording_source(where).read_at(1, 9)) == b"bc"
    with pytest.raises(TypeError, match="expected a path"):
        open_recording_source(5)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_many_parts_share_few_open_files(tmp_path: Path) -> None:
    count = MAX_OPEN_FILES + 10
    for number in range(count):
        name = f"x_{number}" if number else "x"
        (tmp_path / name).write_bytes(bytes([number]))
    gc.disable()
    try:
        source = open_recording_source(tmp_path / "x")
        assert bytes(source.read_at(0, count)) == bytes(range(count))
        assert MAX_OPEN_FILES <= len(open_files(tmp_path)) <= MAX_OPEN_FILES + 1
        source.close()
        assert open_files(tmp_path) == []
    finally:
        gc.enable()
