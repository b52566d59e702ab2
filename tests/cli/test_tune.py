"""`blpk tune`: the sizes are those of the files that the calls make, and little is read."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.array import trials, tune
from bloscpack.cli.array.trials import Sample
from bloscpack.cli.array.tune import _command
from bloscpack.cli.console.trialtable import Trial, Tuned, _settings_text, _short
from bloscpack.container.reader import Container
from bloscpack.storage.file import FileSource

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
    assert lines[1] == "Sizes are of this sample, speeds of one thread of this machine."
    table = [line.split(maxsplit=4) for line in lines[3:] if line[:1].islower() and line[1] == " "]
    sizes = [float(row[1]) for row in table]
    assert [row[0] for row in table] == list("abcdefghijklmno"[: len(table)])
    assert sizes == sorted(sizes)
    assert "default" in [row[4] for row in table]
    plot = [line.partition("|")[2] for line in lines if "|" in line]
    assert sorted("".join(plot).replace(" ", "")) == [row[0] for row in table]
    calls = ("best", "smallest", "fastest", "  blpk")
    assert all(len(line) <= 80 for line in lines if not line.startswith(calls))
    assert any(line.startswith("smallest (a): bp.save(path, array, codec='auto'") for line in lines)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", ["a b.npy", "whole.blp", "rows.blp", "grid.blp"])
def test_the_commands_make_the_files_of_the_calls(
    blpk: Blpk, tmp_path: Path, field: Any, name: str, order: Any
) -> None:
    field = np.asarray(np.tile(field, (3, 1, 1)), order=order)
    np.save(tmp_path / "a b.npy", field)
    bp.save(tmp_path / "whole.blp", field)
    bp.save(tmp_path / "rows.blp", field, chunks=5)
    bp.save(tmp_path / "grid.blp", field, chunks=(5, 30, 50))
    found = blpk("tune", "--json", name).json
    lines = blpk("tune", name).out.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("best ("))
    pairs = [*zip(lines[at::2], lines[at + 1 :: 2], strict=True)]
    assert [call.partition(" ")[0] for call, _ in pairs] == ["best", "smallest", "fastest"]
    pairs.append((f"best: {found['call']}", f"  {found['convert']}"))
    for call, command in pairs:
        arguments = call.partition("(path, array")[2].removeprefix(", ").removesuffix(")")
        bp.save(tmp_path / "saved.blp", field, **eval(f"dict({arguments})"))
        words = shlex.split(command)
        assert words[:4] == ["blpk", "convert", name, "OUT"]
        assert blpk("convert", "-f", name, "out.blp", *words[4:]).code == 0
        assert (tmp_path / "out.blp").read_bytes() == (tmp_path / "saved.blp").read_bytes()


def test_options_of_the_command(field: Any) -> None:
    sample = Sample(field, [(0, 4)], 0, field.shape, False, None)
    settings = {"codec": "lz4", "clevel": 9, "shuffle": "bit", "chunks": (2, 30, 50)}
    expected = "blpk convert x OUT --to array --codec lz4 --clevel 9 --shuffle bit --chunks 2,30,50"
    assert _command("x", sample, settings) == expected
    own = _command("x", sample._replace(chunks=3), {})
    assert own == "blpk convert x OUT --to array --chunks auto --access rows"


def test_chunks_that_are_tried(blpk: Blpk, tmp_path: Path) -> None:
    array = np.zeros((64, 256, 256), "u2")
    bp.save(tmp_path / "a.blp", array, chunks=(4, 100, 100))
    trials = blpk("tune", "--json", "a.blp").json["trials"]
    chunks = [each["settings"]["chunks"] for each in trials if "chunks" in each["settings"]]
    assert chunks[:3] == [[4, 100, 100], 32, 2]  # of the file; four times 8 rows, and a fourth
    few = blpk("tune", "--json", "--sample", "1M", "a.blp").json["trials"]
    assert 32 not in [each["settings"].get("chunks") for each in few]  # of 8 rows


def test_long_settings_fit_the_table(blpk: Blpk, tmp_path: Path) -> None:
    array = np.zeros((2, *[1] * 24, 300), "u1")
    bp.save(tmp_path / "a.blp", array, chunks=(1,) * 25 + (299,))
    table = blpk("tune", "a.blp").out.partition("best (")[0].splitlines()[1:]
    assert any(line.endswith("...") for line in table)
    assert max(map(len, table)) <= 80
    longest = {"codec": "lz4", "shuffle": "bit", "chunks": "auto", "access": "series"}
    assert _short(_settings_text(longest)) == "codec=lz4 shuffle=bit chunks=auto access=series"


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
        "axis": 0,
        "nbytes": 128 << 10,
    }
    assert seen <= {0, 21, 42, 63}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("suffix", ["npy", "blp"])
def test_rows_larger_than_the_sample(
    blpk: Blpk, tmp_path: Path, monkeypatch: Any, suffix: str, order: Any
) -> None:
    array = np.arange(3 * 200 * 5000, dtype="<u2").reshape(3, 200, 5000)
    array = array if order == "C" else array.T
    np.save(tmp_path / "a.npy", array)
    bp.save(tmp_path / "a.blp", array)
    taken = []

    def take(*arguments: Any) -> Sample:
        taken.append(trials.take_sample(*arguments))
        return taken[0]

    read = []
    read_at = FileSource.read_at

    def counted(self: FileSource, offset: int, nbytes: int) -> Any:
        read.append(nbytes)
        return read_at(self, offset, nbytes)

    monkeypatch.setattr(tune, "take_sample", take)
    monkeypatch.setattr(FileSource, "read_at", counted)
    document = blpk("tune", "--json", "--sample", "80K", f"a.{suffix}").json
    rows = [[0, 2], [66, 68], [132, 134], [198, 200]]
    assert document["sample"] == {"rows": rows, "axis": 1, "nbytes": 80_000}
    places = [*range(2), *range(66, 68), *range(132, 134), *range(198, 200)]
    expected = array[1:2, places] if order == "C" else array[:, places, 1:2]
    assert np.array_equal(taken[0].array, expected)
    assert sum(read) < 200_000
    lines = blpk("tune", "--sample", "80K", f"a.{suffix}").out.splitlines()
    assert lines[0].endswith("78.12K tried: 8 indices of axis 1, from 0, 66, 132, 198 on")


def test_arrays_of_one_item(blpk: Blpk, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array(2.5))
    expected = {"rows": [[0, 1]], "axis": 0, "nbytes": 8}
    assert blpk("tune", "--json", "a.npy").json["sample"] == expected
    np.save(tmp_path / "a.npy", np.full((1, 1), 2.5))
    assert blpk("tune", "--json", "--sample", "1", "a.npy").json["sample"]["nbytes"] == 8


def test_interrupt(blpk: Blpk, tmp_path: Path, monkeypatch: Any) -> None:
    np.save(tmp_path / "a.npy", np.arange(50))
    ran = []

    def interrupted(*arguments: Any, **options: Any) -> None:
        ran.append(arguments)
        if len(ran) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(trials, "save", interrupted)
    monkeypatch.setattr(trials, "load", lambda *_, **__: np.arange(50))
    ended = blpk("tune", "a.npy")
    assert (ended.code, ended.out, ended.err) == (130, "", "blpk: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_items_without_array_chunks(blpk: Blpk, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(50, "i4,f4"))
    document = blpk("tune", "--json", "a.npy").json
    assert "auto" not in [trial["settings"].get("codec") for trial in document["trials"]]


def test_other_files(blpk: Blpk, tmp_path: Path) -> None:
    bp.frames.create(tmp_path / "clips.blp").close()
    (tmp_path / "text").write_text("some text")
    np.save(tmp_path / "empty.npy", np.zeros((0, 3)))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    for name, code, message in (
        ("clips.blp", 1, "no frames to try settings on"),
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
    tuned = Tuned("", 100, found, repr, repr, {})
    assert tuned.chosen == {"best": 1, "smallest": 2, "fastest": 3}
    assert tuned._replace(trials=[default, quick]).chosen["best"] == 0
