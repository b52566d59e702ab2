"""`blpk tune`: the sizes are those of the files that the calls make, and little is read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli import trials
from bloscpack.cli.trials import Trial, best_of, fastest_of, smallest_of
from bloscpack.container.reader import Container

from .conftest import Blpk


@pytest.fixture
def field() -> np.ndarray[Any, Any]:
    y, x = np.mgrid[:120, :200]
    noise = np.random.default_rng(1).integers(0, 4, (120, 200))
    return np.stack([100 * x + y * y + noise + z for z in range(4)]).astype("<i4")


def test_sizes_are_those_of_the_calls(blpk: Blpk, tmp_path: Path, field: Any) -> None:
    field = np.tile(field, (3, 2, 2))  # more than one chunk
    for array in (field, np.asfortranarray(field)):
        np.save(tmp_path / "a.npy", array)
        document = blpk("tune", "--json", "a.npy").json
        assert document["shape"] == [12, 240, 400]
        assert document["sample"]["nbytes"] == array.nbytes
        for trial in document["trials"]:
            bp.save(tmp_path / "b.blp", array, **trial["settings"])
            assert (tmp_path / "b.blp").stat().st_size == trial["nbytes"]
            assert trial["write_mb_per_s"] > 0 < trial["read_mb_per_s"]
        assert {"codec": "auto"} in [trial["settings"] for trial in document["trials"]]
        assert any("chunks" in trial["settings"] for trial in document["trials"])
        sizes = [trial["nbytes"] for trial in document["trials"]]
        assert document["smallest"] == sizes.index(min(sizes))
        assert document["call"].startswith("bp.save(path, array")


def test_table_plot_and_calls(blpk: Blpk, tmp_path: Path, field: Any) -> None:
    bp.save(tmp_path / "a.blp", field)
    ended = blpk("tune", "a.blp")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "a.blp: int32 (4, 120, 200); 375.0K tried: 4 rows, from 0 on"
    table = [line.split(maxsplit=4) for line in lines[2:] if line[:1].islower() and line[1] == " "]
    sizes = [float(row[1]) for row in table]
    assert [row[0] for row in table] == list("abcdefghijklm"[: len(table)])
    assert sizes == sorted(sizes)
    assert "default" in [row[4] for row in table]
    plot = [line.partition("|")[2] for line in lines if "|" in line]
    assert sorted("".join(plot).replace(" ", "")) == [row[0] for row in table]
    assert all(len(line) <= 80 for line in lines if not line.startswith(("best", "smallest")))
    assert any(line.startswith("smallest (a): bp.save(path, array, codec='auto'") for line in lines)


def test_the_command_makes_the_file_of_the_call(blpk: Blpk, tmp_path: Path, field: Any) -> None:
    np.save(tmp_path / "a b.npy", field)
    lines = blpk("tune", "a b.npy").out.splitlines()
    commands = [
        line for line in lines if line.startswith("  blpk convert 'a b.npy' OUT --to array")
    ]
    for command in commands:  # none if the best settings include a level or a filter
        options = command.partition("OUT ")[2].split()
        assert blpk("convert", "a b.npy", "out.blp", *options).code == 0
        assert np.array_equal(bp.load("out.blp"), field)
    assert commands or "clevel" in "".join(lines) or "shuffle" in "".join(lines)


def test_only_the_sample_is_read(blpk: Blpk, tmp_path: Path, monkeypatch: Any) -> None:
    array = np.arange(1 << 20, dtype="<i4").reshape(1024, 1024)
    bp.save(tmp_path / "a.blp", array, chunks=16)
    seen = set()
    fetch = Container.fetch

    def counted(self: Container, index: int, *args: Any, **options: Any) -> Any:
        if self.name == "a.blp":
            seen.add(index)
        return fetch(self, index, *args, **options)

    monkeypatch.setattr(Container, "fetch", counted)
    document = blpk("tune", "--json", "--sample", "128K", "a.blp").json
    assert document["sample"] == {
        "rows": [[0, 8], [338, 346], [677, 685], [1016, 1024]],
        "nbytes": 128 << 10,
    }
    assert seen <= {0, 21, 42, 63}


def test_at_least_one_row(blpk: Blpk, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 5000)))
    assert blpk("tune", "--json", "--sample", "1K", "a.npy").json["sample"]["rows"] == [[0, 1]]
    np.save(tmp_path / "a.npy", np.array(2.5))
    assert blpk("tune", "--json", "a.npy").json["sample"] == {"rows": [[0, 1]], "nbytes": 8}


def test_items_without_array_chunks(blpk: Blpk, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(50, "i4,f4"))
    document = blpk("tune", "--json", "a.npy").json
    assert "auto" not in [trial["settings"].get("codec") for trial in document["trials"]]


def test_other_files(blpk: Blpk, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "clips.blp") as store:
        store.append("a", np.zeros((3, 4, 4), "u1"))
    (tmp_path / "text").write_text("some text")
    np.save(tmp_path / "empty.npy", np.zeros((0, 3)))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    for name, code, message in (
        ("clips.blp", 4, "frame store"),
        ("text", 4, "not a Bloscpack file"),
        ("empty.npy", 1, "no items"),
        ("objects.npy", 1, "Python objects"),
        ("missing", 1, "does not exist"),
    ):
        ended = blpk("tune", name)
        assert (ended.code, ended.out) == (code, ""), name
        assert message in ended.err


def test_what_is_read_is_compared(blpk: Blpk, tmp_path: Path, monkeypatch: Any) -> None:
    np.save(tmp_path / "a.npy", np.arange(50))
    monkeypatch.setattr(trials, "load", lambda data, **options: np.zeros(50, int))
    ended = blpk("tune", "a.npy")
    assert (ended.code, ended.out) == (3, "")
    assert "with other items" in ended.err


def test_choice() -> None:
    default, small = Trial({}, 100, 1.0, 1.0), Trial({"codec": "auto"}, 50, 1.0, 2.0)
    slow, quick = Trial({"clevel": 9}, 40, 1.0, 2.1), Trial({"codec": "lz4"}, 120, 1.0, 0.5)
    found = [default, small, slow, quick]
    assert (best_of(found), smallest_of(found), fastest_of(found)) == (1, 2, 3)
    assert best_of([default, quick]) == 0
