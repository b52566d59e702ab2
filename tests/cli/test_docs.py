"""Commands on pages: every example prints what the page says, and every option is listed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bloscpack.cli.commands import COMMANDS

from .conftest import REPOSITORY
from .warm import serving

PAGE = REPOSITORY / "docs" / "howto" / "commands.md"
PAGES = (PAGE, REPOSITORY / "docs" / "howto" / "make-a-frame-store.md")
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A line that no command prints; the status of the command is kept for the next one (`echo $?`).
_MARK = "@@ end of command @@"
# Commands of the names in `_FRESH` start Python, the others are run by a fork server, as {warm}.
_FRESH = "--version|info|recover|completion"
_PRELUDE = f"""
blpk() {{{{
  case "$1" in
    {_FRESH}) "{sys.executable}" -m bloscpack "$@" ;;
    *) {{warm}} blpk "$@" ;;
  esac
}}}}
python() {{{{ {{warm}} python "$@"; }}}}
mark() {{{{ local status=$?; printf '{_MARK}\\n'; return $status; }}}}
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
    work = folder / "work"
    work.mkdir()
    with serving(folder) as warm:
        done = in_bash(
            _PRELUDE.format(warm=warm)
            + "\n".join(f"{command}\nmark" for command, _ in examples(page)),
            work,
        )
    return done.stdout.decode().split(f"{_MARK}\n")


def in_bash(script: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a script; results and messages keep their order, as on a terminal."""
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": str(REPOSITORY), "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=600,
        check=False,
    )


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


def test_the_page_of_the_site_has_every_command_and_option() -> None:
    code = (REPOSITORY / ".ci" / "commands.py").read_text("utf-8")
    namespace: dict[str, Any] = {"__file__": str(REPOSITORY / ".ci" / "commands.py")}
    exec(compile(code, "commands.py", "exec"), namespace)
    sections = re.split(r"^## (.*)$", namespace["page"](), flags=re.MULTILINE)
    texts = dict(zip(sections[1::2], sections[2::2], strict=True))
    recorded = json.loads((REPOSITORY / "tests" / "frozen" / "options.json").read_text("utf-8"))
    assert texts.keys() == recorded.keys()
    for command, entry in recorded.items():
        for argument in entry["arguments"]:
            common = {"-h", "-q", "--no-progress"} & {*argument.get("flags", ())}
            for flag in () if common or argument.get("hidden") else argument.get("flags", ()):
                assert re.search(rf"^\| `.*{flag}\b.*` \| \S", texts[command], re.MULTILINE), flag


def test_the_comparison_can_fail() -> None:
    assert matches("a ... c\n", "a b c\n")
    assert not matches("a ... c\n", "a b d\n")
    assert not matches("", "blpk: error\n")


@pytest.mark.slow
def test_the_server_does_what_a_process_does(tmp_path: Path) -> None:
    """Streams, pipes, the folder, the environment and exit codes, also of a bug."""
    script = """
blpk c data; echo $?; blpk c data; echo $?; blpk no-command 2>&1 >&-; echo $?
blpk info --json data.blp | head -c 1; blpk d data.blp - | blpk c - - | blpk d - - | cksum
blpk verify data; echo $?; blpk info data.blp >/dev/full; echo $?
A=b python -c "import os, sys; print(os.environ['A'], os.getcwd(), sys.argv, input())" 'x  y' <data
python -c "import sys; print('\N{EURO SIGN}'); sys.exit('last words')"; echo $?
python -c "1 / 0" 2>/dev/null; echo $?
"""
    outcomes = []
    with serving(tmp_path) as warm:
        for blpk, python in (
            (f"{warm} blpk", f"{warm} python"),
            (f'"{sys.executable}" -m bloscpack', f'"{sys.executable}"'),
        ):
            (tmp_path / "work").mkdir()
            (tmp_path / "work" / "data").write_bytes(b"a line\nanother")
            names = f'blpk() {{ {blpk} "$@"; }}; python() {{ {python} "$@"; }}\n'
            done = in_bash(names + script, tmp_path / "work")
            outcomes.append((done.returncode, done.stdout.decode(), done.stderr.decode()))
            shutil.rmtree(tmp_path / "work")
    assert outcomes[0] == outcomes[1]
    assert "['-c', 'x  y'] a line" in outcomes[0][1]
