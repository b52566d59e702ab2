"""The reader of archives in JavaScript finds what the conformance set specifies."""

from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.format.archiveindex import Member, pack_index
from tests.conftest import Some
from tests.servers import FileServer, running

from .test_readers import FOLDER, TWINS, found_by, pytestmark, sha256

__all__ = ["pytestmark"]

read_archives = partial(found_by, "archives.mjs")
ARCHIVES = {name: twin for name, twin in TWINS.items() if "archive" in name}


def test_the_reader_finds_what_the_conformance_set_describes() -> None:
    assert len(ARCHIVES) == 8
    found = read_archives([{"path": str(FOLDER / f"{name}.blp")} for name in ARCHIVES])
    for (name, twin), each in zip(ARCHIVES.items(), found, strict=True):
        if twin["kind"] == "damaged":
            assert each.get("error") == twin["error"], (name, each)
            continue
        assert each.get("attrs") == twin["attrs"], (name, each)
        assert not each["notices"]
        expected = [
            {key: value for key, value in member.items() if key != "sha256"}
            for member in twin["members"]
        ]
        for member in each["members"]:
            member.pop("opened")
        assert each["members"] == expected, name


@pytest.mark.slow
def test_a_url_is_opened_by_two_requests_and_a_member_by_at_most_two(tmp_path: Path) -> None:
    noise = np.random.default_rng(2)
    arrays = {name: noise.normal(size=(100, 1200)) for name in "abc"}
    arrays |= {"small": np.arange(5), "d": noise.normal(size=(100, 1200))}
    path = tmp_path / "a.blp"
    bp.savez(path, arrays, chunks=10, codec="lz4")
    assert path.stat().st_size > 3_000_000
    requests = []
    with running(FileServer()) as server:
        server.files["/a.blp"] = path.read_bytes()
        for number, array in enumerate(arrays.values()):
            (found,) = read_archives([{"url": server.url("a.blp"), "member": number}])
            (member,) = found["members"]
            assert member["array"]["sha256"] == sha256(array)
            assert found["opened"] == 2
            requests.append((member["opened"] - 2, found["nrequests"] - member["opened"]))
    # The ends of the first and of the last member, and chunks, are in those of the archive.
    assert requests == [(1, 1), (2, 1), (2, 1), (1, 0), (1, 1)]


SMALL = {f"s{n}": np.full((n, 2), n * 0.5) for n in range(30)}
FEW = {f"t{n}": np.arange(n) for n in range(9)}


def test_small_arrays_that_are_compressed_together(tmp_path: Path) -> None:
    arrays = {**SMALL, "noise": np.random.default_rng(3).normal(size=9000), **FEW}
    path = tmp_path / "a.blp"
    bp.savez(path, arrays)
    with running(FileServer()) as server:
        server.files["/a.blp"] = path.read_bytes()
        (found,) = read_archives([{"url": server.url("a.blp")}])
    assert [each["name"] for each in found["members"]] == list(arrays)
    for each, array in zip(found["members"], arrays.values(), strict=True):
        assert each["array"]["sha256"] == sha256(array), each
        assert ("start" in each) == (each["name"] != "noise")
    assert found["nrequests"] <= 3


@pytest.mark.parametrize("several", [{}, FEW], ids=["large", "bundle"])
def test_damage_gives_an_error_or_the_right_items(
    tmp_path: Path, several: dict[str, np.ndarray]
) -> None:
    arrays = {"é": np.arange(3000) * 0.25, "": np.arange(900, dtype="u1").reshape(30, 30)}
    arrays |= several
    path = tmp_path / "a.blp"
    bp.savez(path, arrays, attrs={"a": 1})
    data, right, rng = path.read_bytes(), [sha256(each) for each in arrays.values()], Random(5)
    tasks = []
    for number in range(120):
        damaged = bytearray(data)
        at = rng.randrange(len(data)) if number % 2 else len(data) - 1 - rng.randrange(150)
        damaged[at] ^= 1 << rng.randrange(8)
        name = tmp_path / f"{number}.blp"
        name.write_bytes(damaged[: rng.randrange(len(data))] if number % 10 == 0 else damaged)
        tasks.append({"path": str(name)})
    nerrors = 0
    for each in read_archives(tasks):
        assert "bug" not in each, each
        nerrors += "error" in each
        if "error" not in each:
            assert [member["name"] for member in each["members"]] == list(arrays)
        for member, expected in zip(each.get("members", []), right, strict=False):
            assert "bug" not in member, member
            assert "error" in member or member["array"]["sha256"] == expected, member
            nerrors += "error" in member
    assert nerrors > 60


