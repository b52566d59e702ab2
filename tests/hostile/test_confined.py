"""The process that reads hostile files."""

import os
import signal
from pathlib import Path

import confined
import pytest

DATA = (Path(__file__).parents[1] / "conformance" / "array_f8.blp").read_bytes()


@pytest.mark.slow
def test_a_process_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    confinement = confined.Confinement()
    try:
        os.kill(confinement._process.pid, signal.SIGSTOP)
        monkeypatch.setattr(confined, "MAX_SILENT_SECONDS", 0.1)
        with pytest.raises(RuntimeError, match="ended: -9"):
            confinement.read({"": DATA}, tmp_path, ("load",))
        monkeypatch.undo()
        (outcome,) = confinement.read({"": DATA}, tmp_path, ("load",))
        assert outcome.what == "value"
    finally:
        confinement.close()
