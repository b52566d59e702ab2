"""Files of unknown length: absent until the first flush, then as of the latest flush."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container import inplaceappend
from bloscpack.exceptions import LockedError, ObjectNumpyArrayRejection

ROWS = np.arange(60 * 20, dtype="u2").reshape(60, 4, 5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "w.blp"


@pytest.fixture(params=["held", "on disk"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "on disk":
        monkeypatch.setattr(inplaceappend, "_HELD_NBYTES", 100)
        monkeypatch.setattr(inplaceappend, "RESERVED_ENTRIES", 3)


def start(path: Path, **options: Any) -> bp.Writer:
    return bp.Writer(path, dtype="u2", shape=(None, 4, 5), **{"chunks": 7, **options})


@pytest.mark.usefixtures("_both_ways")
class TestResults:
    @pytest.mark.parametrize("step", [1, 5, 7, 60])
    @pytest.mark.parametrize("nthreads", [1, 3])
    def test_rows(self, path: Path, step: int, nthreads: int) -> None:
        with start(path, nthreads=nthreads) as w:
            for index in range(0, 60, step):
                w.append(ROWS[index] if step == 1 else ROWS[index : index + step])
            assert w.shape == ROWS.shape
            assert not path.exists()
            assert repr(w) == f"<bloscpack.Writer {str(path)!r} shape=(60, 4, 5) dtype=uint16>"
        assert np.array_equal(bp.load(path), ROWS)
        assert bp.verify(path).ok
        assert os.listdir(path.parent) == ["w.blp"]

    def test_flushes(self, path: Path) -> None:
        with start(path) as w:
            for index in range(60):
                w.append(ROWS[index])
                if index % 9 == 0:
                    w.flush()
                    assert np.array_equal(bp.load(path), ROWS[: index + 1])
        assert np.array_equal(bp.load(path), ROWS)
        assert os.listdir(path.parent) == ["w.blp"]

    def test_no_rows(self, path: Path) -> None:
        with start(path):
            pass
        assert bp.load(path).shape == (0, 4, 5)
        with bp.open(path, "a") as a:
            a.append(ROWS)
        assert np.array_equal(bp.load(path), ROWS)

    def test_attrs(self, path: Path) -> None:
        with start(path, attrs={"a": 1}) as w:
            w.append(ROWS)
            w.attrs["b"] = "x" * 1000
            w.flush()
            assert bp.open(path).attrs == {"a": 1, "b": "x" * 1000}
            w.attrs = {"c": 3}
        assert bp.open(path).attrs == {"c": 3}

    def test_error_before_a_flush(self, path: Path) -> None:
        with pytest.raises(KeyError), start(path) as w:  # noqa: PT012
            w.append(ROWS)
            raise KeyError
        assert os.listdir(path.parent) == []

    def test_error_after_a_flush(self, path: Path) -> None:
        with pytest.raises(KeyError), start(path) as w:  # noqa: PT012
            w.append(ROWS[:25])
            w.flush()
            w.append(ROWS[25:])
            raise KeyError
        assert np.array_equal(bp.load(path), ROWS[:25])
        assert os.listdir(path.parent) == ["w.blp"]

    def test_over_a_file(self, path: Path) -> None:
        bp.save(path, np.zeros(3), attrs={"old": 1})
        path.chmod(0o640)
        with pytest.raises(KeyError), start(path) as w:  # noqa: PT012
            w.append(ROWS)
            raise KeyError
        assert bp.load(path).tolist() == [0, 0, 0]
        with start(path) as w:
            w.append(ROWS)
            assert bp.load(path).tolist() == [0, 0, 0]
        assert np.array_equal(bp.load(path), ROWS)
        assert bp.open(path).attrs == {}
        assert path.stat().st_mode & 0o777 == 0o640

    def test_attrs_that_cannot_be_stored(self, path: Path) -> None:
        w = start(path)
        w.append(ROWS[:5])
        w.flush()
        w.append(ROWS[5:])
        w.attrs["bad"] = object()
        with pytest.raises(TypeError):
            w.close()
        assert np.array_equal(bp.load(path), ROWS[:5])
        w.close()

    def test_a_link(self, path: Path, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(path)
        with start(link) as w:
            w.append(ROWS)
            w.flush()
            w.append(ROWS)
        assert link.is_symlink()
        assert len(bp.load(path)) == 120


def test_the_bytes_of_save(path: Path, tmp_path: Path) -> None:
    with start(path, attrs={"a": 1}) as w:
        for row in ROWS:
            w.append(row)
    bp.save(tmp_path / "s.blp", ROWS, chunks=7, attrs={"a": 1})
    saved = (tmp_path / "s.blp").read_bytes()
    assert path.read_bytes()[: len(saved)] == saved


@pytest.mark.parametrize("nthreads", [1, 3])
def test_large_files_have_the_small_blocks_of_save(path: Path, nthreads: int) -> None:
    rows = np.random.default_rng(5).integers(0, 50, (6, 1 << 18)).astype("f4")
    with bp.Writer(path, dtype="f4", shape=(None, 1 << 18), nthreads=nthreads) as w:
        for row in rows:
            w.append(row)
    assert np.array_equal(bp.load(path), rows)
    sizes = []
    for _ in range(2):
        with bp.open(path) as a:
            sizes.append({a.container.fetch(n).header.blocksize for n in range(a.nchunks)})
        bp.save(path, rows)
    assert sizes[0] == sizes[1]
    assert max(sizes[0]) < 1 << 17  # the block size that C-Blosc chooses


def test_more_small_chunks_than_one_call_writes(path: Path) -> None:
    rows = np.arange(1500, dtype="u2")
    with bp.Writer(path, dtype="u2", chunks=1, nthreads=1) as w:
        w.append(rows)
        w.flush()
        w.append(rows)
    assert np.array_equal(bp.load(path), np.concatenate([rows, rows]))
    assert bp.verify(path).ok


class TestRefused:
    @pytest.mark.parametrize("shape", [(), (3, 4), (None, -1), (None, None), (None, 2.0)])
    def test_shapes(self, path: Path, shape: Any) -> None:
        with pytest.raises(ValueError, match="shape"):
            bp.Writer(path, dtype="u1", shape=shape)

    def test_parameters(self, path: Path) -> None:
        for options in ({"codec": "nope"}, {"checksum": "nope"}, {"clevel": 11}, {"chunks": 0}):
            with pytest.raises(ValueError):
                start(path, **options)
        with pytest.raises(ObjectNumpyArrayRejection):
            bp.Writer(path, dtype=object)
        with pytest.raises(ValueError, match="zero bytes"):
            bp.Writer(path, dtype="u1", shape=(None, 0))
        with pytest.raises(TypeError):
            bp.Writer(3, dtype="u1")  # type: ignore[arg-type]
        assert os.listdir(path.parent) == []

    def test_locks(self, path: Path) -> None:
        bp.save(path, np.zeros(3))
        with start(path) as w:
            w.append(ROWS)
            for refused in (lambda: start(path), lambda: bp.open(path, "a")):
                with pytest.raises(LockedError):
                    refused()
            w.flush()
            with pytest.raises(LockedError):
                bp.save(path, np.zeros(3))
            with pytest.raises(LockedError):
                start(path)
        start(path).abort()

    def test_two_for_one_new_file(self, path: Path) -> None:
        one, two = start(path), start(path)
        one.append(ROWS)
        one.flush()
        two.append(ROWS[:3])
        with pytest.raises(LockedError):
            two.flush()
        with pytest.raises(ValueError, match="failed before"):
            two.append(ROWS)
        two.close()
        one.close()
        assert np.array_equal(bp.load(path), ROWS)
        assert os.listdir(path.parent) == ["w.blp"]

    def test_closed(self, path: Path) -> None:
        w = start(path)
        w.close()
        w.close()
        for call in (lambda: w.append(ROWS), w.flush):
            with pytest.raises(ValueError, match="closed"):
                call()
        assert "(closed)" in repr(w)