@pytest.mark.parametrize("content", ["store", "archive"])
def test_a_member_that_is_not_an_array_is_refused(tmp_path: Path, content: str) -> None:
    inner, path = FOLDER / "frames_empty.blp", tmp_path / "a.blp"
    if content == "archive":
        inner = FOLDER / "archive_empty.blp"
    bp.savez(path, a=np.arange(3))
    with bp.Archive(path) as archive:
        (member,) = archive._members.named.values()
    data = inner.read_bytes()
    new = Member("a", member.at, len(data))
    front = path.read_bytes()[: member.at]
    path.write_bytes(front + new.pack() + data + pack_index([new], new.end))
    (found,) = read_archives([{"path": str(path)}])
    assert found["members"][0]["error"] == "unsupported", found


def _changed(path: Path) -> dict[str, np.ndarray]:
    """Write an archive, and change it in several commits; return what it holds."""
    arrays = {name: np.arange(600.0).reshape(60, 10) + ord(name) for name in "abc"}
    bp.savez(path, arrays, chunks=7, attrs={"title": "x"})
    with bp.open(path, "r+") as z:
        del z["a"], arrays["a"]
        z["b"][3:20] = arrays["b"][3:20] = -1
        z.flush()
        arrays["n/\u00f1"] = np.asfortranarray(np.arange(2400, dtype=">i2").reshape(40, 60))
        arrays[""] = np.array(7, "i8")
        for name in ("n/\u00f1", ""):
            z[name] = arrays[name]
        z.flush()
        for n in range(300):  # more than a group
            arrays[f"many{n}"] = z[f"many{n}"] = np.full(3, n)
    return arrays


def test_a_log_of_several_arrays(tmp_path: Path) -> None:
    arrays = _changed(tmp_path / "a.blp")
    with bp.open(tmp_path / "a.blp", "r+") as z:
        z.attrs["title"] = "y"
    (found,) = read_archives([{"path": str(tmp_path / "a.blp")}])
    assert [each["name"] for each in found["members"]] == list(arrays)
    for each, array in zip(found["members"], arrays.values(), strict=True):
        assert each["array"]["sha256"] == sha256(array), each
        assert each["array"]["shape"] == list(array.shape)
    assert found["attrs"] == {"title": "y"}
    assert not found["notices"]


def test_a_damaged_log_of_several_arrays(tmp_path: Path, some: Some) -> None:
    arrays = [sha256(array) for array in _changed(tmp_path / "a.blp").values()]
    sound, tasks, rng = (tmp_path / "a.blp").read_bytes(), [], Random(3)
    for number in some(range(60), 3):
        damaged = bytearray(sound)
        damaged[rng.randrange(8448, len(sound)) if number % 2 else rng.randrange(4400)] ^= 1
        path = tmp_path / f"{number}.blp"
        path.write_bytes(damaged[: rng.randrange(len(sound))] if number % 10 == 0 else damaged)
        tasks.append({"path": str(path)})
    errors = 0
    for each in read_archives(tasks):
        assert "bug" not in each
        if "error" in each:
            errors += 1
            continue
        assert len(each["members"]) == len(arrays)
        for member, digest in zip(each["members"], arrays, strict=True):
            errors += "error" in member
            assert "bug" not in member
            assert member.get("array", {"sha256": digest})["sha256"] == digest
    assert errors > len(tasks) // 6
