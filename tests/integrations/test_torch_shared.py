"""Batches in the shared memory of workers; each test runs in a process of its own."""

import os
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from ..processes.scenario import run

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memfd_create")

SCENARIOS = (
    "same_batches",
    "lists_of_items",
    "memory_is_reused",
    "stops_early",
    "killed",
    "damaged",
    "pickled_items",
    "other_tensors",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_scenario(name: str, method: str, tmp_path: Path) -> None:
    if method != "fork" and name != "memory_is_reused":
        pytest.skip("as with fork, but slower")
    run("tests.integrations.sharedloaders", name, tmp_path / "clips", method, nthreads=None)
