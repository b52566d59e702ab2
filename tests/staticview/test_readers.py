"""The readers in JavaScript find what the conformance set specifies, and count their requests."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from tests.servers import FileServer, running

FOLDER = Path(__file__).parents[1] / "conformance"
TWINS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}
NAMES = [name for name, twin in TWINS.items() if twin["kind"] not in ("frames", "archive")]


def _has_node() -> bool:
    node = shutil.which("node")
    if node is None:
        return False
    found = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    major, minor = found.stdout.strip().removeprefix("v").split(".")[:2]
    return (int(major), int(minor)) >= (19, 8)  # fs.openAsBlob


pytestmark = pytest.mark.skipif(not _has_node(), reason="node 19.8 or later is not installed")


def found_by(name: str, tasks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a script beside this module says of each file."""
    lines = "".join(json.dumps(task) + "\n" for task in tasks)
    command = ["node", str(Path(__file__).with_name(name))]
    found = subprocess.run(
        command, input=lines, capture_output=True, text=True, check=True, timeout=240
    )
    return [json.loads(line) for line in found.stdout.split("\n") if line]


read_all = partial(found_by, "readers.mjs")


def sha256(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def test_the_readers_find_what_the_conformance_set_describes() -> None:
    assert len(NAMES) > 100
    found = read_all([{"path": str(FOLDER / f"{name}.blp")} for name in NAMES])
    for name, each in zip(NAMES, found, strict=True):
        twin = TWINS[name]
        if twin["kind"] == "damaged":
            assert "error" in each, (name, each)
        elif twin["kind"] == "bytes":
            assert each.get("content") == twin["content"]["sha256"], (name, each)
        else:
            keys = ("dtype", "shape", "sha256")
            assert {key: each.get(key) for key in keys} == {
                key: twin["array"][key] for key in keys
            }, (name, each)
            assert each["trailer"] == twin["trailer"], name


def test_a_file_with_statistics_is_read(tmp_path: Path) -> None:
    array = np.arange(6000, dtype="f4").reshape(60, 100)
    for number, chunks in enumerate((7, (10, 30))):
        bp.save(tmp_path / f"{number}.blp", array, chunks=chunks, stats=True)
    for found in read_all([{"path": str(path)} for path in tmp_path.iterdir()]):
        assert (found["sha256"], found["trailer"]) == (sha256(array), "valid")


def test_checksums_that_are_not_compared_are_reported() -> None:
    (found,) = read_all([{"path": str(FOLDER / "v3_bytes_md5.blp")}])
    assert found["notices"] == [
        "The md5 of chunks was not compared: this browser lacks it.",
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chunks", [16, (16, 30, 20)])
def test_a_url_is_opened_by_two_requests(tmp_path: Path, order: Any, chunks: Any) -> None:
    array = np.random.default_rng(1).normal(size=(64, 50, 60)).astype("f4", order=order)
    path = tmp_path / "a.blp"
    bp.save(path, array, chunks=chunks)
    assert path.stat().st_size > 500_000
    with running(FileServer()) as server:
        server.files["/a.blp"] = path.read_bytes()
        selection = [[3, 40, 2], [0, 50, 7], [10, 60, 1]]
        (found,) = read_all([{"url": server.url("a.blp"), "selection": selection}])
        assert found["sha256"] == sha256(array)
        assert found["part"] == sha256(array[3:40:2, ::7, 10:])
        # Chunks of the second selection are still decoded.
        assert (found["opened"], found["nrequests"]) == (2, 3)
        assert [each.status for each in server.log] == [206, 206, 206]


def _changed(path: Path, *, chunks: int = 20, codec: Any = "zstd") -> list[np.ndarray]:
    """Save an array and change it twice; return what it was after each commit."""
    array = (np.arange(30_000) * 0.25 % 50).astype("f4").reshape(100, 300)
    bp.save(path, array, chunks=chunks, codec=codec, changeable=True)
    found = [array.copy()]
    with bp.open(path, "r+") as a:
        for value in (1.5, 7):
            a[10:90:9, 5:] = array[10:90:9, 5:] = value
            a.flush()
            found.append(array.copy())
    return found


def test_a_log_is_read_as_of_its_last_intact_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    states = _changed(path)
    data = path.read_bytes()
    # The third commit is in the second slot, the second one in the first.
    cases = {"": 2, "1": 2, "3": 2, "13": 1, "1-3": 1, "3-1": 1, "0123": None}
    places = (4096, 4224, 8192, 8320)
    tasks = []
    for name in cases:
        damaged = bytearray(data)
        for at in (places[int(number)] for number in name.partition("-")[0]):
            damaged[at + 20] ^= 1
        for at in (places[int(number)] for number in name.partition("-")[2]):
            damaged[at : at + 128] = bytes(128)
        (tmp_path / f"{name}.blp").write_bytes(damaged)
        tasks.append({"path": str(tmp_path / f"{name}.blp")})
    for (name, state), found in zip(cases.items(), read_all(tasks), strict=True):
        if state is None:
            assert found["error"] == "format"
            continue
        assert found["sha256"] == sha256(states[state]), name
        is_lost = name in ("13", "3-1", "1-3")
        assert found["notices"] == ["A commit is damaged: later changes may be missing."] * is_lost


def test_a_log_with_pages_of_two_levels(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    array = np.arange(2040, dtype="<i2")
    bp.save(path, array, chunks=1, changeable=True)
    with bp.open(path, "r+") as a:
        a[::7] = array[::7] = 9
        a[1500] = array[1500] = 3
    (found,) = read_all([{"path": str(path)}])
    assert found["sha256"] == sha256(array)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("codec", ["zstd", "auto"])
def test_a_log_is_opened_by_two_requests(tmp_path: Path, codec: Any) -> None:
    path = tmp_path / "a.blp"
    states = _changed(path, codec=codec)
    with running(FileServer()) as server:
        server.files["/a.blp"] = path.read_bytes()
        (found,) = read_all([{"url": server.url("a.blp"), "selection": [[9, 40, 2], [3, 300, 7]]}])
        assert found["sha256"] == sha256(states[-1])
        assert found["part"] == sha256(states[-1][9:40:2, 3::7])
        assert found["opened"] <= 2


@pytest.mark.parametrize("is_log", [False, True])
def test_damage_gives_an_error_or_the_right_items(tmp_path: Path, is_log: bool) -> None:
    array = (np.arange(30_000) * 0.25 % 50).astype("f4").reshape(100, 300)
    tasks, rng = [], Random(7)
    for codec in ("zstd", "lz4", "auto"):
        path = tmp_path / f"{codec}.blp"
        if is_log:
            array = _changed(path, codec=codec)[-1]
        else:
            bp.save(path, array, chunks=20, codec=codec)
        sound = path.read_bytes()
        for number in range(60):
            damaged = bytearray(sound)
            first, stop = 0, len(sound) if number % 2 else 400
            if is_log:  # not in the zeros behind the header
                first, stop = [(4096, 4352), (8448, len(sound)), (0, 64)][number % 3]
            at = rng.randrange(first, stop)
            damaged[at] ^= 1 << rng.randrange(8)
            name = tmp_path / f"{codec}{number}.blp"
            name.write_bytes(damaged[: rng.randrange(len(sound))] if number % 10 == 0 else damaged)
            tasks.append({"path": str(name)})
    found = read_all(tasks)
    assert not [each for each in found if "bug" in each]
    wrong = [
        (task, each)
        for task, each in zip(tasks, found, strict=True)
        if "error" not in each and each.get("sha256", sha256(array)) != sha256(array)
    ]
    assert not wrong
    # Many bytes of a log are not in use.
    assert sum("error" in each for each in found) > (40 if is_log else 90)
