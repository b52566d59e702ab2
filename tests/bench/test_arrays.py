"""The race of array chunks: it runs, refuses wrong results, and fills its page."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.slow

OURS, AUTO = "bloscpack", "bloscpack, auto"

for needed in ("blosc", "zstandard"):
    pytest.importorskip(needed, reason="bench/ needs it: pip install --group bench")


@pytest.fixture(scope="module")
def quick_run(run, tmp_path_factory):
    """Run our own contenders on arrays that ship or are made; return the path of the JSON."""
    found = tmp_path_factory.mktemp("arrays") / "run.json"
    result = run("-m", "race", "arrays", "--quick", "--who", AUTO, "--json", found,
                 BLOSCPACK_DATA=str(found.parent))  # fmt: skip
    assert result.returncode == 0, result.stderr
    return found


def test_a_quick_run_does_all_the_work(quick_run):
    measured = json.loads(quick_run.read_text())

    cases = {case["key"]: case for case in measured["cases"]}
    assert {key.split("/")[0] for key in cases} == {"read", "write", "cube", "threads"}
    for key, case in cases.items():
        if not key.startswith("threads/"):
            assert set(case["seconds"]) == {OURS, AUTO}, key
            assert all(0 < seconds < 60 for seconds in case["seconds"][AUTO])
    assert cases.keys() >= {"cube/tile", "cube/stack", "cube/series", "threads/write/int16"}
    assert {"film_u1", "noise_f8"} < measured["arrays"].keys() == measured["sizes"].keys()
    for name, sizes in measured["sizes"].items():
        assert sizes[AUTO] <= sizes[OURS] < 1.01 * measured["arrays"][name]["nbytes"]
    # A stack takes more chunks from the file than a tile, a series only one.
    nread = {key: found[AUTO] for key, found in measured["nread"].items()}
    assert nread["cube/stack"] > nread["cube/tile"] > 0


def test_the_page_is_written_from_a_run(run, quick_run, tmp_path):
    page = tmp_path / "page.md"

    result = run("-m", "race", "arrays", "--read", quick_run, "--page", page)

    assert result.returncode == 0, result.stderr
    text = page.read_text()
    assert text.startswith("# Benchmarks of array chunks\n")
    assert "- arrays: 0 measured, 6 others\n" in text
    for title in ("Against other formats and codecs", "By kind of data", "By item", "By array",
                  "Parts of a cube", "All threads against one"):  # fmt: skip
        assert f"\n## {title}\n" in text
    assert "\n## Targets\n" not in text
    assert all(len(line) <= 100 for line in text.splitlines() if not line.startswith("|"))


def test_a_wrong_result_stops_the_run(run, tmp_path):
    script = tmp_path / "broken.py"
    script.write_text(
        "import sys\n"
        "from arrays.formats import Auto\n"
        "from race.__main__ import main\n"
        "Auto.read = lambda self, handle, like: -handle[...]\n"
        "sys.exit(main(['arrays', '--quick', '--who', 'bloscpack, auto', '--only', 'whole']))\n"
    )

    result = run(script, BLOSCPACK_DATA=str(tmp_path))

    assert result.returncode == 1
    assert "bloscpack, auto: film_u1 is not what was stored" in result.stderr


@pytest.mark.parametrize("wrong", [
    np.array([0.0, np.nan]), np.array([-0.0, np.inf]), np.array([-0.0]),
    np.array([-0.0, np.nan], "f4"),
])  # fmt: skip
def test_every_bit_is_compared(bench, wrong):
    from arrays.cases import require_same

    wanted = np.array([-0.0, np.nan])
    require_same(wanted.copy(), wanted, "it", "the array")
    with pytest.raises(AssertionError, match="it: the array is not what was stored"):
        require_same(wrong, wanted, "it", "the array")


def test_the_clock_of_a_loop_can_be_another(bench):
    from race.timing import loop_of, timed_loop

    ticks = iter([1.0, 4.0, 10.0, 11.0, 20.0, 22.0])
    clock = lambda: next(ticks)  # noqa: E731

    assert loop_of(lambda: None, clock=clock)(2) == 3.0
    assert timed_loop(lambda: None, clock=clock)(2) == 1.0 + 2.0


def test_measured_arrays_are_read_where_they_are_present(bench, tmp_path, monkeypatch):
    import lzma

    from arrays import data

    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    stored = np.arange(6, dtype=bfloat16).reshape(2, 3)
    folder = tmp_path / "arrays"
    folder.mkdir()
    np.save(tmp_path / "embed_bf16.npy", stored.view("V2"))
    content = (tmp_path / "embed_bf16.npy").read_bytes()
    (folder / "embed_bf16.npy.xz").write_bytes(lzma.compress(content))
    monkeypatch.setattr(data, "FOLDER", tmp_path)

    first, second, *_ = data.make_samples(data.QUICK)

    assert (first.name, first.kind, first.is_measured) == ("embed_bf16", "embeddings", True)
    assert first.array.dtype == bfloat16
    assert np.array_equal(first.array, stored)
    assert first.plain.dtype == "u2"
    assert first.plain.tobytes() == stored.tobytes()
    assert not second.is_measured


def test_means_are_over_measured_arrays_that_a_contender_stored(bench):
    from arrays.figures import Figures

    sizes = {
        "a": {OURS: 40, AUTO: 20, "blosc2": 30, "zarr": 25, "pcodec 8": 10},
        "b": {OURS: 40, AUTO: 10, "blosc2": 20, "zarr": 80},
        "made": {OURS: 1000, AUTO: 1, "blosc2": 1},
    }
    facts = {"kind": "all", "items": "all", "about": "", "nbytes": 8_000_000}
    seconds = {OURS: [9.0, 2.0], AUTO: [1.0, 3.0]}
    run = {
        "arrays": {name: {**facts, "is_measured": name != "made"} for name in sizes},
        "sizes": sizes,
        "cases": [
            {"key": f"{key}/{name}", "title": "", "nbytes": 1, "seconds": seconds, "skipped": {}}
            for key in ("read", "write")
            for name in sizes
        ],
    }

    lines = {line[0]: line[1:] for line in Figures(run).contenders()}
    (_, group), (_, *each) = Figures(run).groups("kind"), Figures(run).each()

    assert lines[OURS] == ("2", "1.00", "0.35", "4", "8", "4")
    assert lines[AUTO] == ("2", "0.35", "1.00", "8", "8", "8")
    assert lines["blosc2 or zarr"] == ("2", "0.56", "0.63", "-", "8", "-")
    assert lines["pcodec 8"] == ("1", "0.25", "2.00", "-", "8", "-")
    assert lines["smallest other"][1:3] == ("0.35", "1.00")
    assert group[:2] == ("all", "3")
    assert group[4] == "2.00"  # pcodec stored one of them
    assert group[-3:] == ("8", "2.00", "2.00")
    assert each[0] == ("a", "", "200000.00", "400000.00", "800000.00, pcodec 8", "4", "8")


def test_chunks_for_others_are_those_that_are_chosen_for_us(bench, tmp_path):
    from arrays import cases
    from arrays.data import QUICK

    import bloscpack as bp

    races = cases.Arrays(QUICK, tmp_path, tmp_path, [OURS], lambda line: None)
    asked = {}
    with pytest.MonkeyPatch.context() as patch, races.closing:
        patch.setattr(cases, "_race_places",
                      lambda races, case, array, places, names, chunks=None:
                      asked.__setitem__(case.key, (array, chunks)))  # fmt: skip
        cases.race_parts(races)

    for key, access in (("cube/tile", "tiles"), ("cube/stack", "tiles"), ("cube/series", "series")):
        array, chunks = asked[key]
        bp.save(tmp_path / key.replace("/", " "), array, chunks="auto", access=access)
        with bp.open(tmp_path / key.replace("/", " ")) as ours:
            assert ours.chunks == chunks
