"""The mistakes planted in a page of user code are found by mypy, and nothing else is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).with_name("typing") / "planted_errors.py"
IGNORE = re.compile(r"  # type: ignore\[([a-z-]+)\]")


def test_five_mistakes_are_planted() -> None:
    assert len(IGNORE.findall(PAGE.read_text())) == 5


@pytest.mark.slow
def test_mypy_finds_the_planted_mistakes(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed; `make check` runs it on the page")
    text = PAGE.read_text()
    planted = {
        (number, found[1])
        for number, line in enumerate(text.splitlines(), 1)
        if (found := IGNORE.search(line))
    }
    page = tmp_path / "user.py"
    page.write_text(IGNORE.sub("", text))
    root = PAGE.parents[2]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--hide-error-context",
        "--no-error-summary",
    ]
    run = subprocess.run(
        [*command, "--config-file", str(root / "pyproject.toml"), str(page)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    found = re.findall(r"user\.py:(\d+): error: .*\[([a-z-]+)\]$", run.stdout, re.MULTILINE)
    assert {(int(number), code) for number, code in found} == planted
    assert run.stdout.count(": error: ") == 5, run.stdout
