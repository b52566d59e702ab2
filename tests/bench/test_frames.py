"""The benchmarks of frames: they run, refuse wrong results, judge targets, and fill their page."""

import json
import pickle
import sys

import numpy as np
import pytest

from ..test_layers import FILE_TYPES

pytestmark = pytest.mark.slow

WHO = (
    *(["bloscpack, Gulp directory"] if "gulp" in FILE_TYPES else []),
    "bloscpack, JPEG",
    "bloscpack, small, 1 thread",
)

for needed in ("blosc", "zstandard", "simplejpeg", "PIL", "av"):
    pytest.importorskip(needed, reason="bench/ needs it: pip install '.[bench,image,video]'")


@pytest.fixture(scope="module")
def quick_run(run, tmp_path_factory):
    """Run some of our own contenders on little data; return the path of the JSON and the output."""
    found = tmp_path_factory.mktemp("frames") / "run.json"
    work = [word for name in ("clips", "codecs", "opening", "ingest") for word in ("--only", name)]
    who = [word for name in WHO for word in ("--who", name)]
    result = run("-m", "race", "frames", "--quick", *who, *work, "--json", found,
                 BLOSCPACK_DATA="none")  # fmt: skip
    assert result.returncode == 0, result.stderr
    return found, result.stdout


def test_a_quick_run_does_all_the_work(quick_run):
    found, output = quick_run
    measured = json.loads(found.read_text())

    cases = {case["key"]: case for case in measured["cases"]}
    kinds = {"clip", "single", "batch", "decode", "encode", "ingest"}
    assert {key.split("/")[0] for key in cases} == kinds
    del cases["batch/animation"]  # of contenders that are not chosen here
    for case in cases.values():
        assert all(len(rounds) == 2 for rounds in case["seconds"].values()), case["key"]
    names = cases["clip/animation"]["seconds"]
    assert tuple(names) == WHO
    assert measured["sizes"]["animation"]["bloscpack, JPEG"] < 48 * 64 * 3
    assert "\nTargets\n" in output


def test_the_page_is_written_from_a_run(run, quick_run, tmp_path):
    page = tmp_path / "page.md"

    result = run("-m", "race", "frames", "--read", quick_run[0], "--page", page)

    assert result.returncode == 0, result.stderr
    text = page.read_text()
    assert text.startswith("# Benchmarks of frames\n")
    assert "| open a store of 2,000 frames | <= 20 ms | " in text
    assert "## Clips: many frames with a stride\n" in text


def test_spawned_workers_of_a_loader_get_the_contender(bench):
    from frames.contenders import TABLE
    from race.races import assemble

    present, _ = assemble(TABLE)
    assert present
    for contender in present:
        assert pickle.loads(pickle.dumps(contender)).name == contender.name


@pytest.fixture
def task(bench, tmp_path):
    """A task for a reader of a small store."""
    from frames.with_bloscpack import Store

    frames = np.random.default_rng(2).integers(0, 9, (8, 32, 48, 3), dtype=np.uint8)
    Store("small").write(tmp_path / "store.blp", ["a", "b"], frames)
    np.save(tmp_path / "frames.npy", frames)
    return {
        "path": str(tmp_path / "store.blp"),
        "wanted": str(tmp_path / "frames.npy"),
        "places": [["a", 1, 8, 2], ["b", 3]],
        "per_call": 2,
        "bare": False,
        "batch": 0,
    }


def test_a_reader_times_what_it_has_checked(task):
    from frames.contenders import STORE_SMALL
    from race.worker import Worker

    reader = Worker("frames", STORE_SMALL)
    try:
        for bare, places in ((False, task["places"]), (True, [["a", 1], ["b", 7]])):
            loop = reader.prepare(**{**task, "bare": bare, "places": places})
            assert 0 < loop(3) < 60
    finally:
        reader.close()


def test_a_wrong_frame_stops_the_run(task):
    from frames.contenders import STORE_SMALL
    from race.worker import Worker, WorkerError

    wanted = np.load(task["wanted"])
    wanted[5, 31, 47, 2] ^= 1
    np.save(task["wanted"], wanted)
    reader = Worker("frames", STORE_SMALL)
    try:
        with pytest.raises(WorkerError, match=r"bloscpack, small has ended") as caught:
            reader.prepare(**task)
    finally:
        reader.close()
    wrong = "AssertionError: bloscpack, small: a, frames slice(1, 8, 2) is not what was stored"
    assert wrong in str(caught.value)


