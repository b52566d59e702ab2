"""Fixtures: ``blpk``, run in the process of the tests, and small files for it."""

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit code and output of a command."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def json(self) -> Any:
        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        return json.loads(self.raw.decode("ascii"), parse_constant=refuse)


Blpk = Callable[..., Ended]


@pytest.fixture
def blpk(
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Blpk:
    """Run ``blpk`` in a temporary folder; ``stdin=`` is its standard input."""
    monkeypatch.chdir(tmp_path)

    def run(*argv: str | Path, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        code = main([os.fspath(arg) for arg in argv])
        assert type(code) is int
        captured = capsysbinary.readouterr()
        err = captured.err.decode()
        assert "Traceback" not in err
        stray = [line for line in err.splitlines() if not line.startswith("blpk: ")]
        assert not stray, "not a message of the command"
        return Ended(code, captured.out, err)

    return run


@pytest.fixture
def content() -> bytes:
    return bytes(i * i // 7 % 251 for i in range(10_000))


@pytest.fixture
def plain(content: bytes, tmp_path: Path) -> Path:
    """File of 10,000 bytes."""
    path = tmp_path / "plain.bin"
    path.write_bytes(content)
    return path


@pytest.fixture
def packed(content: bytes, tmp_path: Path) -> Path:
    """Bloscpack file of these bytes in ten chunks, with metadata."""
    path = tmp_path / "packed.blp"
    bp.pack_bytes_to_file(content, path, chunk_size=1000, metadata={"unit": "m"})
    return path


@pytest.fixture
def ramp(tmp_path: Path) -> Path:
    """Array of 30 by 4 float64 in chunks of 7 rows."""
    path = tmp_path / "ramp.blp"
    bp.save(path, np.arange(120.0).reshape(30, 4), chunks=7)
    return path


def flip(path: Path, offset: int) -> None:
    """Damage a byte; negative offsets count from the end."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)
