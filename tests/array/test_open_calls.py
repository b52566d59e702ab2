"""System calls of opening an array; tests/frozen counts the Python functions."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

RANDOM = np.random.default_rng(0).integers(0, 256, 1 << 20, "u1")


def _calls(path: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return how often opening a file calls the system."""
    bp.open(path).close()  # metadata seen before need no decoding
    calls: Counter[str] = Counter()

    def counting(name: str) -> None:
        inner = getattr(os, name)

        def counted(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return inner(*args, **options)

        monkeypatch.setattr(os, name, counted)

    for name in ("open", "pread", "fstat", "lstat", "stat"):
        counting(name)
    bp.open(path).close()
    monkeypatch.undo()
    return calls


@pytest.mark.parametrize("nbytes", [100, 1 << 16, 1 << 20])
def test_opening_a_file_again_and_again(
    nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.blp")
    bp.save(path, RANDOM[:nbytes], chunks=nbytes // 8)
    # The file, and its journal before and after. Reads: its front, its trailer (which the front of
    # a small file contains) and its header once more.
    expected = {"open": 3, "pread": 2 if nbytes == 100 else 3, "fstat": 2, "lstat": 1}
    assert _calls(path, monkeypatch) == expected


@pytest.mark.parametrize("nbytes", [100, 1 << 20])
def test_opening_a_changed_file(
    nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.blp")
    bp.save(path, RANDOM[:nbytes], chunks=nbytes // 8, changeable=True)
    with bp.open(path, "r+") as a:
        a[5] = 1
    # The file and its journal. Reads: its header, its commits, these again once the space of the
    # last one is held, and the group of its array.
    assert _calls(path, monkeypatch) == {"open": 2, "pread": 4, "fstat": 2, "lstat": 1}


@pytest.mark.parametrize(("name", "value"), [("dtype", "u1"), ("shape", (6,))])
def test_dtype_and_shape_cannot_be_set(name: str, value: object, tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.zeros((2, 3), "i8"))
    for array in (bp.open(tmp_path / "a.blp"), bp.open_many([tmp_path / "a.blp"])):
        with array, pytest.raises(AttributeError, match=r"file would not change: use a\[\.\.\.\]"):
            setattr(array, name, value)
        assert (array.shape, array.dtype) == ((2, 3), np.dtype("i8"))
