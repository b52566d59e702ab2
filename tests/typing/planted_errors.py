"""User code with five mistakes, each of which mypy must find (``mypy --strict``); never run.

`.ci/planted.py` (`make check`) compares them with what mypy reports without the ignore comments.
"""

from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp


def store_measurements(path: Path, rows: np.ndarray[Any, np.dtype[np.float32]]) -> float:
    bp.save(path, rows, codec="auto", shuffle="byte", chunks=100)
    bp.save(path, rows, codec="zst")  # type: ignore[arg-type]
    with bp.Writer(path, dtype="f4", shape=(None, 3), codec="lz4", shuffle="bits") as writer:  # type: ignore[arg-type]
        writer.append(rows)
    with bp.open(path, "w") as array:  # type: ignore[arg-type]
        array.append(rows)
        part = array.read(slice(0, 10), on_error="fill", fill_value=np.nan)
    rest = bp.load(path, on_error="ignore")  # type: ignore[call-overload]
    return float(part.sum()) + float(rest.sum())


def count_frames(path: Path, pattern: str) -> int:
    with bp.frames.create(path, codec="jpeg", preset="small", attrs={"camera": "left"}) as store:
        store.append("walk", np.zeros((16, 24, 32, 3), np.uint8), {"label": 3})
    with bp.frames.open(path, "a") as store:
        store.append("run", np.zeros((8, 24, 32, 3), np.uint8))
        store.flush()
    with bp.frames.open(pattern) as clips:
        labels = {id_: clip.meta["label"] for id_, clip in clips.items()}
        first = clips.get("walk")
        corner = first[::2, :10, :10, 0]  # type: ignore[index]
        nbytes = sum(clip.nbytes for clip in clips.values())
        rows = sum(len(frame) for clip in clips.values() for frame in clip)
    with bp.frames.open([path]) as many:
        names = len(many.names) + len(many.attrs)
    return len(labels) + int(corner.sum()) + nbytes + rows + names
