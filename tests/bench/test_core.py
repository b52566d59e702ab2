"""The core figures run through pytest-benchmark and by the harness, and fill their page."""

import json

import pytest

from tests.bench.conftest import BENCH, ROOT

pytestmark = pytest.mark.slow

for needed in ("blosc", "pytest_benchmark"):
    pytest.importorskip(needed, reason="bench/ needs it: pip install --group bench")


def test_every_core_figure_is_collected(run):
    result = run("-m", "pytest", BENCH, "--collect-only", "-q", "-p", "no:cacheprovider", cwd=ROOT)

    assert result.returncode == 0, result.stdout + result.stderr
    for what in ("chunk of 64 KiB, zstd", "pack 80 KB float64", "unpack 128 MB float32 zstd-3"):
        assert f"test_core.py::test_core[{what}" in result.stdout


def test_pytest_benchmark_has_the_measured_times(run, tmp_path):
    found = tmp_path / "run.json"

    result = run(
        *("-m", "pytest", BENCH, "-q", "-p", "no:cacheprovider", "--benchmark-only"),
        *("-k", "1 and KiB and float64 and not new", f"--benchmark-json={found}"),
        cwd=ROOT,
        BLOSCPACK_ORACLE=str(tmp_path / "none"),
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "how many times as fast as the others it is" in result.stdout
    benchmarks = json.loads(found.read_text())["benchmarks"]
    infos = [one["extra_info"] for one in benchmarks]
    assert {(info["case"], info["who"]) for info in infos} >= {
        (f"{verb} 1 KiB float64 blosclz-7", who)
        for verb in ("pack", "unpack")
        for who in ("bloscpack", "C-Blosc")
    }
    for one in benchmarks:
        speed = one["extra_info"]["mb_per_s"]
        assert speed == pytest.approx(1024 / one["stats"]["min"] / 1e6)
        assert 1e-7 < one["stats"]["min"] <= one["stats"]["median"] < 1e-2


def test_a_quick_run_writes_its_part_of_the_page(run, tmp_path):
    page = tmp_path / "page.md"
    peers = "# How far from the limit, and how far ahead of peers\n\nThe other part.\n"
    page.write_text(f"# Benchmarks\n\nAn older run.\n\n{peers}")

    result = run(
        *("-m", "race", "core", "--quick", "--page", page), BLOSCPACK_ORACLE=str(tmp_path / "none")
    )

    assert result.returncode == 0, result.stderr
    text = page.read_text()
    assert "## Reading one chunk of a large file by its index: " in text
    for what in ("chunk of 64 KiB, zstd", "pack 80 KB float64 blosclz-7", "unpack 4 MB float32"):
        assert f"| {what}" in text
    assert "- not there: bloscpack 0.16: no bloscpack 0.16 in" in text
    assert "An older run." not in text
    assert text.endswith(f" |\n\n{peers}")
