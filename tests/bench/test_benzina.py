"""The benchmarks of Benzina datasets: they run, refuse wrong results, judge targets."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.slow

OURS, BARE, BARE_ONE = "bloscpack", "PyAV, on threads", "PyAV, threads of its own"
BYTES, TWIN = "bytes", "plain Python"
PILLOW, TORCH = "JPEG, Pillow", "JPEG, Pillow in DataLoader"

for needed in ("blosc", "zstandard", "PIL", "av"):
    pytest.importorskip(needed, reason="bench/ needs it: pip install --group benzina-bench")


@pytest.fixture(scope="module")
def quick_run(run, tmp_path_factory):
    """Run all contenders but torch on little data; return the path of the JSON and the output."""
    found = tmp_path_factory.mktemp("benzina") / "run.json"
    who = [word for name in (OURS, BARE, BARE_ONE, PILLOW, BYTES) for word in ("--who", name)]
    result = run("-m", "race", "benzina", "--quick", *who, "--json", found)
    assert result.returncode == 0, result.stderr
    return found, result.stdout


def test_a_quick_run_does_all_the_work(quick_run):
    found, output = quick_run
    measured = json.loads(found.read_text())

    raced = {case["key"]: tuple(case["seconds"]) for case in measured["cases"]}
    assert raced == {
        "load/1": (OURS, BARE, PILLOW),
        "load/2": (OURS, BARE, BARE_ONE, PILLOW),
        "index/tables": (OURS, BYTES),
        "index/targets": (OURS,),
        "sample/parse": (OURS,),
        "sample/bytes": (OURS, BYTES),
        "pack": (OURS, BARE, BARE_ONE),
    }
    for case in measured["cases"]:
        assert all(len(rounds) == 2 for rounds in case["seconds"].values()), case["key"]
    ours, reference, alone, jpeg = measured["sizes"].values()
    assert alone["nbytes"] < ours["nbytes"] < reference["nbytes"]
    # The lowest quality that is good enough.
    assert jpeg["psnr"] >= ours["psnr"] > 28
    assert 1 < jpeg["quality"] < 100
    assert "\nTargets\n" in output


def test_the_page_is_written_from_a_run(run, quick_run, tmp_path):
    page = tmp_path / "page.md"

    result = run("-m", "race", "benzina", "--read", quick_run[0], "--page", page)

    assert result.returncode == 0, result.stderr
    text = page.read_text()
    assert text.startswith("# Benchmarks of Benzina datasets\n")
    assert "| loader, 2 threads | >= 0.85 times PyAV alone | " in text
    assert "| loader next to JPEG, Pillow, 1 thread | none | " in text
    assert "## Loading\n" in text
    assert all(len(line) <= 100 for line in text.splitlines() if not line.startswith("|"))


@pytest.fixture(scope="module")
def tasks(bench, tmp_path_factory):
    """Return the maker of tasks of little data; the files of all contenders are there."""
    from benzina.cases import Pictures
    from benzina.data import QUICK

    folder = tmp_path_factory.mktemp("tasks")
    memory = folder / "memory"
    memory.mkdir()
    return Pictures(QUICK, folder, memory, [], lambda line: None)


EVERYTHING = [
    *((OURS, work) for work in ("load", "open", "targets", "sample", "parse", "pack")),
    *((name, work) for name in (BARE, BARE_ONE) for work in ("load", "pack")),
    (PILLOW, "load"),
    *((BYTES, work) for work in ("open", "sample")),
    (TWIN, "parse"),
]


def prepare(name, task):
    """Check the result of a task, and run it again."""
    from contextlib import ExitStack

    from benzina.contenders import TABLE, checked_call
    from race.races import assemble

    ((contender,), _) = assemble(TABLE, [name])
    with ExitStack() as stack:
        checked_call(contender, task, stack)()


@pytest.mark.parametrize(("name", "work"), EVERYTHING)
def test_right_results_are_accepted(tasks, name, work):
    prepare(name, tasks.task(work, 2))


def rewritten(path, folder, name, change):
    """Return the path of a copy of the arrays, with `change` applied to `name` or the first."""
    with np.load(path) as stored:
        arrays = {key: stored[key] for key in stored.files}
    name = name or next(iter(arrays))
    arrays[name] = change(arrays[name])
    np.savez(folder / "other.npz", **arrays)
    return str(folder / "other.npz")


def wrong(task, folder):
    """Return a task whose stored data differ from the expected result."""
    work = task["work"]
    if work == "load":
        # Upside down it is about as bright.
        return task | {"wanted": rewritten(task["wanted"], folder, "", lambda one: one[::-1])}
    if work == "open":
        tables = rewritten(task["tables"], folder, "bzna_fname offsets", lambda one: one + 1)
        return task | {"tables": tables, "moov_offset": task["moov_offset"] - 1}
    if work == "targets":
        return task | {"targets_offset": task["targets_offset"] + 8}
    if work == "sample":
        (offset, nbytes), *others = task["extents"]
        return task | {"extents": [(offset + 1, nbytes), *others]}
    if work == "parse":
        *others, (offset, nbytes) = task["thumbs"]
        return task | {"thumbs": [*others, (offset, nbytes + 1)]}
    return task | {"payload_nbytes": task["payload_nbytes"] * 33 // 32}


@pytest.mark.parametrize(("name", "work"), [one for one in EVERYTHING if one != (OURS, "pack")])
def test_a_wrong_result_stops_the_run(tasks, tmp_path, name, work):
    task = wrong(tasks.task(work, 2), tmp_path)

    with pytest.raises(AssertionError, match="is not what was stored"):
        prepare(name, task)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda items: items[::-1],
        lambda items: [(picture[::-1], number) for picture, number in items],
        lambda items: items[1:],
    ],
    ids=["order", "pixels", "count"],
)
def test_pictures_packed_wrongly_stop_the_run(tasks, monkeypatch, spoil):
    from bloscpack import benzina

    pack = benzina.pack
    monkeypatch.setattr(
        benzina, "pack", lambda items, path, **options: pack(spoil(items), path, **options)
    )

    with pytest.raises(AssertionError, match="is not what was stored"):
        prepare(OURS, tasks.task("pack", 2))


def test_the_target_of_another_picture_stops_the_run(tasks, tmp_path):
    from bloscpack import benzina

    task = tasks.task("load", 2)
    path = tmp_path / "other.bzna"
    with benzina.open(task["path"]) as dataset, benzina.Writer(path) as writer:
        for number, sample in enumerate(dataset.samples()):
            writer.add_encoded(sample.data, number ^ 1)

    with pytest.raises(AssertionError, match="the number of picture 0 is not"):
        prepare(OURS, task | {"path": str(path)})


@pytest.mark.parametrize("name", [OURS, PILLOW])
def test_missing_pictures_stop_the_run(tasks, name):
    task = tasks.task("load", 2)
    task["nsamples"] += 1

    with pytest.raises((AssertionError, FileNotFoundError)):
        prepare(name, task)


def test_torch_works_in_a_process(tasks, tmp_path):
    pytest.importorskip("torch")
    from race.worker import Worker, WorkerError

    task = tasks.task("load", 1)
    worker = Worker("benzina", TORCH)
    try:
        assert 0 < worker.prepare(**task)(1) < 60
        with pytest.raises(WorkerError, match=r"(?s)in DataLoader has ended.*picture 0, .* dB"):
            worker.prepare(**wrong(task, tmp_path))
    finally:
        worker.close()


# Where bisection of 1 to 100 begins, and others.
@pytest.mark.parametrize("quality", [12, 50, 75, 91])
def test_the_lowest_quality_that_is_good_enough_is_found(tasks, quality):
    from benzina.jpeg import decode, encode, find_quality, psnr

    decoded = [decode(encode(one, quality)) for one in tasks.pictures]

    assert find_quality(tasks.pictures, psnr(tasks.pictures, decoded)) == quality


def case(key, **seconds):
    """Return a race as a run has it."""
    names = {"ours": OURS, "bare": BARE, "one": BARE_ONE, "bytes": BYTES, "pillow": PILLOW}
    by_name = {names[who]: [9 * value, value, value / 9] for who, value in seconds.items()}
    return {"key": key, "title": key, "nbytes": 1, "seconds": by_name, "skipped": {}}


def judged(*cases):
    from benzina.figures import targets_of

    return [(one.work, one.found, one.met) for one in targets_of({"cases": list(cases)})]


@pytest.mark.parametrize(("ours", "found", "met"), [(1.17, "0.85", "yes"), (1.19, "0.84", "no")])
def test_the_loader_is_next_to_the_faster_of_the_bare_ones(bench, ours, found, met):
    line = ("loader, load/2", f"{found} ({BARE_ONE})", met)
    assert judged(case("load/2", ours=ours, bare=1.2, one=1.0)) == [line]


@pytest.mark.parametrize(("ours", "found", "met"), [(1.11, "0.90", "yes"), (1.12, "0.89", "no")])
def test_packing_is_next_to_libx265(bench, ours, found, met):
    line = ("packing, pack", f"{found} ({BARE})", met)
    assert judged(case("pack", ours=ours, bare=1.0, one=1.3)) == [line]


@pytest.mark.parametrize(("ours", "found", "met"), [(3.0, "3.00", "yes"), (3.02, "3.02", "no")])
def test_the_index_is_next_to_its_bytes(bench, ours, found, met):
    line = ("open with index/tables", found, met)
    assert judged(case("index/tables", ours=ours, bytes=1.0)) == [line]


@pytest.mark.parametrize(("ours", "found", "met"), [(8e-6, "8.00", "yes"), (8.1e-6, "8.10", "no")])
def test_a_sample_is_parsed_in_time(bench, ours, found, met):
    assert judged(case("sample/parse", ours=ours)) == [("parse a sample", f"{found} us", met)]


def test_next_to_jpeg_nothing_is_expected(bench):
    without, line = judged(case("load/1", ours=4.0, pillow=1.0))
    assert without == ("loader, load/1", "PyAV alone was not raced", "-")
    assert line == (f"loader next to {PILLOW}, load/1", "0.25", "-")
