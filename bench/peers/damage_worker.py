"""Process that reads damaged files until one ends it; started by damage.py.

``flips CONTENDER FILE ARRAY TRIALS FIRST`` answers with a line for each trial from the first on;
``cut CONTENDER FILE ARRAY`` with a line of JSON.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import numpy as np
from race.races import assemble, remove

import bloscpack as bp
from peers.contenders import TABLE, Contender
from peers.data import ZSTD
from peers.with_bloscpack import Ours

_MEMORY = 8 << 30  # bytes of address space
_TIMEOUT = 20  # seconds a read may take


def main(arguments: list[str]) -> int:
    """Do the action; return the exit status."""
    # Output of libraries must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    action, name, path, array, *rest = arguments
    (contender,), _ = assemble(TABLE, [name])
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def answer(line: str) -> None:
        print(line, file=answers, flush=True)

    if action == "flips":
        trials = json.loads(Path(rest[0]).read_text("utf-8"))
        flip(contender, Path(path), np.load(array), trials[int(rest[1]) :], answer)
    else:
        answer(json.dumps(read_cut(contender, Path(path), np.load(array))))
    return 0


def flip(
    contender: Contender,
    pristine: Path,
    wanted: np.ndarray,
    trials: list[dict[str, Any]],
    answer: Callable[[str], None],
) -> None:
    """Flip one bit after the other in a copy, read it, and answer with the outcome."""
    copy = pristine.with_name(pristine.name + ", flipped")
    remove(copy)
    (copytree if pristine.is_dir() else copyfile)(pristine, copy)
    if judge(contender, copy, wanted) != "right":
        raise RuntimeError(f"{contender.name}: the undamaged file does not read as it should")
    for trial in trials:
        file = copy / trial["file"] if trial["file"] else copy
        _flip_bit(file, trial["offset"], trial["bit"])
        answer(judge(contender, copy, wanted))
        _flip_bit(file, trial["offset"], trial["bit"])
    remove(copy)


def _flip_bit(file: Path, offset: int, bit: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(offset)
        (byte,) = stream.read(1)
        stream.seek(offset)
        stream.write(bytes([byte ^ 1 << bit]))


def judge(contender: Contender, path: Path, wanted: np.ndarray) -> str:
    """Return the outcome of reading all; the process ends by SIGALRM if that takes too long."""
    signal.alarm(_TIMEOUT)
    try:
        return "right" if is_same(contender.read(path), wanted) else "wrong"
    except BaseException:  # a panic in a Rust library is not an Exception
        return "raised"
    finally:
        signal.alarm(0)


def is_same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether dtype, shape and every bit are the same."""
    return (
        found.dtype == wanted.dtype
        and found.shape == wanted.shape
        and bool(np.array_equal(found.view(np.uint32), wanted.view(np.uint32)))
    )


def read_cut(contender: Contender, path: Path, wanted: np.ndarray) -> dict[str, Any]:
    """Return the outcome of a whole read, and of reads of single chunks, of a cut file."""
    found: dict[str, Any] = {"read": judge(contender, path, wanted)}
    chunks = {"right": 0, "wrong": 0, "raised": 0}
    for start in range(0, len(wanted), ZSTD.chunk_rows):
        rows = slice(start, min(start + ZSTD.chunk_rows, len(wanted)))
        signal.alarm(_TIMEOUT)
        try:
            with contender.open(path) as handle:
                is_right = is_same(np.asarray(handle[rows]), wanted[rows])
            chunks["right" if is_right else "wrong"] += 1
        except BaseException:
            chunks["raised"] += 1
    signal.alarm(0)
    found["chunks"] = chunks
    if isinstance(contender, Ours):
        target = path.with_name("recovered")
        filled = bp.load(path, on_error="fill", fill_value=np.nan)
        found["filled"] = _count(filled, wanted)
        bp.recover(path, target)
        found["recovered"] = _count(bp.load(target), wanted)
        remove(target)
    return found


def _count(found: np.ndarray, wanted: np.ndarray) -> int:
    """Return how many chunks from the start are right."""
    right = 0
    for start in range(0, len(wanted), ZSTD.chunk_rows):
        rows = slice(start, min(start + ZSTD.chunk_rows, len(wanted)))
        if not is_same(found[rows], wanted[rows]):
            break
        right += 1
    return right


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
