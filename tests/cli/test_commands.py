"""The table of commands: what is imported, and when."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bloscpack.cli.commands import COMMANDS, Command, Group

from .conftest import REPOSITORY, Blpk

PROBE = """
import contextlib, io, json, sys
from bloscpack.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    main(sys.argv[1:])
print(json.dumps([name for name in sys.modules if name.partition(".")[0] == "bloscpack"]))
"""
MAX_MODULES = 40


def leaves(commands: Iterable[Command | Group] = COMMANDS) -> Iterator[Command]:
    for command in commands:
        if isinstance(command, Group):
            yield from leaves(command.commands)
        else:
            yield command


def modules_of(*argv: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", PROBE, *argv],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return {*json.loads(run.stdout)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "argv", [["--version"], ["--help"], ["frames", "--help"], ["nonsense"]], ids=" ".join
)
def test_no_command_is_imported_unless_it_is_named(argv: list[str]) -> None:
    loaded = modules_of(*argv)
    assert len(loaded) <= MAX_MODULES
    assert not {f"bloscpack.{command.module}" for command in leaves()} & loaded


def test_only_the_named_command_is_imported(ramp: Path) -> None:
    loaded = modules_of("ls", str(ramp))
    others = {f"bloscpack.{command.module}" for command in leaves() if command.module != "cli.ls"}
    assert "bloscpack.cli.ls" in loaded
    assert not others & loaded
    assert not {name for name in loaded if name.startswith(("bloscpack.frames", "bloscpack.vrs"))}


def test_help_of_a_group_lists_its_commands(blpk: Blpk) -> None:
    for group in COMMANDS:
        if isinstance(group, Group):
            text = " ".join(blpk(group.name, "--help").out.split())
            for command in group.commands:
                names = " ".join((command.name, *(f"({alias})" for alias in command.aliases)))
                assert f" {names} {command.summary}" in text
