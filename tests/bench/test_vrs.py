"""The benchmarks of VRS: they run, refuse wrong results, judge targets, and fill their page."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.slow

WHO = ("bloscpack", "bloscpack, arrays of 32 frames", "bloscpack, SyncVRSReader")

for needed in ("blosc", "zstandard"):
    pytest.importorskip(needed, reason="bench/ needs it: pip install --group bench")


@pytest.fixture(scope="module")
def quick_run(run, tmp_path_factory):
    """Run our own contenders on little data; return the path of the JSON and the output."""
    found = tmp_path_factory.mktemp("vrs") / "run.json"
    who = [word for name in WHO[:2] for word in ("--who", name)]
    result = run("-m", "race", "vrs", "--quick", *who, "--json", found)
    assert result.returncode == 0, result.stderr
    return found, result.stdout


def test_a_quick_run_does_all_the_work(quick_run):
    found, output = quick_run
    measured = json.loads(found.read_text())

    cases = {case["key"]: case for case in measured["cases"]}
    assert {key.split("/")[0] for key in cases} == {"records", "frames", "frame", "write"}
    for case in cases.values():
        assert all(len(rounds) == 2 for rounds in case["seconds"].values()), case["key"]
    assert tuple(cases["frames/zfast"]["seconds"]) == WHO[:2]
    assert tuple(cases["records/field"]["seconds"]) == WHO[:1]
    sizes = measured["motion_sizes"]
    # A record header of 32 bytes before each 36 bytes; then the index and the tags of streams.
    assert 68 < sizes["recording, raw"] / 500 < 77
    assert sizes["payloads alone"] == 500 * 36
    frames = measured["frame_sizes"]
    assert frames["Zstandard 7"]["recording"] < frames["raw"]["recording"]
    assert "\nTargets\n" in output


def test_the_page_is_written_from_a_run(run, quick_run, tmp_path):
    page = tmp_path / "page.md"

    result = run("-m", "race", "vrs", "--read", quick_run[0], "--page", page)

    assert result.returncode == 0, result.stderr
    text = page.read_text()
    assert text.startswith("# Benchmarks of VRS recordings\n")
    assert "| write small records | >= 100,000 a second | " in text
    assert "| raw frames | >= 0.9 times vrs | vrs is not there | - |" in text
    assert "## Records with metadata\n" in text


@pytest.fixture
def stored(bench, tmp_path):
    """A recording of a motion sensor, one of frames, and the recorded arrays."""
    from vrs.data import QUICK, make_frames, make_motion
    from vrs.with_bloscpack import Ours

    motion, frames = make_motion(QUICK)[:100], make_frames(QUICK)
    Ours().motion_writer(motion, "none")(tmp_path / "motion.vrs")
    Ours().frames_writer(frames, "zfast")(tmp_path / "frames.vrs")
    np.save(tmp_path / "motion.npy", motion)
    np.save(tmp_path / "frames.npy", frames)
    return tmp_path


def task(folder, work):
    what = "frames" if "frame" in work else "motion"
    return {
        "work": work,
        "path": str(folder / (f"new {what}.vrs" if work.startswith("write") else f"{what}.vrs")),
        "wanted": str(folder / f"{what}.npy"),
        "places": [3, 0, 17],
        "per_call": 2,
        "preset": "zfast",
    }


WORK = ("open", "records", "record", "field", "frames", "frame", "write motion", "write frames")


def test_a_worker_times_what_it_has_checked(stored):
    from race.worker import Worker

    worker = Worker("vrs", "bloscpack")
    try:
        for work in WORK:
            assert 0 < worker.prepare(**task(stored, work))(2) < 60
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("name", "work"),
    [(WHO[0], work) for work in WORK[1:6]]
    + [(WHO[1], "frames")]
    + [(WHO[2], work) for work in WORK[1:6]],
)
def test_a_wrong_value_stops_the_run(stored, name, work):
    from contextlib import ExitStack

    from race.races import assemble
    from vrs.contenders import TABLE, prepare

    ((contender,), _) = assemble(TABLE, [name])
    wanted = task(stored, work)["wanted"]
    values = np.load(wanted)
    if values.dtype == np.uint8:
        values[17, 47, 63] ^= 1
    else:
        values["accelerometer"][17, 2] += 0.5
    np.save(wanted, values)

    with ExitStack() as stack, pytest.raises(AssertionError, match="is not what was stored"):
        prepare(contender, task(stored, work), stack)


def test_the_end_of_a_worker_says_why(stored):
    from race.worker import Worker, WorkerError

    np.save(stored / "motion.npy", np.load(stored / "motion.npy")[:-1])
    worker = Worker("vrs", "bloscpack")
    try:
        with pytest.raises(WorkerError, match=r"(?s)of bloscpack has ended.*the number of records"):
            worker.prepare(**task(stored, "open"))
    finally:
        worker.close()


@pytest.mark.parametrize(("ours", "met"), [(1.42, "yes"), (1.44, "no")])
def test_a_target_is_met_by_the_ratio_of_medians(bench, ours, met):
    from vrs.figures import targets_of

    seconds = {"vrs": [9.0, 1.0, 0.5], "bloscpack": [0.1, ours, 9.0]}
    case = {"key": "records/all", "title": "", "nbytes": 1, "seconds": seconds, "skipped": {}}

    (target,) = targets_of({"cases": [case]})

    assert (target.work, target.target) == ("all records with metadata", ">= 0.7 times vrs")
    assert (target.found, target.met) == (f"{1 / ours:.2f}", met)


@pytest.mark.parametrize(("nbytes", "found", "met"), [(200, "3.00", "yes"), (201, "2.99", "no")])
def test_the_store_is_compared_with_the_recording(bench, nbytes, found, met):
    from vrs.figures import targets_of

    sizes = {"recording, raw": 600, "recording converted to a store": nbytes, "mcap, raw": 700}

    (target,) = targets_of({"cases": [], "motion_sizes": sizes})

    assert (target.found, target.met) == (found, met)


def test_without_the_conversion_the_figure_is_missing(bench):
    from vrs.figures import targets_of

    (target,) = targets_of({"cases": [], "motion_sizes": {"recording, raw": 600}})

    assert (target.found, target.met) == ("the conversion is not there", "-")


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
