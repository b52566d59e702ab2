"""The race with the peers: it runs, refuses wrong results, counts damage, and fills its page."""

import json
from signal import SIGALRM

import numpy as np
import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("blosc", reason="bench/ needs blosc: pip install --group bench")


@pytest.fixture(scope="module")
def quick_run(run, tmp_path_factory):
    """Run our own contender on little data; return the path of the JSON and the output."""
    found = tmp_path_factory.mktemp("peers") / "run.json"
    result = run("-m", "race", "peers", "--quick", "--who", "bloscpack", "--json", found,
                 BLOSCPACK_ORACLE=str(found.parent / "none"))  # fmt: skip
    assert result.returncode == 0, result.stderr
    return found, result.stdout


def test_a_quick_run_does_all_the_work(quick_run):
    found, output = quick_run
    measured = json.loads(found.read_text())

    keys = {case["key"].split("/")[0] for case in measured["cases"]}
    assert {"read", "write", "row", "first", "block", "stride", "iterate", "open", "shape"} <= keys
    for case in measured["cases"]:
        if case["key"].startswith(("threads/", "append")):
            continue
        assert len(case["seconds"]["bloscpack"]) == 2, case["key"]
        assert all(0 < seconds < 60 for seconds in case["seconds"]["bloscpack"])
    assert measured["flips"]["bloscpack"]["data"]["wrong"] == 0
    assert measured["truncation"]["bloscpack"]["chunks"]["wrong"] == 0
    assert "\nTargets\n" in output


