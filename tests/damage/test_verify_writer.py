"""Verification beside a writer: sound data are not reported, and only one of them writes."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.append import append
from bloscpack.damage import recover
from bloscpack.exceptions import FileChangedError, LockedError

from ..container.files import CONTENT, make
from ..faults.disk import Crash, StoppingDisk, installed, without_syncs

CHUNK = 100


def ramp(start: int, stop: int) -> Any:
    return (np.arange(start, stop, dtype="i4") * 2654435).view("i4")


def in_file(path: Path, kind: str, nitems: int, checksum: str | None) -> None:
    if kind in ("saved", "array chunks"):
        codec = "auto" if kind == "array chunks" else "zstd"
        bp.save(path, ramp(0, nitems), chunks=CHUNK, checksum=checksum, codec=codec)
    else:
        args = bp.BloscpackArgs(max_app_chunks=18, checksum=checksum or "None")
        bp.pack_ndarray_to_file(ramp(0, nitems), path, 4 * CHUNK, bloscpack_args=args)


def after(ncalls: int, act: Callable[[], object]) -> Callable[[int, int], None]:
    """Return a progress callback that calls `act` once, after `ncalls` chunks."""
    calls = 0

    def progress(done: int, total: int) -> None:
        nonlocal calls
        assert 0 <= done <= total
        calls += 1
        if calls == ncalls:
            act()

    return progress


@pytest.mark.sampled(11)
@pytest.mark.parametrize("kind", ["saved", "packed", "array chunks"])
@pytest.mark.parametrize("checksum", ["crc32", None])
@pytest.mark.parametrize("nitems", [30, 250, 300])
@pytest.mark.parametrize("more", [5, 1500])
@pytest.mark.parametrize("how", ["flush", "no flush", "attrs", "0.16"])
def test_a_writer_between_two_chunks(
    tmp_path: Path, kind: str, checksum: str | None, nitems: int, more: int, how: str
) -> None:
    path, new = tmp_path / "a.blp", tmp_path / "new"
    new.write_bytes(ramp(0, min(more, 500)).tobytes())
    for ncalls in range(1, -(-nitems // CHUNK) + 1):
        in_file(path, kind, nitems, checksum)
        writers: list[bp.Array] = []

        def write(writers: list[bp.Array] = writers) -> None:
            if how == "0.16":
                append(path, new)
                return
            a = bp.open(path, "a", nthreads=1)
            writers.append(a)
            a.append(ramp(nitems, nitems + more))
            if how == "attrs":
                a.update_attrs({"text": "long" * more})
            if how != "no flush":
                a.flush()

        with without_syncs():
            report = bp.verify(path, nthreads=1, progress=after(ncalls, write))
            for a in writers:
                a.close()
        assert report.damage == []
        assert report.nbytes >= 4 * nitems
        if how != "0.16":
            assert report.notices == []


def test_a_writer_after_each_chunk(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, ramp(0, 250), chunks=CHUNK)
    with without_syncs(), bp.open(path, "a", nthreads=1) as a:

        def write(done: int, total: int) -> None:
            if len(a) < 3000:
                a.append(ramp(len(a), len(a) + 70))
                a.flush()

        report = bp.verify(path, nthreads=1, progress=write)
    assert report.damage == report.notices == []
    assert report.trailer == "valid"


def test_damage_beside_a_writer_is_found_and_sound_chunks_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, ramp(0, 1050), chunks=CHUNK)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    [expected] = bp.verify(path).damage
    calls = 0

    def write(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            with bp.open(path, "a", nthreads=1) as a:
                a.append(ramp(1050, 1060))

    report = bp.verify(path, nthreads=1, progress=write)
    assert report.damage == [expected]
    assert report.nbytes == 4 * 1060
    assert calls == 11 + 2  # the damaged one and the last one again


class TestFix:
    def test_a_writer_keeps_it_out(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        in_file(path, "packed", 250, "crc32")
        before = path.read_bytes()
        with bp.open(path, "a"), pytest.raises(LockedError, match=r"a\.blp"):
            bp.verify(path, fix=True)
        assert path.read_bytes() == before

    def test_it_keeps_writers_out(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        in_file(path, "packed", 250, "crc32")
        refused = []

        def write(*_: int) -> None:
            with pytest.raises(LockedError):
                bp.open(path, "a")
            with pytest.raises(LockedError):
                bp.save(path, ramp(0, 10))
            refused.append(1)

        assert bp.verify(path, nthreads=1, progress=write, fix=True).trailer == "valid"
        assert len(refused) == 3
        with bp.open(path, "a") as a:
            a.append(ramp(250, 260))
        assert bp.verify(path).ok

    def test_a_reader_keeps_reading(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        in_file(path, "packed", 250, "crc32")
        path.write_bytes(path.read_bytes() + bytes(2000))
        with bp.open(path) as a:

            def look() -> None:
                assert np.array_equal(a[:], ramp(0, 250))
                assert np.array_equal(bp.load(path), ramp(0, 250))

            with installed(StoppingDisk(before=look)):
                bp.verify(path, fix=True)
            look()

    @pytest.mark.parametrize("kind", ["error", "crash", "torn"])
    def test_without_an_offset_table(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "a.blp"
        old = make(offsets=None, trailing=bytes(700))
        path.write_bytes(old)
        bp.verify(path, fix=True)
        new = path.read_bytes()
        for step in range(100):
            path.write_bytes(old)
            stopping = StoppingDisk(step, kind)
            with installed(stopping), suppress(OSError, Crash):
                bp.verify(path, fix=True)
            assert bp.unpack_bytes_from_file(path)[0] == CONTENT
            bp.open(path).close()
            assert path.read_bytes() in (old, new)
            assert not [one for one in tmp_path.iterdir() if one.suffix == ".tmp"]
            if step >= stopping.count:
                break
        assert path.read_bytes() == new
        assert step > 5

    def test_an_error_is_undone_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        old = make(trailing=bytes(2000))
        path.write_bytes(old)
        counting = StoppingDisk()
        with installed(counting):
            bp.verify(path, fix=True)
        path.write_bytes(old)
        with (
            installed(StoppingDisk(counting.names.index("truncate"))),
            pytest.raises(OSError, match="space"),
        ):
            bp.verify(path, fix=True)
        assert path.read_bytes() == old
        assert [one.name for one in tmp_path.iterdir()] == ["a.blp"]

    def test_a_file_that_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            bp.verify(tmp_path / "a.blp", fix=True)


def test_recover_refuses_a_source_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.blp"
    in_file(path, "saved", 250, "crc32")
    find_front = recover.find_front

    def changed(source: Any) -> Any:
        front = find_front(source)
        with bp.open(path, "a") as a:
            a.append(ramp(250, 520))
        return front

    monkeypatch.setattr(recover, "find_front", changed)
    with pytest.raises(FileChangedError, match="nothing was written"):
        bp.recover(path, tmp_path / "new.blp")
    assert [one.name for one in tmp_path.iterdir()] == ["a.blp"]
