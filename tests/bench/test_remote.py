"""The benchmarks of arrays behind URLs: they run, refuse wrong results, judge targets."""

import json
from contextlib import ExitStack
from urllib.request import Request, urlopen

import numpy as np
import pytest

from tests import servers

OURS, STORE, ZARR, SHARDED, HDF5 = (
    "bloscpack",
    "bloscpack, frame store",
    "zarr",
    "zarr, sharded",
    "h5py",
)

pytestmark = pytest.mark.slow
READING = ("row", "rows", "strided", "clip", "iterate")

for needed in ("blosc", "zarr", "s3fs", "moto", "distributed"):
    pytest.importorskip(needed, reason="bench/ needs it: pip install --group remote-bench")


@pytest.fixture(scope="module")
def quick_run(bench, tmp_path_factory):
    """Run the contenders that cover all cases on little data; return the path of the JSON."""
    from race.__main__ import main

    found = tmp_path_factory.mktemp("remote") / "run.json"
    who = [word for name in (OURS, STORE, ZARR) for word in ("--who", name)]
    assert main(["remote", "--quick", *who, "--json", str(found)]) == 0
    return found


def test_a_quick_run_does_all_the_work(quick_run):
    raced = {}
    for case in json.loads(quick_run.read_text())["cases"]:
        raced[case["key"]] = tuple(case["seconds"])
        assert all(len(rounds) == 2 for rounds in case["seconds"].values()), case["key"]

    assert raced == {
        "time/open": (OURS, STORE, ZARR),
        "time/clip": (OURS, STORE, ZARR),
        **{f"time/{work}": (OURS, ZARR) for work in ("row", "rows", "strided", "iterate")},
        **{f"dask/{what}/zstd/threads": (OURS, ZARR, "zarr, crc32c") for what in ("write", "read")},
    }


@pytest.mark.parametrize("server", ["S3", "HTTP"])
def test_our_requests_are_few(quick_run, server):
    counts = json.loads(quick_run.read_text())["counts"][server]
    found = {work: counts[work]["found"] for work in counts}

    ours = {work: by_name[OURS] for work, by_name in found.items()}
    assert ours["open"] == [1, 1 << 16]
    # 3 of 4: the first of the rows came with the head.
    requests = {work: count for work, (count, _) in ours.items()}
    assert requests == {"open": 1, "row": 1, "rows": 2, "strided": 3, "clip": 1, "iterate": 2}
    assert found["open"][STORE] == [2, 2 << 16]
    assert found["clip"][STORE][0] == 1
    # Of a chunk, and of four chunks that are in a row.
    assert 20_000 < ours["row"][1] < 60_000
    assert 160_000 < ours["clip"][1] < 480_000


