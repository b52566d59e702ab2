"""``progress=``: True, a callable, an object with ``update``, and what is refused."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.parallel import progressbar

FULL = np.arange(1 << 20, dtype="f4").reshape(1024, 1024)


class Counting:
    """Bar in the style of tqdm."""

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.steps: list[int] = []

    def update(self, n: int = 1, /) -> None:
        assert n > 0
        self.steps.append(n)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    bp.save(tmp_path / "a.blp", FULL)
    return tmp_path / "a.blp"


@pytest.mark.parametrize("name", ["save", "verify", "recover", "convert", "ingest"])
def test_updates_add_up_to_the_total(name: str, path: Path, tmp_path: Path) -> None:
    bar = Counting()
    run: dict[str, Any] = {
        "save": lambda: bp.save(tmp_path / "b.blp", FULL, progress=bar),
        "verify": lambda: bp.verify(path, progress=bar),
        "recover": lambda: bp.recover(path, tmp_path / "b.blp", progress=bar),
        "convert": lambda: bp.convert(path, tmp_path / "b.npy", progress=bar),
        "ingest": lambda: bp.frames.ingest({"a": FULL}, tmp_path / "b.blp", progress=bar),
    }
    run[name]()
    assert sum(bar.steps) == bar.total
    assert bar.total


def test_a_callable_is_called_as_before(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    bp.save(tmp_path / "a.blp", FULL, progress=lambda *call: calls.append(call))
    assert calls[-1] == (FULL.nbytes, FULL.nbytes)
    bp.save(tmp_path / "a.blp", FULL, progress=False)
    bp.save(tmp_path / "a.blp", FULL, progress=None)


@pytest.mark.parametrize("progress", [1, "yes", {}, set(), Counting, object()])
def test_other_values_are_refused(progress: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="progress must be True, a function"):
        bp.save(tmp_path / "a.blp", FULL, progress=progress)
    assert list(tmp_path.iterdir()) == []


def test_true_draws_by_tqdm(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    bp.verify(path, progress=True)
    shown = capsys.readouterr().err
    assert "100%" in shown
    assert shown.endswith("\n")


def test_true_without_tqdm(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(progressbar, "_DELAY", 0.0)
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    bp.verify(path, progress=True)
    shown = terminal.getvalue()
    assert "%" in shown
    assert shown.endswith(" \r")


def test_a_bar_of_the_caller_stays_open(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    with tqdm(disable=False) as bar:
        bp.verify(path, progress=bar)
        assert bar.n == bar.total > 0
        bar.update(0)
    assert capsys.readouterr().err
