"""A warning is one line on standard error, in the style of every other message."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main


def test_a_warning_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bp.frames.create(tmp_path / "a.blp", attrs={"source": "x"}) as store:
        store.append("a", np.zeros((2, 8, 8, 3), "u1"))
    before = warnings.showwarning
    assert main(["-q", "convert", str(tmp_path / "a.blp"), str(tmp_path / "gulp")]) == 0
    assert warnings.showwarning is before
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"blpk: warning: {tmp_path / 'a.blp'}: a Gulp directory has no place for attributes: source"
    ]
