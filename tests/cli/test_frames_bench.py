"""``blpk frames bench``: every kind of source, with workers and without."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main
from bloscpack.integrations import loaderspeed

from ..conftest import SMALL_FORMATS, small_vectors


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["frames", "bench", "--json", "--seconds", "0.05", *arguments]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = tmp_path / "clips.blp"
    frames = np.random.default_rng(1).integers(0, 99, (20, 30, 40), "u1")
    with bp.frames.create(path, preset="fast") as clips:
        for number in range(3):
            clips.append(f"{number}", frames)
        clips.append("empty", frames[:0])
    return str(path)


def test_a_store_on_threads(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = bench(capsys, store, "--workers", "0", "--batch", "4", "--length", "5")
    assert (found["loader"], found["method"], found["nclips"]) == ("threads", None, 3)
    assert found["nsamples"] > 0
    assert found["samples_per_second"] > 0
    ratio = found["nbytes_per_second"] / found["samples_per_second"]
    assert ratio == pytest.approx(5 * 30 * 40)
    assert 0 < found["decoding_share"] <= 1
    assert 0.9 < found["read_amplification"] < 1.6
    assert found["hazards"] == []
    assert found["advice"]
    assert main(["frames", "bench", "--seconds", "0.05", "-w", "0", "--length", "0", store]) == 0
    text = capsys.readouterr().out
    assert "samples: whole clips of 3 clips, 8 a batch\nloader: one thread;" in text
    assert "advice: " in text


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_workers(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = bench(capsys, store, "--workers", "1", "--start-method", "fork")
    assert (found["loader"], found["method"]) == ("torch", "fork")
    assert "before CUDA" in found["hazards"][0]


def test_strides_waste_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = np.random.default_rng(1).integers(0, 99, (64, 30, 40), "u1")
    with bp.frames.create(tmp_path / "a.blp", preset="small") as clips:
        clips.append("a", frames)
    options = ("--workers", "0", "--length", "4", "--stride", "16")
    found = bench(capsys, str(tmp_path / "a.blp"), *options)
    assert found["read_amplification"] > 1.5
    assert "times the bytes of the frames" in found["advice"][1]


@pytest.mark.parametrize("name", small_vectors("recording.vrs", "gulp", "hevc.bzna"))
def test_other_sources(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = SMALL_FORMATS / name
    pytest.importorskip("av" if name.endswith(".bzna") else "simplejpeg")
    found = bench(capsys, str(path), "--workers", "0", "--length", "1")
    assert found["samples_per_second"] > 0


def test_advice() -> None:
    def advice(share: float, nworkers: int, amplification: float | None = 1.0) -> list[str]:
        return loaderspeed._advice("torch", share, nworkers, amplification, 4)

    assert advice(0.9, 2) == ["decoding limits the loader: use up to 4 workers"]
    assert "on all processors" in advice(0.9, 4)[0]
    assert advice(0.9, 6) == ["6 workers share 4 processors: use 4"]
    assert "30% of the workers' time" in advice(0.3, 2)[0]
    assert "fetch 2.5 times" in advice(0.3, 2, 2.5)[1]
    assert len(advice(0.3, 2, None)) == 1
    assert "threads' time" in loaderspeed._advice("threads", 0.3, 1, None, 4)[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "standard input has none"),
        (["x", "--workers", "-1"], "must be 0 to"),
        (["x", "--seconds", "0"], "must be a number of seconds"),
    ],
)
def test_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["frames", "bench", *arguments])
    except SystemExit as err:
        status = int(err.code or 0)
    assert status == 2
    assert message in capsys.readouterr().err


def test_without_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bp.frames.create(tmp_path / "none.blp"):
        pass
    assert main(["frames", "bench", str(tmp_path / "none.blp")]) == 1
    assert "no clip has frames" in capsys.readouterr().err