@pytest.mark.parametrize(("ours", "met"), [(0.099, "yes"), (0.101, "1 of 2")])
def test_a_target_is_met_by_the_ratio_of_medians(bench, ours, met):
    from frames.figures import targets_of

    def case(clip, seconds):
        theirs = {"GulpIO2": [9.0, 1.0, 0.5], "bloscpack, fast": [seconds]}
        return {"key": f"clip/{clip}", "title": clip, "nbytes": 1, "seconds": theirs, "skipped": {}}

    measured = {"cases": [case("animation", ours), case("static camera", 0.1)]}

    (target,) = targets_of(measured)

    assert target.work == "clips, store, lossless, fast, all processors"
    assert target.target == ">= 10 times GulpIO2"
    assert target.found == f"animation {1 / ours:.2f}, static camera 10.00"
    assert target.met == met


def test_a_hang_of_a_loader_is_not_a_success(bench):
    from frames.figures import targets_of

    def case(method, seconds, skipped):
        about = {"key": f"loading/{method}", "title": method, "nbytes": 0}
        return {**about, "seconds": seconds, "skipped": skipped}

    spawn = {"bloscpack, fast": "did not finish within 120 s", "GulpIO2": "not there"}
    fork = case("fork", {"GulpIO2": [2.0], "bloscpack, fast": [1.0]}, {})

    speed, end = targets_of({"cases": [fork, case("spawn", {}, spawn)]})

    assert (speed.found, speed.met) == ("fork 2.00", "yes")
    assert end.found == "spawn, bloscpack, fast: did not finish within 120 s"
    assert end.met == "no"


def test_a_worker_that_hangs_is_killed(bench):
    from race.worker import Process, WorkerError

    process = Process("sleeper", sys.executable, "-c", "input(); input()", timeout=0.5)
    try:
        with pytest.raises(WorkerError, match=r"did not finish within 0\.5 s"):
            process.ask(count=1)
    finally:
        process.close()


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_loader_is_checked_and_measured(task, is_wrong):
    pytest.importorskip("torch")
    from frames.contenders import STORE_SMALL
    from race.worker import Worker, WorkerError

    if is_wrong:
        np.save(task["wanted"], np.load(task["wanted"]) + 1)
    del task["places"], task["batch"]
    worker = Worker("frames", STORE_SMALL, timeout=60)
    order = {**task, "ids": ["a", "b"], "method": "fork", "is_threaded": False}
    try:
        if is_wrong:
            with pytest.raises(WorkerError, match="a window is not what was stored"):
                worker.prepare(**order, nframes=8, length=4, batch=2)
            return
        loop = worker.prepare(**order, nframes=8, length=4, batch=2)
        main, *workers = worker.memory()
        assert 0 < loop(1) < 60
    finally:
        worker.close()
    assert len(workers) == 2
    assert all(1e6 < one < 2e9 for one in (main, *workers))
    assert loop.processor[0] > 0


def test_frames_of_video_are_near_but_not_those_of_another(bench):
    from frames.contenders import is_near

    rng = np.random.default_rng(3)
    frames = rng.integers(2, 250, (3, 16, 16, 3), dtype=np.uint8)

    assert is_near(frames + np.uint8(2), frames)
    assert not is_near(frames + np.uint8(3), frames)
    assert not is_near(frames[:2], frames)


def test_jpeg_bytes_are_found_for_a_quality(bench):
    from frames.data import load_animation
    from frames.videofiles import jpeg_nbytes, psnr

    from bloscpack.media import image

    frames = load_animation(2)
    coded = [image.encode_jpeg(one, quality=70, subsampling="420") for one in frames]
    pixels = np.stack([image.decode(one) for one in coded])

    found = jpeg_nbytes(frames, psnr(pixels, frames))

    assert found == pytest.approx(sum(map(len, coded)) / 2)
    assert jpeg_nbytes(frames, 99.0) is None


def test_bare_decoding_follows_references(bench):
    from frames.bare import BareClip

    from bloscpack.frames.store.lossless import choose

    rng = np.random.default_rng(1)
    still = rng.integers(0, 256, (64, 96, 3), dtype=np.uint8)
    frames = np.repeat(still[None], 16, axis=0)
    frames[:, 10:20, 10:20] += np.arange(16, dtype=np.uint8)[:, None, None, None]

    clip = BareClip.encode(frames, choose(frames, "small"))

    assert clip.cbytes < frames.nbytes / 4  # so that frames do refer to each other
    assert np.array_equal(clip.decode_first(16), frames)
    for number in (0, 7, 15):
        assert np.array_equal(clip.decode(number), frames[number])
