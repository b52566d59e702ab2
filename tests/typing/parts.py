"""Typical use of parts, as type checkers see it (``mypy --strict``); never run."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np

import bloscpack as bp

AnyArray = np.ndarray[Any, np.dtype[Any]]


def writing(path: Path, array: AnyArray) -> None:
    with bp.parts(path, shape=array.shape, dtype=array.dtype, sample=array, codec="lz4") as job:
        assert_type(job, bp.PartsJob)
        assert_type(job.split("64 MiB"), list[tuple[int, int]])
        records = [job.write(start, array[start:stop]) for start, stop in job.split()]
        assert_type(job.missing(records), list[tuple[int, int]])
        assert_type(records[0].nbytes, int)
        job.commit(records, progress=lambda done, total: print(done, total))  # noqa: T201
    bp.PartsJob(path, shape=(), dtype="u1", id="mine").abort(others=True)


def clips(path: Path) -> None:
    bp.frames.map_clips(path, lambda clip: clip.shape, ids=["a"], batch=4)
