"""Text, files and exit codes equal those of the original ``blpk`` (transcripts/README.md)."""

import re
import shlex
from pathlib import Path

import pytest

from .conftest import Blpk

FOLDER = Path(__file__).parent / "transcripts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.blp"))


@pytest.mark.parametrize("name", NAMES)
def test_info_prints_the_text_of_the_original(blpk: Blpk, name: str) -> None:
    ended = blpk("info", FOLDER / f"{name}.blp")
    assert (ended.code, ended.err) == (0, "")
    assert ended.raw == (FOLDER / f"{name}.txt").read_bytes()


def test_a_session_equals_that_of_the_original(blpk: Blpk, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "more.bin").write_bytes(b"tail" * 50)
    (tmp_path / "m.json").write_text('{"unit": "m", "n": [1, 2]}\n')
    (tmp_path / "m2.json").write_text('{"unit": "s"}\n')
    steps = re.findall(
        r"^\$ blpk (.*)\n((?:blpk: .*\n)*)\[exit (\d+)\]\n",
        (FOLDER / "session.txt").read_text(),
        re.MULTILINE,
    )
    assert len(steps) == 18
    for command, text, code in steps:
        ended = blpk(*shlex.split(command))
        # The original printed results and messages on standard output.
        lines = [*ended.out.splitlines(), *ended.err.splitlines()]
        lines = [line for line in lines if "Approximate compression ratio" not in line]
        assert (ended.code, sorted(lines)) == (int(code), sorted(text.splitlines())), command
        if "-v" not in command and not code:
            assert lines == text.splitlines()


def test_results_and_messages_go_to_different_streams(blpk: Blpk, packed: Path) -> None:
    ended = blpk("-v", "i", packed)
    assert "BloscpackHeader:" in ended.out
    assert "using" not in ended.out
    assert ended.err.splitlines()[0].startswith("blpk: using ")
    assert ended.err.splitlines()[-1] == "blpk: done"
