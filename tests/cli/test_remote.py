"""Commands that read take URLs for paths."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..servers import FileServer, running
from .conftest import Blpk


@pytest.fixture
def server(ramp: Path) -> Iterator[FileServer]:
    with running(FileServer()) as server:
        server.files["/ramp.blp"] = ramp.read_bytes()
        yield server


@pytest.mark.parametrize("command", ["info", "ls", "verify", "cat"])
def test_reading(blpk: Blpk, server: FileServer, ramp: Path, command: str) -> None:
    url = server.url("ramp.blp")
    found = blpk(command, url)
    assert found.code == 0
    assert found.raw.replace(url.encode(), bytes(ramp)) == blpk(command, ramp).raw


def test_no_such_object(blpk: Blpk, server: FileServer) -> None:
    found = blpk("info", server.url("none.blp"))
    assert found.code == 1
    assert "none.blp" in found.err
