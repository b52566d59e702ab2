"""A warning is one line on standard error, in the style of every other message."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main


def test_a_warning_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.blp"
    with bp.frames.create(path) as store:
        store.append("walk", np.zeros((2, 8, 8, 3), "u1"))
    path.write_bytes(path.read_bytes() + b"xyz")
    before = warnings.showwarning
    assert main(["-q", "frames", "ls", str(path)]) == 0
    assert warnings.showwarning is before
    assert capsys.readouterr().err == (
        f"blpk: warning: {path}: the last 3 bytes are not a whole clip and are ignored "
        "(an append that was not finished)\n"
    )
