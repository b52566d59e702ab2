"""`blpk completion`: its script, run by a real bash, and the candidates it gets."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from ..conftest import PACKAGE
from .conftest import Blpk


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ver"], ["verify"]),
        (["frames", "c"], ["cat", "create"]),
        (["frames", "cat", "clips.blp", "cl"], ["clip 0", "clip 1"]),
        (["frames", "cat", "clips.blp", "x"], []),
        (["frames", "cat", "missing.blp", "cl"], []),
        (["frames", "cat", "text", "cl"], []),
        (["verify", "--j"], ["--json"]),
        (["compress", "--codec", "z"], ["zlib", "zstd"]),
        (["completion", ""], []),
        (["verify", "cl"], []),  # a file name: the shell knows better
    ],
    ids=lambda words: " ".join(words),
)
def test_candidates(blpk: Blpk, tmp_path: Path, words: list[str], expected: list[str]) -> None:
    (tmp_path / "text").write_text("no store")
    with bp.frames.create(tmp_path / "clips.blp") as store:
        for number in range(2):
            store.append(f"clip {number}", np.zeros((2, 4, 4), "u1"))
    ended = blpk("completion", "bash", "--", *words)
    assert (ended.code, ended.out.split("\n")[:-1], ended.err) == (0, expected, "")


def test_bash_completes(blpk: Blpk, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    with bp.frames.create(tmp_path / "clips.blp") as store:
        store.append("clip 0", np.zeros((2, 4, 4), "u1"))
    script = blpk("completion", "bash").out
    program = f'blpk() {{ {sys.executable} -m bloscpack "$@"; }}\n{script}'
    ask = '_blpk; printf "%s\\n" "${COMPREPLY[@]}"\n'
    lines = "COMP_WORDS=(blpk conv); COMP_CWORD=1\n" + ask
    lines += "COMP_WORDS=(blpk frames sheet clips.blp cl); COMP_CWORD=4\n" + ask
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [bash, "--norc", "-c", program + lines + "complete -p blpk"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    found = done.stdout.split("\n")
    assert found[:2] == ["convert", "clip\\ 0"]
    assert found[2].endswith("-F _blpk blpk")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_call_it(blpk: Blpk, shell: str) -> None:
    assert f"blpk completion {shell} -- " in blpk("completion", shell).out
    assert blpk("completion", "csh").code == 2
