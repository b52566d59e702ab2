"""Scenarios with Zarr and xarray views of arrays; each raises if it fails.

Zarr keeps a thread running, and starts another one in a forked child.
"""

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
from forks import in_child, wait_for
from scenario import content

import bloscpack as bp


def opened(path: Path, place: str) -> Any:
    """Open an array with Zarr; from a URL if `place` is a URL with storage options."""
    if not place:
        return bp.as_zarr(path)
    url, options = json.loads(place)
    return bp.as_zarr(url, storage_options=options)


def check(array: Any, seed: int) -> int:
    """Read some rows and, now and then, everything; return the process id."""
    whole = content()
    for row in range(seed, len(whole), 97):
        if not np.array_equal(array[row], whole[row]):
            raise ValueError(f"row {row} differs")
    if not np.array_equal(array[:], whole):
        raise ValueError("the whole array differs")
    return os.getpid()


def fork_after_use(path: Path, place: str) -> None:
    array = opened(path, place)
    check(array, 0)
    children = [in_child(lambda seed=seed: check(array, seed)) for seed in range(3)]
    check(array, 9)
    wait_for(children)
    check(array, 1)


def travel(path: Path, place: str, method: str) -> None:
    array = opened(path, place)
    check(array, 0)
    with multiprocessing.get_context(method).Pool(2) as pool:
        if os.getpid() in pool.starmap(check, [(array, seed) for seed in range(3)]):
            raise ValueError("not another process")
