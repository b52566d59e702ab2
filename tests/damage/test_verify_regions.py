"""Damaged regions that verification names, and repairs."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.damage import repair
from bloscpack.exceptions import FileChangedError

from .. import arrayfiles
from ..container.files import CONTENT, make
from ..reference.file import take_apart

ARRAY = np.arange(240, dtype="<i4").reshape(40, 6)


def saved(**options: Any) -> bytes:
    return arrayfiles.saved(ARRAY, **{"chunks": 7, **options})


DATA = saved()
PARTS = take_apart(DATA)
TABLE = 32 + len(PARTS.section)
END = len(DATA) - len(PARTS.trailing)


def flipped(*positions: int, data: bytes = DATA) -> bytes:
    return arrayfiles.flipped(data, *positions)


def regions(data: bytes) -> list[tuple[int | None, int | None, int | None, Any]]:
    return [(one.index, one.offset, one.end, one.rows) for one in bp.verify(data).damage]


def test_each_region_has_its_bytes() -> None:
    starts = PARTS.starts
    assert regions(flipped(16)) == [(None, 0, 32, None)]
    assert regions(flipped(32 + 34)) == [(None, 32, TABLE, None)]
    assert regions(flipped(TABLE + 9)) == [(None, TABLE, starts[0], None)]
    assert regions(flipped(starts[2] + 20)) == [(2, starts[2], starts[3], (14, 21))]
    assert regions(flipped(starts[5] + 20)) == [(5, starts[5], END, (35, 40))]
    assert regions(flipped(END + 3)) == [(None, END, END + 48, None)]
    assert regions(flipped(len(DATA) - 1)) == [(None, END, len(DATA), None)]


def test_a_damaged_front_does_not_hide_a_damaged_chunk() -> None:
    report = bp.verify(flipped(0, 33, PARTS.starts[3] + 18))
    assert [one.index for one in report.damage] == [None, None, 3]
    assert [(one.offset, one.end) for one in report.damage[:2]] == [(0, 32), (32, TABLE)]
    assert (report.nchunks, report.nbytes, report.trailer) == (6, ARRAY.nbytes, "valid")


def test_a_weak_checksum_that_matches_is_not_enough() -> None:
    """The digest in the file matches the damaged chunk; the one in the trailer does not."""
    data = bytearray(saved(codec="lz4", clevel=0, checksum="adler32"))
    parts = take_apart(bytes(data))
    start, chunk = parts.starts[1], bytearray(parts.chunks[1])
    # adler32 sums the bytes and the partial sums: +1 -2 +1 at equal distances changes neither.
    zeros = 16 + 4 * 3
    values = [chunk[zeros + step] for step in (0, 4, 8)]
    for step, change in ((0, 1), (4, -2), (8, 1)):
        chunk[zeros + step] += change
    assert [chunk[zeros + step] for step in (0, 4, 8)] != values
    data[start : start + len(chunk)] = chunk
    with bp.open(bytes(data)) as array:
        array.read_chunk(1)  # adler32 does not detect the change
    report = bp.verify(bytes(data))
    assert [one.index for one in report.damage] == [1]
    assert "recorded in the trailer" in report.damage[0].what


def test_report_reads_well() -> None:
    report = bp.verify(flipped(PARTS.starts[2] + 20))
    assert repr(report) == (
        "<bloscpack.Report 'memory': 1 fault, 6 chunks, 960 bytes, trailer valid>"
    )
    first, second = str(report).splitlines()
    assert first == repr(report)[1:-1]
    assert second.endswith("(lost: decoded bytes 336 to 504, rows 14 to 21)")
    assert repr(bp.verify(DATA)) == (
        "<bloscpack.Report 'memory': ok, 6 chunks, 960 bytes, trailer valid>"
    )


def test_trailing_bytes_are_reported() -> None:
    report = bp.verify(make(trailing=b"rest"))
    assert (report.ok, report.trailer) == (True, "absent")
    assert "4 bytes follow" in report.notices[0]


class TestFix:
    def fixed(self, path: Path, data: bytes) -> bp.Report:
        path.write_bytes(data)
        return bp.verify(path, fix=True)

    @pytest.mark.parametrize("position", [END + 1, END + 50, len(DATA) - 60, len(DATA) - 1])
    def test_a_damaged_trailer(self, tmp_path: Path, position: int) -> None:
        report = self.fixed(tmp_path / "a.blp", flipped(position))
        assert (report.ok, report.trailer) == (True, "valid")
        assert "damaged" in report.notices[-1]
        assert (tmp_path / "a.blp").read_bytes() == DATA

    @pytest.mark.parametrize("size", [END, END + 1, len(DATA) - 1])
    def test_a_cut_trailer(self, tmp_path: Path, size: int) -> None:
        assert self.fixed(tmp_path / "a.blp", DATA[:size]).ok
        assert (tmp_path / "a.blp").read_bytes() == DATA

    @pytest.mark.parametrize("trailer", [True, False])
    def test_a_lost_table(self, tmp_path: Path, trailer: bool) -> None:
        lost = DATA[:TABLE] + b"\xff" * (PARTS.starts[0] - TABLE) + DATA[PARTS.starts[0] :]
        path = tmp_path / "a.blp"
        report = self.fixed(path, lost if trailer else lost[:END])
        assert report.ok
        assert "offset table" in report.notices[0]
        assert path.read_bytes() == DATA
        assert [one.name for one in tmp_path.iterdir()] == ["a.blp"]

    def test_one_wrong_entry(self, tmp_path: Path) -> None:
        starts = take_apart(make()).starts
        report = self.fixed(tmp_path / "a.blp", make(offsets=[*starts[:4], starts[4] + 1]))
        assert report.ok
        assert bp.verify(tmp_path / "a.blp").ok

    @pytest.mark.parametrize("rest", [b"", b"left by an append", bytes(5000)])
    def test_a_file_of_the_original_gets_a_trailer(self, tmp_path: Path, rest: bytes) -> None:
        data = make(trailing=rest)
        report = self.fixed(tmp_path / "a.blp", data)
        assert (report.ok, report.trailer) == (True, "valid")
        assert bp.verify(tmp_path / "a.blp").trailer == "valid"
        new = (tmp_path / "a.blp").read_bytes()
        assert new.startswith(make())
        assert bp.unpack_bytes_from_bytes(new)[0] == CONTENT

    def test_a_sound_file_is_not_touched(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        path.write_bytes(DATA)
        path.chmod(0o444)
        before = path.stat()
        assert bp.verify(path, fix=True).notices == []
        assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)

    @pytest.mark.parametrize("position", [16, 66, PARTS.starts[1] + 20])
    def test_damaged_data_are_not_touched(self, tmp_path: Path, position: int) -> None:
        path = tmp_path / "a.blp"
        data = flipped(position, len(DATA) - 1) if position > 100 else flipped(position)
        report = self.fixed(path, data)
        assert not report.ok
        assert "recover" in report.notices[-1]
        assert path.read_bytes() == data

    def test_old_versions_are_not_touched(self, tmp_path: Path) -> None:
        data = make(version=2)
        report = self.fixed(tmp_path / "a.blp", data)
        assert "version 2" in report.notices[0]
        assert (tmp_path / "a.blp").read_bytes() == data

    @pytest.mark.parametrize("where", [DATA, io.BytesIO(DATA), "/dev/null"])
    def test_only_paths(self, where: Any) -> None:
        with pytest.raises(ValueError, match="path of a file"):
            bp.verify(where, fix=True)

    def test_a_file_that_changes_during_the_check(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.blp"
        path.write_bytes(DATA[:END])

        def touch(*_: int) -> None:
            os.utime(path, ns=(1, 1))

        with pytest.raises(FileChangedError, match="nothing was fixed"):
            bp.verify(path, fix=True, progress=touch)
        assert path.read_bytes() == DATA[:END]

    def test_a_crash_while_the_table_is_written_leaves_the_old_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.blp"
        lost = DATA[:TABLE] + b"\xff" * (PARTS.starts[0] - TABLE) + DATA[PARTS.starts[0] :]
        path.write_bytes(lost)

        def fail(*_: object) -> bytes:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(repair, "pack_offsets", fail)
        with pytest.raises(OSError, match="No space"):
            bp.verify(path, fix=True)
        assert path.read_bytes() == lost
        assert [one.name for one in tmp_path.iterdir()] == ["a.blp"]
