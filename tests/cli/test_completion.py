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
        (["cat", "clips.blp::/cl"], ["clips.blp::/clip 0", "clips.blp::/clip 1"]),
        (["-q", "convert", "fields.blp::/", "x.npy"], []),
        (["-q", "convert", "x.npy", "fields.blp::/"], ["fields.blp::/a/b", "fields.blp::/mask"]),
        (["cat", "'clips.blp::/cl"], ["clips.blp::/clip 0", "clips.blp::/clip 1"]),
        (["cat", "clips.blp::/clip\\ 1"], ["clips.blp::/clip 1"]),
        (["cat", "text::/cl"], []),
        (["cat", "clips.blp", "clip\\ 0"], ["clip 0"]),
        (["show", "--plain", "fields.blp", ""], ["a/b", "mask"]),
        (["info", "fields.blp:"], ["fields.blp::/a/b", "fields.blp::/mask"]),
        (["info", "missing.blp::"], []),
        (["cat", "missing.blp::/cl"], []),
        (["cat", "http://127.0.0.1:1/clips.blp::/cl"], []),
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
        store.append("\nclip 2", np.zeros((2, 4, 4), "u1"))
    bp.savez(tmp_path / "fields.blp", {"mask": np.zeros(3), "a/b": np.zeros(3)})
    ended = blpk("completion", "bash", "--", *words)
    assert (ended.code, ended.out.split("\n")[:-1], ended.err) == (0, expected, "")


# What is typed before a tab, and the arguments that the command then gets.
TYPED = {
    "blpk conv": ["convert"],
    "blpk frames sheet clips.blp cl": ["frames", "sheet", "clips.blp", "clip 0"],
    "blpk cat clips.blp::/cl": ["cat", "clips.blp::/clip 0"],
    'blpk cat "clips.blp::/wa': ["cat", "clips.blp::/walk/it's"],
    "blpk cat clips.blp wa": ["cat", "clips.blp", "walk/it's"],
    "blpk cat clips.blp:": ["cat", "clips.blp::/"],
    "blpk cat clips.blp::/clip\\ ": ["cat", "clips.blp::/clip 0"],
    "blpk info cli": ["info", "clips.blp"],
}


@pytest.mark.parametrize(
    "typed",
    [
        {"blpk -q cat --text  clips.blp::/w": ["-q", "cat", "--text", "clips.blp::/walk/it's"]},
        pytest.param(TYPED, marks=pytest.mark.slow),
    ],
    ids=["one", "all"],
)
def test_bash_completes(blpk: Blpk, tmp_path: Path, typed: dict[str, list[str]]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    pty = pytest.importorskip("pty", reason="the platform has no pseudo-terminals")
    with bp.frames.create(tmp_path / "clips.blp") as store:
        for name in ("clip 0", "walk/it's"):
            store.append(name, np.zeros((2, 4, 4), "u1"))
    (tmp_path / "rc").write_text(
        f"""PS1=
blpk() {{
    if [[ $1 == completion ]]; then {sys.executable} -m bloscpack "$@"
    else printf '%s\\n' "$@" "" >> called
    fi
}}
{blpk("completion", "bash").out}
"""
    )
    own, side = pty.openpty()
    environment = {"PYTHONPATH": str(PACKAGE.parent), "TERM": "dumb", "INPUTRC": os.devnull}
    process = subprocess.Popen(
        [bash, "--noprofile", "--rcfile", "rc", "-i"],
        cwd=tmp_path,
        env=os.environ | environment,
        stdin=side,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        os.write(own, "".join(f"{words}\t\n" for words in typed).encode() + b"exit\n")
        process.wait(240)
    finally:
        process.kill()
        os.close(own)
        os.close(side)
    called = (tmp_path / "called").read_text().split("\n\n")
    assert [each.split("\n") for each in called[:-1]] == list(typed.values())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_call_it(blpk: Blpk, shell: str) -> None:
    assert f"blpk completion {shell} -- " in blpk("completion", shell).out
    assert blpk("completion", "csh").code == 2
