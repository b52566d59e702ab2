"""docs/cli.md and guides: every example prints what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bloscpack.cli.commands import COMMANDS

from .conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "cli.md"
PAGES = (PAGE, REPOSITORY / "docs" / "howto" / "make-a-frame-store.md")
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A line that no command prints; the status of the command is kept for the next one (`echo $?`).
_MARK = "@@ end of command @@"
_PRELUDE = f"""
blpk() {{ "{sys.executable}" -m bloscpack "$@"; }}
python() {{ "{sys.executable}" "$@"; }}
mark() {{ local status=$?; printf '{_MARK}\\n'; return $status; }}
exec 2>&1
"""


def examples(page: Path = PAGE) -> list[tuple[str, str]]:
    """Return (command, expected output) of a whole page, in order."""
    result: list[tuple[str, str]] = []
    for block in _BLOCK.findall(page.read_text("utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            result.append((command, expected))
    return result


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[str]]:
    return {page: output_of(page, tmp_path_factory.mktemp("docs")) for page in PAGES}


def output_of(page: Path, folder: Path) -> list[str]:
    """Run the commands of a page in a folder."""
    script = _PRELUDE + "\n".join(f"{command}\nmark" for command, _ in examples(page))
    env = os.environ | {"PYTHONPATH": str(REPOSITORY), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=600,
        check=False,
    )
    return done.stdout.decode().split(f"{_MARK}\n")


def matches(expected: str, printed: str) -> bool:
    """Return whether `printed` matches `expected`, in which ``...`` stands for any text."""
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


CASES = [
    pytest.param(page, position, id=f"{page.stem}: {command}")
    for page in PAGES
    for position, (command, _) in enumerate(examples(page))
]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "position"), CASES)
def test_example(printed: dict[Path, list[str]], page: Path, position: int) -> None:
    _, expected = examples(page)[position]
    assert matches(expected, printed[page][position]), printed[page][position]


def test_there_are_examples_of_every_command() -> None:
    commands = {name for command, _ in examples() for name in re.findall(r"blpk.*? (\w+)", command)}
    assert commands >= {command.name for command in COMMANDS}
    assert Path(PAGE).read_text("utf-8").count("```") == 2 * len(
        _BLOCK.findall(PAGE.read_text("utf-8"))
    )


def test_the_comparison_can_fail() -> None:
    assert matches("a ... c\n", "a b c\n")
    assert not matches("a ... c\n", "a b d\n")
    assert not matches("", "blpk: error\n")
