"""Scenarios with torch's DataLoader, joblib and dask; each raises if it fails."""

from pathlib import Path

import numpy as np
from scenario import SHAPE, check_whole, content

import bloscpack as bp
from bloscpack.parallel.threads import in_worker, resolve_nthreads


class Rows:
    """Map-style dataset that holds an open array, as users write them."""

    def __init__(self, array: bp.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.array[index], resolve_nthreads(None, 1 << 30)


def torch_loader(path: Path | str, method: str, num_workers: str, **options: object) -> None:
    """Workers read twice with a handle that the parent uses before and at the same time."""
    from torch.utils.data import DataLoader

    whole = content()
    with bp.open(path, **options) as array:  # type: ignore[arg-type]
        check_whole(array)
        loader = DataLoader(
            Rows(array),  # type: ignore[arg-type]
            batch_size=16,
            shuffle=True,
            num_workers=int(num_workers),
            multiprocessing_context=method,
            persistent_workers=True,
        )
        for _ in range(2):
            seen = []
            for rows, nthreads in loader:
                seen.extend(rows[:, 0].tolist())
                first = rows[0].numpy()
                row = int(first[0]) // SHAPE[1]
                if not np.array_equal(first, whole[row]) or not np.array_equal(array[row], first):
                    raise ValueError(f"row {row} differs")
                if set(nthreads.tolist()) != {1}:
                    raise ValueError(f"threads in a worker: {nthreads}")
            if sorted(seen) != whole[:, 0].tolist():
                raise ValueError("rows are missing")
        del loader
        check_whole(array)


def is_worker(array: bp.Array, index: int) -> bool:
    """Read a row, and return whether this process is a worker."""
    if array[index][0] != index * SHAPE[1]:
        raise ValueError(f"row {index} differs")
    return in_worker()


def check(where: str, found: list[bool], expected: bool = True) -> None:
    if set(found) != {expected}:
        raise ValueError(f"{where}: in_worker() gave {found}")


def joblib_workers(path: Path) -> None:
    import joblib

    array = bp.open(path)
    for backend in ("loky", "threading", "multiprocessing"):
        parallel = joblib.Parallel(n_jobs=2, backend=backend)
        check(backend, parallel(joblib.delayed(is_worker)(array, n) for n in range(6)))
    check(
        "alone", joblib.Parallel(n_jobs=1)(joblib.delayed(is_worker)(array, 1) for _ in "a"), False
    )
    check("joblib is imported", [is_worker(array, 0)], False)


def dask_workers(path: Path) -> None:
    import dask

    array = bp.open(path)

    def compute(**options: object) -> list[bool]:
        return list(dask.compute(*(dask.delayed(is_worker)(array, n) for n in range(6)), **options))

    check("threads", compute(scheduler="threads", num_workers=2))
    check("threads by default", compute())
    check("processes", compute(scheduler="processes", num_workers=2))
    check("synchronous", compute(scheduler="synchronous"), False)
    check("dask is imported", [is_worker(array, 0)], False)


def distributed_workers(path: Path) -> None:
    from distributed import Client

    array = bp.open(path)
    for processes in (False, True):
        with Client(
            n_workers=1, threads_per_worker=2, processes=processes, dashboard_address=":0"
        ) as client:
            futures = [client.submit(is_worker, array, n) for n in range(6)]
            check(f"distributed, {processes=}", client.gather(futures))
            check("the client", [is_worker(array, 0)], False)
