"""The benchmark of Dask: it runs, and refuses wrong results."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"

for needed in ("zarr", "distributed"):
    pytest.importorskip(needed, reason="the benchmark needs it: pip install '.[dask,peers]'")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    import dask_blocks

    return dask_blocks


def test_it_runs(
    bench: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = tmp_path / "found.json"
    command = ["dask_blocks.py", "--quick", "--on", "threads", "--json", str(found)]
    monkeypatch.setattr(sys, "argv", command)
    assert bench.main() == 0
    told = capsys.readouterr().out
    seconds = json.loads(found.read_text())["seconds"]
    assert list(seconds) == [
        f"{what}, {codec}, threads" for codec in ("zstd", "lz4") for what in ("write", "read")
    ]
    assert {name for case in seconds.values() for name in case} == {
        "bloscpack",
        "zarr",
        "zarr, crc32c",
    }
    for title in seconds:
        assert title in told


def test_wrong_results_are_refused(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.npy"
    np.save(source, np.zeros((8192, 1024), "f4"))
    wrong = bench.Contender(
        "wrong",
        bench.write_ours,
        lambda path, rows: bench.read_ours(path, rows) + 1,
    )
    monkeypatch.setattr(bench, "CONTENDERS", (wrong,))
    with pytest.raises(ValueError, match="wrong gives other values"):
        list(bench.race(source, "lz4", "threads", 1))
