"""Requests and bytes of functions and commands that read files behind URLs, counted exactly."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main

from .. import clientlist
from ..conftest import needs_exchange
from ..servers import FileServer, running

pytest.importorskip("aiohttp", reason="files behind URLs need it")

HEAD = 1 << 16
ROWS = np.random.default_rng(0).integers(0, 256, (16, HEAD), "u1")
Use = Callable[[str, str], Any]


def use(opened: Any, function: Callable[[Any], Any] = lambda opened: None) -> None:
    with opened as each:
        function(each)


def convert(name: str, to: str) -> Use:
    return lambda url, folder: bp.convert(f"{url}/{name}", f"{folder}/{name}.{to}", to=to)


def command(verb: str, name: str) -> Use:
    return lambda url, _: main([verb, f"{url}/{name}"])


# File, requests, the largest number of bytes in files of its size, and what is counted.
COUNTS: dict[str, tuple[str, int, float, Use]] = {
    "open": ("a.blp", 1, 0.1, lambda url, _: use(bp.open(f"{url}/a.blp"))),
    "a row": ("a.blp", 2, 0.4, lambda url, _: use(bp.open(f"{url}/a.blp"), lambda a: a[9])),
    "load": ("a.blp", 2, 1, lambda url, _: bp.load(f"{url}/a.blp")),
    "verify": ("a.blp", 4, 1.01, lambda url, _: bp.verify(f"{url}/a.blp")),
    "convert": ("a.blp", 3, 1.01, convert("a.blp", "npy")),
    "convert npy": ("a.npy", 3, 1.01, convert("a.npy", "array")),
    "blpk ls": ("a.blp", 2, 0.1, command("ls", "a.blp")),
    "blpk info": ("a.blp", 3, 0.4, command("info", "a.blp")),
    "open an archive": ("z.blp", 2, 0.2, lambda url, _: use(bp.open(f"{url}/z.blp"))),
    "a member": ("z.blp", 4, 0.4, lambda url, _: bp.load(f"{url}/z.blp::/m2")),
    "verify an archive": ("z.blp", 16, 1.1, lambda url, _: bp.verify(f"{url}/z.blp")),
    "blpk ls of an archive": ("z.blp", 6, 0.4, command("ls", "z.blp")),
    "blpk info of an archive": ("z.blp", 6, 0.4, command("info", "z.blp")),
    # The comparison with the source takes it from memory: it is small.
    "convert an archive": ("z.blp", 10, 1.1, convert("z.blp", "npz")),
    "open a store": ("s.blp", 2, 0.7, lambda url, _: use(bp.frames.open(f"{url}/s.blp"))),
    "a frame": (
        *("s.blp", 3, 0.8),
        lambda url, _: use(bp.frames.open(f"{url}/s.blp"), lambda store: store["c3"][0]),
    ),
    "convert a store": ("s.blp", 6, 1.01, convert("s.blp", "frames")),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("served")
    bp.save(folder / "a.blp", ROWS, chunks=4)
    bp.savez(folder / "z.blp", {f"m{number}": ROWS[:4] for number in range(4)})
    np.save(folder / "a.npy", ROWS)
    with bp.frames.create(folder / "s.blp") as store:
        for number in range(6):
            store.append(f"c{number}", ROWS.reshape(-1, 8, 64, 64)[number])
    with running(FileServer()) as server:
        server.files = {f"/{each.name}": each.read_bytes() for each in folder.iterdir()}
        yield server
        clientlist.close_all()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_exchange) if name.startswith("convert") else name
        for name in COUNTS
    ],
)
def test_requests(name: str, served: FileServer, tmp_path: Path) -> None:
    file, requests, share, function = COUNTS[name]
    served.clear()
    function(served.endpoint, os.fspath(tmp_path))
    found = len(served.log), served.nbytes / len(served.files[f"/{file}"])
    assert found[0] == requests, served.log
    assert 0 < found[1] <= share
