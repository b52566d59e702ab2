"""Records found by their headers: records that are lost to damage, and those that are not."""

from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from bloscpack import vrs
from bloscpack.storage.descriptor import data_runs
from bloscpack.storage.file import FileSource
from bloscpack.storage.memory import MemorySource
from bloscpack.vrs.read.scan import Gap, Scan, scan_records

from ..counting import CountingBytes
from .recordingfiles import Built, Rec, build, header, numbered


def scan(data: Any, **options: Any) -> Scan:
    return scan_records(MemorySource(bytes(data)), 80, **options)


def lost(built: Built, data: Any, **options: Any) -> set[int]:
    """Return the records that a scan of damaged data does not find; it must not invent any."""
    found = scan(data, **options).offsets.tolist()
    assert found == sorted(set(found) & set(built.offsets))
    return {k for k, offset in enumerate(built.offsets) if offset not in found}


@pytest.mark.parametrize("index", ["none", "end", "front", "split"])
def test_whole_files(index: str) -> None:
    built = build(numbered(7), index, zstd=True)
    found = scan(built.data)
    assert found.offsets.tolist() == built.offsets
    assert found.headers["timestamp"].tolist() == [rec.timestamp for rec in built.records]
    assert found.gaps == []
    assert [header.stream_id[0] for _, header in found.internal] == {
        "none": [2],
        "end": [2, 1],
        "front": [2, 1],
        "split": [2, 1],
    }[index]
    assert found.end == len(built.data)


def damages(built: Built) -> Iterator[tuple[int, int, bytearray]]:
    for k, offset in enumerate(built.offsets):
        for at in range(32):
            for value in (0, 1, 0x20, 0x7F, 0xFF):
                data = bytearray(built.data)
                if data[offset + at] != value:
                    data[offset + at] = value
                    yield k, at, data


def test_a_damaged_header_costs_no_other_record() -> None:
    built = build(numbered(6, 60), "none")
    count = 0
    for k, at, data in damages(built):
        gone = lost(built, data)
        assert gone <= {k}, (k, at, data[built.offsets[k] + at])
        # Fields that no check covers, or only neighbours: size before it, time, instance.
        if 5 <= at < 8 or 12 <= at < 26:
            assert not gone
        count += len(gone)
    assert count > 150


def test_a_damaged_payload_costs_nothing_here() -> None:
    built = build(numbered(4, 600), "none")
    data = built.data
    data[built.offsets[1] + 32 : built.ends[1]] = bytes(built.ends[1] - built.offsets[1] - 32)
    assert lost(built, data) == set()


def test_many_lost_records_are_one_gap() -> None:
    built = build(numbered(40, 300), "none")
    start, stop = built.offsets[5] + 10, built.offsets[25] + 20
    built.data[start:stop] = bytes(stop - start)
    assert lost(built, built.data) == set(range(5, 26))
    (gap,) = scan(built.data).gaps
    assert (gap.offset, gap.nbytes) == (built.offsets[5], built.offsets[26] - built.offsets[5])


def test_two_damaged_places() -> None:
    built = build(numbered(30), "none")
    for k in (0, 11, 29):
        built.data[built.offsets[k] + 26] = 77
    assert lost(built, built.data) == {0, 11, 29}
    assert [gap.offset for gap in scan(built.data).gaps] == [built.offsets[k] for k in (0, 11, 29)]


def test_damaged_records_on_both_sides_of_a_good_one() -> None:
    built = build(numbered(9), "none")
    for k in (2, 4, 6):
        built.data[built.offsets[k] + 26] = 77
    assert lost(built, built.data) == {2, 4, 6}


def test_bytes_that_could_be_a_header_but_lead_nowhere() -> None:
    built = build([*numbered(3), Rec(3.0, bytes(500)), *numbered(3)], "none")
    built.data[built.offsets[3] : built.offsets[3] + 32] = bytes(32)
    for at in (70, 200, 333):
        place = built.offsets[3] + at
        built.data[place : place + 32] = header(64, 40, (241, 1), (1, 3.5, 3), 0, 0)
    assert lost(built, built.data) == {3}


def test_a_hole_that_ends_beyond_what_is_read_at_once() -> None:
    records = [*numbered(3), Rec(3.0, bytes(3 << 20)), *numbered(3)]
    built = build(records, "none")
    built.data[built.offsets[3]] ^= 1
    assert lost(built, built.data) == {3}


def has_holes(folder: Path) -> bool:
    """Return whether the file system keeps holes and reports them."""
    with (folder / "sparse").open("w+b") as file:
        file.truncate(1 << 20)
        return data_runs(file.fileno(), 10) == []