def test_the_page_keeps_the_part_it_does_not_write(run, quick_run, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Benchmarks\n\nThe first part.\n")

    for _ in range(2):  # the second run replaces the text of the first
        result = run("-m", "race", "peers", "--read", quick_run[0], "--page", page)
        assert result.returncode == 0, result.stderr
        text = page.read_text()
        assert text.startswith("# Benchmarks\n\nThe first part.\n\n# How far from the limit")
        assert text.count("# How far from the limit") == 1
        assert "| whole read, zstd-3, 1 MiB | >= 0.90 of bare C-Blosc | " in text
        assert "| bloscpack 0.16 | not there | not there | not there | not there |" in text


def test_a_wrong_result_stops_the_run(run, tmp_path):
    script = tmp_path / "broken.py"
    script.write_text(
        "import sys\n"
        "import bloscpack\n"
        "import numpy as np\n"
        "from race.__main__ import main\n"
        "honest = bloscpack.load\n"
        "bloscpack.load = lambda *args, **kwargs: honest(*args, **kwargs) + np.float32(0.25)\n"
        "sys.exit(main(['peers', '--quick', '--who', 'bloscpack', '--only', 'whole']))\n"
    )

    result = run(script, BLOSCPACK_ORACLE=str(tmp_path))

    assert result.returncode == 1
    assert "bloscpack: the array is not what was stored" in result.stderr


def test_a_crash_counts_and_the_trials_go_on(bench, monkeypatch, tmp_path):
    from types import SimpleNamespace

    from peers import damage
    from peers.data import QUICK, field
    from peers.with_bloscpack import Ours

    nflips = 3
    ends = iter([(-6, ["right"]), (-SIGALRM, ["wrong"]), (0, ["raised", "wrong"])])
    asked = []

    def work(action, name, path, array, trials, first):
        asked.append(first)
        return next(ends)

    monkeypatch.setattr(damage, "_work", work)
    np.save(tmp_path / "array.npy", field(300))
    setting = SimpleNamespace(**{name: getattr(QUICK, name) for name in QUICK.__slots__})
    setting.nflips = nflips

    counts = damage._flip_one(SimpleNamespace(setting=setting), tmp_path, Ours())

    assert asked == [0, 2, 4]
    assert counts["data"] == {"right": 1, "raised": 0, "wrong": 1, "crashed": 1, "hung": 0}
    assert counts["header"] == {"right": 0, "raised": 1, "wrong": 1, "crashed": 0, "hung": 1}


def test_flips_hit_the_region_they_are_counted_in(bench, tmp_path):
    from peers.damage import _choose_trials
    from peers.data import ZSTD, field
    from peers.with_bloscpack import Ours, chunk_places

    path = tmp_path / "array.blp"
    Ours().write(path, field(600), ZSTD)
    places = chunk_places(path)

    trials = _choose_trials(Ours(), path, 200)

    assert len(places) == 3
    for trial in trials:
        is_data = any(offset <= trial.offset < offset + size + 4 for offset, size in places)
        assert is_data == (trial.region == "data"), trial
        assert 0 <= trial.offset < path.stat().st_size


def test_the_judge_names_every_outcome(bench):
    from peers.damage import judge

    wanted = np.arange(4, dtype=np.float32)

    def refuse():
        raise MemoryError

    for read, outcome in (
        (wanted.copy, "right"),
        (lambda: wanted + np.float32(1), "wrong"),
        (lambda: wanted[:3], "wrong"),
        (lambda: wanted.view(np.int32), "wrong"),
        (refuse, "raised"),
    ):
        assert judge(read, wanted) == outcome


@pytest.mark.parametrize(("ours", "is_met"), [(1.0, True), (1.2, False)])
def test_a_target_is_met_by_its_ratio(bench, ours, is_met):
    from peers.figures import targets_of

    measured = {
        "nthreads": 2,
        "setting": {"ntiny": 9},
        "cases": [
            {
                "key": "read/zstd-3, 1 MiB",
                "title": "whole read",
                "nbytes": 1,
                "seconds": {"bloscpack": [ours, 9.0, 0.1], "C-Blosc": [0.95], "zarrs": [1.1]},
                "skipped": {},
            }
        ],
        "flips": {
            "bloscpack": {
                region: {"right": 1, "raised": 9, "wrong": 0, "crashed": 0, "hung": not is_met}
                for region in ("data", "header")
            }
        },
    }

    found = {(target.work, target.target): target for target in targets_of(measured)}

    work = "whole read, zstd-3, 1 MiB"
    limit = found[work, ">= 0.90 of bare C-Blosc"]
    assert limit.found == f"{0.95 / ours:.2f}"
    assert (limit.met == "yes") == is_met
    assert found[work, "ahead of every peer"].found == f"{1.1 / ours:.2f} times zarrs"
    assert (found[work, "ahead of every peer"].met == "yes") == is_met
    for region in ("data", "header"):
        flips = found[f"bit flips in the {region}", "0 silently wrong results"]
        assert (flips.met == "yes") == is_met


@pytest.mark.parametrize(("ours", "found", "met"), [(0.25, "0.25", "yes"), (0.26, "0.26", "no")])
def test_opening_a_file_of_fixed_size_is_compared_with_h5py(bench, ours, found, met):
    from peers.figures import targets_of

    title = "open a file of fixed size, read its shape"
    seconds = {"bloscpack": [9.0, ours, 0.1], "h5py": [1.0]}
    case = {"key": "shape", "title": title, "nbytes": 0, "seconds": seconds, "skipped": {}}

    (target,) = targets_of({"nthreads": 2, "setting": {"ntiny": 9}, "cases": [case]})

    assert (target.work, target.target) == (title, "<= 0.25 of the time of h5py")
    assert (target.found, target.met) == (found, met)


def test_a_wrong_shape_stops_the_run(run, tmp_path):
    script = tmp_path / "broken.py"
    script.write_text(
        "import sys\n"
        "from contextlib import nullcontext\n"
        "from types import SimpleNamespace\n"
        "from peers.with_bloscpack import Ours\n"
        "from race.__main__ import main\n"
        "Ours.open = lambda self, path: nullcontext(SimpleNamespace(shape=(1, 1000)))\n"
        "sys.exit(main(['peers', '--quick', '--who', 'bloscpack', '--only', 'files']))\n"
    )

    result = run(script, BLOSCPACK_ORACLE=str(tmp_path))

    assert result.returncode == 1
    assert "bloscpack: the shape is not what was stored" in result.stderr
