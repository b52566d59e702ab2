"""Scenarios with Benzina datasets: forks, threads, and other processes."""

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
    """Open the dataset in one of the supported ways."""
    if kind == "bytes":
        return benzina.open(path.read_bytes())
    if kind == "file":
        return benzina.open(path.open("rb"))
    if kind == "view":
        return benzina.open(path, splits={"all": (0, 12)}).split("all").frames("bzna_thumb")
    return benzina.open(path)


def facts_of(path: Path) -> dict[str, Any]:
    """Return the content of each sample, read by a separate handle."""
    with benzina.open(path) as dataset:
        return {
            "data": [sample.data for sample in dataset.samples()],
            "names": list(dataset.names),
            "targets": dataset.targets.tolist(),
            "thumbs": [sample.decode() for sample in dataset.samples()],
        }


def check(facts: dict[str, Any], dataset: benzina.Dataset, seed: int) -> int:
    """Read in all ways, and compare; return the process id."""
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
    # Images were decoded before, because a fork during an import is a separate problem.
    sharing.fork_while_reading(opened(path, kind), partial(check, facts_of(path)))


def batches_of(dataset: benzina.Dataset) -> list[bytes]:
    """Return the first pass of a threaded loader."""
    loader = benzina.Loader(dataset, (32, 24), 4, shuffle=True, seed=5, threads=2)
    return [images.tobytes() + targets.tobytes() for images, targets in loader]


def check_batches(expected: list[bytes], dataset: benzina.Dataset, seed: int) -> int:
    if batches_of(dataset) != expected:
        raise ValueError("batches differ")
    return os.getpid()


def fork_while_loading(path: Path, kind: str) -> None:
    """A forked child lacks the threads of loaders that are in the middle of a pass."""
    dataset = opened(path, kind)
    expected = batches_of(dataset)
    sharing.fork_after_use(dataset, partial(check_batches, expected))
    sharing.fork_while_reading(dataset, partial(check_batches, expected))


def threads_share_a_dataset(path: Path, kind: str) -> None:
    sharing.read_in_threads(opened(path, kind), partial(check, facts_of(path)))


def travel(path: Path, kind: str, method: str) -> None:
    """Pass datasets and samples to other processes."""
    facts = facts_of(path)
    with opened(path, kind) as dataset:
        sharing.travel(dataset, partial(check, facts), method)
        sample = pickle.loads(pickle.dumps(dataset[5]))
        if sample.data != facts["data"][5]:
            raise ValueError("a sample differs")