def test_requests_of_others_are_counted(quick_run):
    from remote.data import QUICK, pick_rows

    counts = json.loads(quick_run.read_text())["counts"]["HTTP"]

    # An object for the description, and one for each chunk.
    nrows = len({row // QUICK.chunk_rows for row in pick_rows(QUICK)})
    requests = {work: counts[work]["found"][ZARR][0] for work in counts}
    assert requests == {"open": 1, "row": 1, "rows": nrows, "strided": 4, "clip": 4, "iterate": 32}


def test_the_page_is_written_from_a_run(quick_run, tmp_path):
    from race.__main__ import main

    page = tmp_path / "page.md"

    assert main(["remote", "--read", str(quick_run), "--page", str(page)]) == 0

    text = page.read_text()
    assert text.startswith("# Benchmarks of arrays behind URLs, and through Dask\n")
    assert "| bloscpack, open, S3 | 1 request | 1 | yes |" in text
    assert "| bloscpack, one row, HTTP | 1 request more | 1 | yes |" in text
    assert "| Dask, write, zstd, threads | >= 1 times zarr | " in text
    for title in ("Requests, S3", "Requests, HTTP", "Through Dask"):
        assert f"\n## {title}\n" in text
    assert "\n## Milliseconds, S3 that takes 1 ms to answer\n" in text
    assert all(len(line) <= 100 for line in text.splitlines() if not line.startswith("|"))


@pytest.fixture(scope="module")
def held(bench, tmp_path_factory):
    """A run of small data whose contenders work in this process."""
    from remote.cases import Arrays
    from remote.contenders import TABLE
    from remote.data import QUICK

    folder = tmp_path_factory.mktemp("held")
    races = Arrays(QUICK, folder, folder, list(TABLE), lambda line: None)
    with races.closing:
        yield races


EVERYTHING = [
    *((name, work) for name in (OURS, ZARR, SHARDED, HDF5) for work in ("open", *READING)),
    *((STORE, work) for work in ("open", "clip")),
]


def prepare(held, name, task):
    """Check the result of a task, and run it again."""
    from remote.contenders import prepare as prepared

    (contender,) = (one for one in held.contenders if one.name == name)
    with ExitStack() as stack:
        return prepared(contender, task, stack)(1)


def task_of(held, name, work):
    """Return a task on the web server; skip the test where its contender is not installed."""
    if name in held.absent:
        pytest.skip(held.absent[name])
    return held.task(name, "HTTP", work)


@pytest.mark.parametrize(("name", "work"), EVERYTHING)
def test_right_results_are_accepted(held, name, work):
    assert prepare(held, name, task_of(held, name, work)) > 0


@pytest.mark.parametrize(("name", "work"), EVERYTHING)
def test_a_wrong_result_stops_the_run(held, tmp_path, name, work):
    task = task_of(held, name, work)
    wanted = np.load(task["wanted"])
    np.save(tmp_path / "other.npy", wanted[:-1] if work == "open" else wanted[::-1])

    with pytest.raises(AssertionError, match="is not what was stored"):
        prepare(held, name, task | {"wanted": str(tmp_path / "other.npy")})


@pytest.mark.parametrize("name", [OURS, ZARR])
def test_missing_rows_stop_the_run(held, tmp_path, name):
    task = task_of(held, name, "iterate")
    wanted = np.load(task["wanted"])

    with pytest.raises(AssertionError, match="the number of rows is not"):
        prepare(held, name, task | {"niterated": len(wanted) + 1})


def test_long_work_is_shorter_where_it_is_timed(held):
    for is_timed, npicked, niterated in ((False, 16, 256), (True, 8, 16)):
        task = held.task(ZARR, "S3", "rows", is_timed=is_timed)
        assert (len(task["rows"]), task["niterated"]) == (npicked, niterated)


def test_the_server_is_slow_while_it_is_timed(held, monkeypatch):
    from race.races import Case

    delays = []
    monkeypatch.setattr(held, "contenders", [])
    monkeypatch.setattr(held, "hold", lambda *_: delays.append(held.servers["S3"].delay))

    held.race(Case("time/row", "one row", 0), "S3", "row")

    assert delays == [held.setting.delay] == [0.001]
    assert held.servers["S3"].delay == 0


def test_a_slow_server_sleeps(held, monkeypatch):
    slept = []
    monkeypatch.setattr(servers, "sleep", slept.append)
    server = held.servers["HTTP"]
    monkeypatch.setattr(server, "delay", 7.0)

    prepare(held, OURS, task_of(held, OURS, "open"))

    assert slept == [7.0, 7.0]


def test_bytes_are_those_that_were_sent(held):
    server = held.servers["HTTP"]
    server.log.clear()
    size = held.sizes[OURS]

    for method, wanted in (("HEAD", None), ("GET", "bytes=4-9"), ("GET", "bytes=-3")):
        headers = {} if wanted is None else {"Range": wanted}
        request = Request(server.url("array.blp"), headers=headers, method=method)
        with urlopen(request, timeout=10) as answer:
            body = answer.read()
            assert answer.headers.get("Content-Length") == str(len(body) or size)

    assert [request.nbytes for request in server.log] == [0, 6, 3]


def test_moto_is_asked_once_for_each_thing(held, monkeypatch):
    asked = []
    answer = servers.MotoServer.answer
    monkeypatch.setattr(
        servers.MotoServer,
        "answer",
        lambda self, *request: asked.append(request) or answer(self, *request),
    )
    server = held.servers["S3"]

    def first(stop):
        headers = {**servers.SIGNED, "Range": f"bytes=0-{stop - 1}"}
        return server.answer("GET", "/box/array.blp", headers, b"").body

    assert first(4) == first(4) == b"blpk"
    assert len(first(9)) == 9
    assert len(asked) == 2


@pytest.fixture
def blocks(bench):
    from remote import blocks

    return blocks


def test_wrong_blocks_stop_the_run(blocks, tmp_path, monkeypatch):
    from race.races import Races
    from remote.data import QUICK

    source = tmp_path / "source.npy"
    np.save(source, np.zeros((QUICK.dask_nbytes // 4096, 1024), "f4"))
    wrong = blocks.Contender(
        "wrong", blocks.write_ours, lambda path, rows: blocks.read_ours(path, rows) + 1
    )
    monkeypatch.setattr(blocks, "CONTENDERS", (wrong,))
    races = Races(QUICK, tmp_path, tmp_path, [], lambda line: None)

    with pytest.raises(AssertionError, match="wrong: the array that Dask reads is not"):
        blocks.race(races, source, "lz4", "threads")


def judged(run):
    from remote.figures import targets_of

    return [(one.work, one.found, one.met) for one in targets_of({"cases": [], **run})]


def counted(work, name, nrequests):
    """Return counts as a run has them; all others are right."""
    right = {
        "open": {OURS: [1, 9], STORE: [2, 9]},
        "row": {OURS: [1, 9]},
        "clip": {OURS: [1, 9], STORE: [1, 9]},
    }
    right[work][name] = [nrequests, 9]
    return {"S3": {key: {"title": key, "found": found} for key, found in right.items()}}


@pytest.mark.parametrize(
    ("work", "name", "nrequests"),
    [("open", OURS, 2), ("row", OURS, 2), ("row", OURS, 0), ("open", STORE, 3), ("clip", STORE, 2)],
)
def test_another_number_of_requests_misses_the_target(bench, work, name, nrequests):
    lines = judged({"counts": counted(work, name, nrequests)})

    assert len(lines) == 5
    assert [line for line in lines if line[2] != "yes"] == [
        (f"{name}, {work}, S3", str(nrequests), "no")
    ]


@pytest.mark.parametrize(("ours", "found", "met"), [(1.0, "1.00", "yes"), (1.01, "0.99", "no")])
def test_dask_is_next_to_zarr(bench, ours, found, met):
    case = {
        "key": "dask/read/lz4/threads",
        "title": "read",
        "nbytes": 1,
        "seconds": {OURS: [9.0, ours, 0.1], ZARR: [1.0], "zarr, crc32c": [0.1]},
        "skipped": {},
    }
    assert judged({"cases": [case]}) == [("Dask, read", found, met)]
