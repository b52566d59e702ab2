"""Scenarios with arrays behind URLs; each raises if it fails.

The server runs in the scenario's process. Handles cache what they have fetched, so each check also
reads other chunks.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import loaders
import sharing
from arrays import check
from scenario import check_rows, check_whole, content

import bloscpack as bp


def opened(place: str) -> bp.Array:
    """Open the array at a place: a URL with storage options."""
    url, options = json.loads(place)
    return bp.open(url, storage_options=options)


def read_rows(array: bp.Array, seed: int) -> None:
    check_rows(array, seed, 10)


def fork_after_use(_: Path, place: str) -> None:
    sharing.fork_after_use(opened(place), check)


def fork_while_reading(_: Path, place: str) -> None:
    sharing.fork_while_reading(opened(place), read_rows)


def fork_between_rows(_: Path, place: str) -> None:
    """Fork while rows of an iterator are in flight: both processes get all of them."""
    from forks import in_child, wait_for

    array = opened(place)
    rows = enumerate(array)
    for _index, row in zip(range(9), rows, strict=False):
        check_row(*row)

    def go_on() -> None:
        for number, row in rows:
            check_row(number, row)

    child = in_child(go_on)
    go_on()
    wait_for([child])


def check_row(number: int, row: Any) -> None:
    if row[0] != number * len(row) or row[-1] != (number + 1) * len(row) - 1:
        raise ValueError(f"row {number} differs")


def threads_share_a_handle(_: Path, place: str) -> None:
    sharing.read_in_threads(opened(place), read_rows)


def travel(_: Path, place: str, method: str) -> None:
    sharing.travel(opened(place), check, method)


def parts_of_forks(_: Path, place: str) -> None:
    """Children write parts with a job and a client that the parent has used; the parent joins."""
    import pickle

    from forks import in_child, wait_for

    url, options = json.loads(place)
    target = f"{url}.parts"
    array = content()
    job = bp.parts(target, shape=array.shape, dtype="<i4", chunks=8, storage_options=options)
    records = [job.write(0, array[:64])]
    children, pipes = [], []
    for start in range(64, len(array), 224):
        reads, writes = os.pipe()
        pipes.append(reads)

        def work(start: int = start, writes: int = writes) -> None:
            record = job.write(start, array[start : start + 224])
            os.write(writes, pickle.dumps(record))

        children.append(in_child(work))
    wait_for(children)
    records += [pickle.loads(os.read(pipe, 1 << 16)) for pipe in pipes]
    job.commit(records)
    check_whole(bp.open(target, storage_options=options))


def torch_loader(_: Path, place: str, method: str) -> None:
    url, options = json.loads(place)
    loaders.torch_loader(url, method, "4", storage_options=options)


def end_while_reading(_: Path, place: str) -> None:
    """Exit with an open handle and rows in flight."""
    array = opened(place)
    check_whole(array)
    rows = iter(array)
    next(rows)
    sys.modules["left_open"] = rows  # type: ignore[assignment]
