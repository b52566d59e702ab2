"""The demo runs to its end, and the benchmarks run and fill the page."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"


def run(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # A pytest of its own, not a worker of this one's.
    own = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    env = {**own, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.slow
def test_demo_checks_and_reports(tmp_path):
    user_file = tmp_path / "notes.txt"
    user_file.write_bytes(b"a line of notes\n" * 9999)

    result = run(BENCH / "demo.py", user_file, cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    for said in (
        "chunk     4 read at byte",
        "slice     a[3:90:2, 60:180, ::4] -> (44, 120, 64): equals numpy's",
        "chunks, 23592960 bytes: no damage",
        "refused, chunk 4 fails its crc32",
        "savez_compressed",
        "frame store, small",
        "unpacked  equal to the file, byte for byte",
        "Everything came back as it went in.",
    ):
        assert said in result.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_demo_fails_without_the_file_named(tmp_path):
    result = run(BENCH / "demo.py", tmp_path / "absent", cwd=tmp_path)

    assert result.returncode == 1
    assert "FAILED" in result.stderr
    assert "Everything came back" not in result.stdout


def test_demo_fails_when_data_come_back_wrong(tmp_path):
    # The package as it is, but for one slice that comes back with a wrong pixel.
    script = tmp_path / "broken.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(BENCH)!r})\n"
        "import bloscpack, demo\n"
        "honest = bloscpack.Array.__getitem__\n"
        "bloscpack.Array.__getitem__ = lambda self, index: -honest(self, index)\n"
        "sys.exit(demo.main([]))\n"
    )

    result = run(script, cwd=tmp_path)

    assert result.returncode == 1
    assert "the slice differs" in result.stderr


def needs_benchmarks():
    for package in ("blosc", "pytest_benchmark"):
        pytest.importorskip(package, reason=f"bench/ needs {package}: pip install --group bench")


@pytest.mark.slow
def test_every_benchmark_is_collected(tmp_path):
    needs_benchmarks()
    result = run("-m", "pytest", BENCH, "--collect-only", "-q", "-p", "no:cacheprovider", cwd=ROOT)

    assert result.returncode == 0, result.stdout + result.stderr
    for file in BENCH.glob("test_*.py"):
        assert f"{file.name}::" in result.stdout


@pytest.mark.slow
def test_a_small_run_fills_the_page(tmp_path):
    needs_benchmarks()
    # In a copy, where neither the original nor the tools that would build it can be found.
    found = tmp_path / "run.json"
    bench = tmp_path / "project" / "bench"
    for file in [*BENCH.glob("*.py"), *BENCH.glob("peers/*.py"), *BENCH.glob("race/*.py")]:
        copy = bench / file.relative_to(BENCH)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())

    command = [
        "-m",
        "pytest",
        bench,
        "-q",
        "-k",
        "1 and KiB and float64 and not new",
        "--benchmark-only",
    ]
    result = run(
        *command,
        f"--benchmark-json={found}",
        "-p",
        "no:cacheprovider",
        cwd=bench.parent,
        BLOSCPACK_ORACLE=str(tmp_path / "none"),
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "no bloscpack 0.16 in" in result.stdout
    benchmarks = json.loads(found.read_text())["benchmarks"]
    assert {(one["extra_info"]["case"], one["extra_info"]["who"]) for one in benchmarks} == {
        (f"{verb} 1 KiB float64 blosclz-7", who)
        for verb in ("pack", "unpack")
        for who in ("bloscpack", "C-Blosc")
    }
    for one in benchmarks:
        speed = one["extra_info"]["mb_per_s"]
        assert speed == pytest.approx(1024 / one["stats"]["min"] / 1e6)
        assert 1e-7 < one["stats"]["min"] <= one["stats"]["median"] < 1e-2

    page = tmp_path / "page.md"
    peers = "# How far from the limit, and how far ahead of peers\n\nThe other part.\n"
    page.write_text(f"# Benchmarks\n\nAn older run.\n\n{peers}")
    result = run(bench / "page.py", found, "-o", page, cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert "| pack 1 KiB float64 blosclz-7 | " in page.read_text()
    assert "not run: no bloscpack 0.16 in" in page.read_text()
    assert "An older run." not in page.read_text()
    assert page.read_text().endswith(f" |\n\n{peers}")
