"""Scenarios with processes that receive a pickled handle; each raises if it fails."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from scenario import SHAPE, check_rows, check_whole

import bloscpack as bp
from bloscpack.parallel.threads import in_worker, resolve_nthreads


def read(array: bp.Array, seed: int) -> int:
    """Read rows and everything; return the process id when the reads are done."""
    check_rows(array, seed)
    check_whole(array)
    # The environment variable takes precedence; without it a worker uses one thread.
    text = os.environ.pop("BLOSCPACK_NTHREADS", None)
    if not in_worker() or resolve_nthreads(None, 1 << 30) != 1:
        raise ValueError("this is a worker, and does not know it")
    if text:
        os.environ["BLOSCPACK_NTHREADS"] = text
    return os.getpid()


def row_sum(task: tuple[bp.Array, int]) -> int:
    array, row = task
    return int(array[row].sum(dtype="i8"))


def expected_sum(row: int) -> int:
    return sum(range(row * SHAPE[1], (row + 1) * SHAPE[1]))


def process(path: Path, method: str) -> None:
    """Pass an open handle that has been used to a process."""
    context = multiprocessing.get_context(method)
    with bp.open(path) as array:
        check_whole(array)
        processes = [context.Process(target=read, args=(array, seed)) for seed in range(2)]
        for one in processes:
            one.start()
        check_whole(array)
        for one in processes:
            one.join()
        if any(one.exitcode for one in processes):
            raise ValueError([one.exitcode for one in processes])
    if in_worker():
        raise ValueError("not running in a worker")


def pool(path: Path, method: str) -> None:
    """Send the handle with every task of a pool."""
    context = multiprocessing.get_context(method)
    with bp.open(path) as array, context.Pool(3) as workers:
        check_whole(array)
        rows = list(range(0, SHAPE[0], 7))
        found = workers.map(row_sum, [(array, row) for row in rows], chunksize=5)
        if found != [expected_sum(row) for row in rows]:
            raise ValueError("sums differ")
        workers.starmap(read, [(array, seed) for seed in range(4)])


def executor(path: Path, method: str) -> None:
    """Send the handle with every task of an executor."""
    context = multiprocessing.get_context(method)
    with bp.open(path) as array, ProcessPoolExecutor(2, mp_context=context) as workers:
        check_whole(array)
        rows = list(range(0, SHAPE[0], 50))
        if list(workers.map(row_sum, [(array, row) for row in rows])) != [
            expected_sum(row) for row in rows
        ]:
            raise ValueError("sums differ")
        if os.getpid() in workers.map(read, [array] * 3, range(3)):
            raise ValueError("not another process")
