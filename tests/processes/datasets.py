"""Scenarios with Benzina datasets: forks, threads, and ways to other processes."""

import os
import pickle
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import sharing

from bloscpack import benzina


def opened(path: Path, kind: str) -> benzina.Dataset:
    """Open the dataset in one of the ways that handles come."""
    if kind == "bytes":
        return benzina.open(path.read_bytes())
    if kind == "file":
        return benzina.open(path.open("rb"))
    if kind == "view":
        return benzina.open(path, splits={"all": (0, 12)}).split("all").frames("bzna_thumb")
    return benzina.open(path)


def facts_of(path: Path) -> dict[str, Any]:
    """Return what each sample is, read by a handle of its own."""
    with benzina.open(path) as dataset:
        return {
            "data": [sample.data for sample in dataset.samples()],
            "names": list(dataset.names),
            "targets": dataset.targets.tolist(),
            "thumbs": [sample.decode() for sample in dataset.samples()],
        }


def check(facts: dict[str, Any], dataset: benzina.Dataset, seed: int) -> int:
    """Read in all ways, and compare; return the id of the process."""
    rng = Random(seed)
    for _ in range(4):
        index = rng.randrange(len(dataset))
        sample = dataset[index]
        if (sample.data, sample.name) != (facts["data"][index], facts["names"][index]):
            raise ValueError(f"sample {index} differs")
        if sample.target != facts["targets"][index]:
            raise ValueError(f"the target of sample {index} differs")
    if [sample.data for sample in dataset.samples()] != facts["data"]:
        raise ValueError("samples in a row differ")
    if dataset.targets.tolist() != facts["targets"] or list(dataset) != facts["names"]:
        raise ValueError("targets or ids differ")
    for index in rng.sample(range(len(dataset)), 2):
        if not np.array_equal(dataset[facts["names"][index]].decode(), facts["thumbs"][index]):
            raise ValueError(f"the picture of sample {index} differs")
    return os.getpid()


def fork_after_use(path: Path, kind: str) -> None:
    sharing.fork_after_use(opened(path, kind), partial(check, facts_of(path)))


def fork_while_reading(path: Path, kind: str) -> None:
    # Pictures were decoded before: a fork amid an import is trouble of its own.
    sharing.fork_while_reading(opened(path, kind), partial(check, facts_of(path)))


def threads_share_a_dataset(path: Path, kind: str) -> None:
    sharing.read_in_threads(opened(path, kind), partial(check, facts_of(path)))


def travel(path: Path, kind: str, method: str) -> None:
    """Give datasets and samples to other processes."""
    facts = facts_of(path)
    with opened(path, kind) as dataset:
        sharing.travel(dataset, partial(check, facts), method)
        sample = pickle.loads(pickle.dumps(dataset[5]))
        if sample.data != facts["data"][5]:
            raise ValueError("a sample differs")