@pytest.mark.parametrize("has_records_behind", [False, True])
def test_a_hole_of_a_gigabyte_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_records_behind: bool
) -> None:
    """A file system that enlarges a file before it writes the data leaves this after a crash."""
    if not has_holes(tmp_path):
        pytest.skip("the file system does not report holes")
    built = build(numbered(3), "none")
    behind = build(numbered(3), "none")
    path = tmp_path / "a.vrs"
    with path.open("wb") as file:
        file.write(built.data)
        file.truncate(1 << 30)
        if has_records_behind:
            file.seek(1 << 30)
            file.write(behind.data[behind.offsets[0] :])
    nbytes = 0
    read_at = FileSource.read_at

    def count(source: FileSource, offset: int, wanted: int) -> bytes:
        nonlocal nbytes
        data = read_at(source, offset, wanted)
        nbytes += len(data)
        return data

    monkeypatch.setattr(FileSource, "read_at", count)
    with vrs.open(path) as recording:
        assert len(recording) == 3 + 3 * has_records_behind
        (gap,) = recording.report.gaps
    assert (gap.offset, gap.offset + gap.nbytes) == (len(built.data), 1 << 30)
    assert nbytes < 1 << 16


def test_junk_and_cuts_at_the_end() -> None:
    built = build(numbered(3), "none")
    size = len(built.data)
    found = scan(built.data + b"x" * 70)
    assert found.offsets.tolist() == built.offsets
    assert [gap[:2] for gap in found.gaps] == [(size, 70)]
    found = scan(built.data[:-1])
    assert found.offsets.tolist() == built.offsets[:-1]
    assert [gap[:2] for gap in found.gaps] == [(built.offsets[2], size - 1 - built.offsets[2])]
    assert scan(built.data[: built.offsets[2] + 5]).gaps == [
        Gap(built.offsets[2], 5, "5 bytes are less than a record header")
    ]


def test_without_resync_as_the_reference() -> None:
    built = build(numbered(9, 60), "none")
    damaged = bytearray(built.data)
    damaged[built.offsets[4] + 4] ^= 1  # the size before it: also drops the last good record
    assert lost(built, damaged) == set()
    assert lost(built, damaged, resync=False) == set(range(3, 9))
    damaged = bytearray(built.data)
    damaged[built.offsets[4] + 27] = 3
    assert lost(built, damaged, resync=False) == set(range(4, 9))
    damaged = bytearray(built.data)
    damaged[built.offsets[4] + 26] = 0
    assert lost(built, damaged, resync=False) == set(range(3, 9))
    assert lost(built, built.data[:-1], resync=False) == {8}
    (gap,) = scan(damaged, resync=False).gaps
    assert gap[:2] == (built.offsets[3], len(built.data) - built.offsets[3])


def test_a_recording_in_a_payload_is_not_scanned_as_records() -> None:
    inner = build(numbered(5), "end").data
    records = [*numbered(3), Rec(3.0, bytes(inner)), *numbered(4)]
    built = build(records, "none")
    assert lost(built, built.data) == set()
    # The header behind the payload is damaged: the payload is scanned, but its records not taken.
    built.data[built.offsets[4] + 26] = 99
    assert lost(built, built.data) == {4}


def test_small_records_are_read_in_runs_and_of_large_ones_little() -> None:
    small = CountingBytes(bytes(build(numbered(20_000), "none").data))
    assert len(scan_records(small, 80).offsets) == 20_000
    assert len(small.reads) < 10
    large = CountingBytes(bytes(build([Rec(0.0, bytes(1 << 20))] * 8, "none").data))
    assert len(scan_records(large, 80).offsets) == 8
    assert sum(nbytes for _, nbytes in large.reads) < 8 * (1 << 13)


@pytest.mark.parametrize("pattern", [b"\x01", pack("<II", 0x10100, 0x20100)])
def test_a_file_that_looks_like_headers_everywhere_is_given_up(pattern: bytes) -> None:
    built = build(numbered(2), "none")
    data = bytes(built.data) + b"abcde" + pattern * ((3 << 20) // len(pattern))
    source = CountingBytes(data)
    found = scan_records(source, 80)
    assert found.offsets.tolist() == built.offsets
    assert len(source.reads) < 210_000
    assert sum(gap.nbytes for gap in found.gaps) == len(data) - len(built.data)


def test_nothing_there() -> None:
    for data in (b"", bytes(80), bytes(100), bytes(5000)):
        found = scan(data)
        assert len(found.offsets) == 0
        assert sum(gap.nbytes for gap in found.gaps) == max(0, len(data) - 80)
