"""Where the vectors are, and how hard hypothesis tries.

The files of the original bloscpack are not part of the repository: they lie in the folder named by
``BLOSCPACK_VECTORS``, by default ``shared/vectors`` beside the repository. Tests that need them are
skipped where they are absent; small copies that are always there are in ``tests/vectors``.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from . import clientlist, threadlist

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "bloscpack"
VECTORS = Path(os.environ.get("BLOSCPACK_VECTORS") or REPOSITORY.parent / "shared" / "vectors")
SMALL_VECTORS = REPOSITORY / "tests" / "vectors"

# A shell without job control has its background jobs ignore Ctrl-C, and so does what they start:
# programs that tests start and interrupt would not end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run; `pytest --hypothesis-profile=dev` looks for new ones.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", deadline=None, max_examples=1000)
settings.load_profile("ci")


@pytest.fixture(autouse=True, scope="module")
def _scheduled_as_before() -> Iterator[None]:
    """A library may make the thread of tests a real-time one: what starts later would starve."""
    if not hasattr(os, "sched_getscheduler"):
        yield
        return
    before = os.sched_getscheduler(0)
    yield
    assert os.sched_getscheduler(0) == before


@pytest.fixture(autouse=True, scope="module")
def _clients_are_closed() -> Iterator[None]:
    """Close the clients of URLs; one that is left would be collected in a test of another thing."""
    yield
    if "fsspec" in sys.modules:
        clientlist.close_all()


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """Every call ends the threads that it starts."""
    before = threadlist.running()
    yield
    assert threadlist.running() <= before


@dataclass(frozen=True, slots=True)
class Vectors:
    """The files of the original and their description."""

    folder: Path
    manifest: dict[str, Any]


@pytest.fixture(scope="session")
def vectors() -> Vectors:
    folder = VECTORS / "bloscpack"
    if not (folder / "manifest.json").exists():
        pytest.skip(f"no vectors in {folder}: set BLOSCPACK_VECTORS to the folder that holds them")
    return Vectors(folder, json.loads((folder / "manifest.json").read_text("utf-8")))
