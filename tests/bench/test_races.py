"""The benchmarks run, write their pages, judge their targets and refuse wrong results."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from .conftest import BENCH

pytestmark = pytest.mark.slow

for needed in ("blosc", "zstandard"):
    pytest.importorskip(needed, reason="bench/ needs it: pip install --group bench")

OURS = "bloscpack"
# Packages that a benchmark needs, arguments of a run, kinds of its cases, and a line of a page.
RUNS = {
    "core": ((), (), {"chunk of 64 KiB, zstd"}, "| unpack 80 KB float64 blosclz-7 | "),
    "peers": (
        (),
        ("--who", OURS),
        {
            "read",
            "write",
            "row",
            "first",
            "block",
            "iterate",
            "open",
            "commits",
            "change",
            "changed",
        },
        "| whole read, zstd-3, 1 MiB | >= 0.90 of bare C-Blosc | ",
    ),
    "arrays": (
        (),
        ("--who", "bloscpack, auto"),
        {"read", "write", "cube"},
        "- arrays: 0 measured, 3 others\n",
    ),
    "frames": (
        ("simplejpeg", "PIL", "av"),
        *(
            ("--who", "bloscpack, fast", "--only", "clips", "--only", "opening"),
            {"clip", "single", "batch"},
            "| open a store of 2,000 frames | <= 20 ms | ",
        ),
    ),
    "vrs": (
        (),
        ("--who", OURS),
        {"records", "frames", "frame", "write"},
        "| write small records | >= 100,000 a second | ",
    ),
    "benzina": (
        ("PIL", "av"),
        ("--who", OURS, "--who", "PyAV, on threads", "--who", "bytes"),
        {"load", "index", "sample", "pack"},
        "| loader, 2 threads | >= 0.85 times PyAV, on threads | ",
    ),
    "remote": (
        ("zarr", "s3fs", "moto", "distributed"),
        ("--who", OURS, "--who", "bloscpack, frame store"),
        {"time", "whole", "dask"},
        "| bloscpack, one row, S3 | 1 request more | 1 | yes |",
    ),
    "datasets": (
        ("xarray", "h5netcdf", "zarr", "s3fs", "moto"),
        ("--who", "bloscpack, xarray", "--who", "bloscpack", "--who", "zarr"),
        {"append", "read"},
        "| scan of 1 % of the chunks | <= 0.05 of the bytes that zarr reads | ",
    ),
}


# A type of files that was deleted took its benchmark along.
THERE = [name for name in RUNS if (BENCH / name).is_dir()]


@pytest.mark.parametrize("name", THERE)
def test_a_quick_run_does_all_the_work_and_writes_its_pages(bench, tmp_path, monkeypatch, name):
    from race.__main__ import main

    packages, arguments, kinds, line = RUNS[name]
    for package in packages:
        pytest.importorskip(package, reason=f"bench/{name} needs it")
    monkeypatch.setenv("BLOSCPACK_ORACLE", str(tmp_path / "none"))
    monkeypatch.setattr("frames.data.FOLDER", tmp_path)
    monkeypatch.setattr("arrays.data.FOLDER", tmp_path)

    found = tmp_path / "run.json"
    assert main([name, "--quick", *arguments, "--json", str(found), "--page", str(tmp_path)]) == 0

    measured = json.loads(found.read_text())
    assert kinds <= {case["key"].split("/")[0] for case in measured["cases"]}
    for case in measured["cases"]:
        assert all(0 < one < 60 for rounds in case["seconds"].values() for one in rounds)
    pages = [page.read_text() for page in tmp_path.glob("*.md")]
    assert any(line in page for page in pages)
    for page in pages:
        heading, _, *table = page.splitlines()[:8]
        assert heading.startswith("# ")
        assert all(one.startswith("| ") for one in table[:2])
        assert all(len(one) <= 120 for one in page.splitlines() if not one.startswith("|"))
    if name == "remote":
        counts = measured["counts"]["S3"]
        ours = {work: counts[work]["found"][OURS][0] for work in counts}
        more = {"rows": 2, "strided": 3, "iterate": 2}
        assert ours == dict.fromkeys(counts, 1) | more
    if name == "peers":
        assert measured["flips"][OURS]["data"]["wrong"] == 0


def _case(key, **seconds):
    seconds = {name.replace("_", " "): [9 * one, one, one / 9] for name, one in seconds.items()}
    return {"key": key, "title": key, "nbytes": 1, "seconds": seconds, "skipped": {}}


@pytest.mark.parametrize(
    ("ours", "other", "found", "met"),
    [
        (1.42, 1.0, "a 0.70, b 1.00", "yes"),
        (1.44, 1.0, "a 0.69, b 1.00", "1 of 2"),
        (2, 0.5, "a 0.50, b 0.50", "no"),
    ],
)
def test_a_target_is_judged_by_medians(bench, ours, other, found, met):
    from race.page import at_least

    cases = [_case("read/a", us=ours, them=1), _case("read/b", us=1, them=other)]
    cases += [_case("read/c", us=1), _case("write/a", us=9, them=1)]
    (target,) = at_least({"cases": cases}, "reads", "read/", "us", "them", 0.7)

    assert (target.target, target.found, target.met) == (">= 0.7 times them", found, met)
    assert at_least({"cases": cases}, "reads", "open/", "us", "them", 0.7) == []


def test_a_section_without_figures_is_left_out(bench, tmp_path):
    from race.page import Page, markdown_table

    template = tmp_path / "page.md"
    template.write_text("# {title}\n\n<!-- about -->\n\n## A\n\n<!-- a -->\n\n## B\n\n<!-- b -->\n")
    lines = [("name", "b"), ("x", "1")]
    tables = {"a": lambda run: lines[:1], "b": lambda run: lines}
    page = Page("page.md", str(template), lambda run: lines, tables, lists=())
    run = {
        "about": {"date": "2020-01-01", "machine": "fast"},
        "setting": {"title": "T"},
        "cases": [],
    }

    text = page.render(run, markdown_table)

    assert text == "# T\n\n- machine: fast\n\n## B\n\n| name | b |\n| --- | ---: |\n| x | 1 |\n"


def test_a_hang_of_a_loader_is_not_a_success(bench):
    from frames.figures import PAGES

    case = {**_case("loading/spawn"), "skipped": {"bloscpack, fast": "did not finish within 9 s"}}
    (target,) = PAGES[1].targets({"cases": [case], "setting": {"nindexed": 9}})

    assert (target.found, target.met) == (
        "spawn, bloscpack, fast: did not finish within 9 s",
        "no",
    )


def test_means_are_over_measured_arrays_that_a_contender_stored(bench):
    from arrays.figures import Figures

    auto = "bloscpack, auto"
    sizes = {
        "a": {OURS: 40, auto: 20, "blosc2": 30, "zarr": 25, "pcodec 8": 10},
        "b": {OURS: 40, auto: 10, "blosc2": 20, "zarr": 80},
        "made": {OURS: 1000, auto: 1, "blosc2": 1},
    }
    facts = {"kind": "all", "about": "", "nbytes": 8_000_000}
    cases = [{**_case(f"{key}/{name}"), "seconds": {OURS: [9.0, 2.0], auto: [1.0, 3.0]}}
             for key in ("read", "write") for name in sizes]  # fmt: skip
    arrays = {name: {**facts, "is_measured": name != "made"} for name in sizes}

    lines = {
        line[0]: line[1:]
        for line in Figures({"arrays": arrays, "sizes": sizes, "cases": cases}).contenders()
    }

    assert lines[OURS] == ("2", "1.00", "0.35", "4", "8", "4")
    assert lines[auto] == ("2", "0.35", "1.00", "8", "8", "8")
    assert lines["blosc2 or zarr"] == ("2", "0.56", "0.63", "-", "8", "-")
    assert lines["pcodec 8"] == ("1", "0.25", "2.00", "-", "8", "-")


def test_a_crash_counts_and_the_trials_go_on(bench, tmp_path):
    from peers.damage import flip_one
    from peers.data import field
    from peers.formats import Ours
    from race.worker import HangError, WorkerError

    answers = ["right", "raised", WorkerError, "wrong", "raised", HangError, "right"]
    started, seen = [], []

    class Reader:
        def __init__(self, *command):
            started.append(command)

        def report(self, function, path, array):
            if not seen:
                seen.append(np.array_equal(Ours().read(path), np.load(array)))
            answer = answers.pop(0)
            if isinstance(answer, str):
                return answer
            raise answer("it ended")

        def close(self):
            pass

    np.save(tmp_path / "array.npy", field(300))
    counts = flip_one(Ours(), tmp_path / "file", tmp_path / "array.npy", 3, Reader)

    assert counts["data"] == {"right": 0, "raised": 1, "wrong": 1, "crashed": 1, "hung": 0}
    assert counts["header"] == {"right": 1, "raised": 1, "wrong": 0, "crashed": 0, "hung": 1}
    assert len(started) == 3
    assert seen == [True]  # the first read is of the undamaged file
    assert np.array_equal(Ours().read(tmp_path / "file"), field(300))  # each bit was flipped back


def test_the_judge_names_every_outcome(bench):
    from peers.damage import judge

    wanted = np.arange(4, dtype=np.float32)
    for read, outcome in (
        (wanted.copy, "right"),
        (lambda: wanted + np.float32(1), "wrong"),
        (lambda: wanted[:3], "wrong"),
        (lambda: wanted.view(np.int32), "wrong"),
        (lambda: {}["nothing"], "raised"),
    ):
        assert judge(read, wanted) == outcome


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_worker_times_what_it_has_checked(bench, tmp_path, is_wrong):
    pytest.importorskip("bloscpack.vrs")
    from race.worker import Worker, WorkerError
    from vrs.data import make_motion
    from vrs.formats import Ours

    motion = make_motion(SimpleNamespace(nrecords=100))
    Ours().motion_writer(motion, "none")(tmp_path / "motion.vrs")
    motion["accelerometer"][17, 2] += 0.5 * is_wrong
    np.save(tmp_path / "motion.npy", motion)
    task = {"path": tmp_path / "motion.vrs", "wanted": tmp_path / "motion.npy"}
    task |= {"places": [3, 17], "per_call": 2}
    worker = Worker("vrs", OURS)
    try:
        for work in ("records", "record", "field"):
            if is_wrong:
                with pytest.raises(WorkerError, match=r"(?s)has ended.*is not what was stored"):
                    worker.prepare(**task, work=work)
                break
            assert 0 < worker.prepare(**task, work=work)(2) < 60
    finally:
        worker.close()


def test_a_worker_that_hangs_is_killed(bench):
    from race.worker import Process, WorkerError

    process = Process("sleeper", sys.executable, "-c", "input(); input()", timeout=0.5)
    try:
        with pytest.raises(WorkerError, match=r"did not finish within 0\.5 s"):
            process.ask(count=1)
    finally:
        process.close()


def test_a_wrong_result_stops_a_race(bench, tmp_path, monkeypatch):
    from arrays.formats import Ours
    from race.__main__ import main

    monkeypatch.setattr("arrays.data.FOLDER", tmp_path)
    monkeypatch.setattr(Ours, "read", lambda self, handle, like: -handle[...])
    with pytest.raises(AssertionError, match="bloscpack: film_u1 is not what was stored"):
        main(["arrays", "--quick", "--who", OURS, "--only", "whole"])


def test_every_bit_is_compared(bench):
    from arrays.cases import require_same

    wanted = np.array([-0.0, np.nan])
    require_same(wanted.copy(), wanted, "it", "the array")
    for wrong in (np.array([0.0, np.nan]), np.array([-0.0]), wanted.astype("f4")):
        with pytest.raises(AssertionError, match="it: the array is not what was stored"):
            require_same(wrong, wanted, "it", "the array")


def test_a_run_that_cannot_begin_closes_its_servers(bench, tmp_path):
    from race.races import Races

    closed = []

    class Failing(Races):
        def make_data(self):
            self.closing.callback(closed.append, True)
            raise FileNotFoundError("no data")

    with pytest.raises(FileNotFoundError, match="no data"):
        Failing(None, tmp_path, tmp_path, [], print)
    assert closed == [True]
