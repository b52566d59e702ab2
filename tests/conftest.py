"""Which tests run: the long ones, those that need reference files, those of other programs.

Reference files are written by other programs and are not part of the repository: they are in the
folder named by ``BLOSCPACK_VECTORS``, by default ``shared/vectors`` beside the repository. A test
gets at them through `ReferenceFolder`, which skips it where they are missing. Small vectors of
every format are always there, in ``tests/vectors``.

``--all`` runs tests marked ``slow`` too, lets others try every case (`some`), and installs the
programs that ours are compared with (``tests/oracle.py``). The last line of a run counts what was
left out.
"""

import gc
import json
import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from bloscpack.exceptions import BloscpackWarning

from . import clientlist, threadlist

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "bloscpack"
_REFERENCE = Path(os.environ.get("BLOSCPACK_VECTORS") or REPOSITORY.parent / "shared" / "vectors")
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


def pytest_configure(config: pytest.Config) -> None:
    # Tests of damage would be errors by them; tests of the warnings ask for them.
    config.addinivalue_line("filterwarnings", "ignore::bloscpack.exceptions.BloscpackWarning")


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


class Warned:
    """The warnings of this package in a test, which are not errors there."""

    def __init__(self, records: list[warnings.WarningMessage]) -> None:
        self._records = records

    @property
    def texts(self) -> list[str]:
        return [
            str(each.message)
            for each in self._records
            if issubclass(each.category, BloscpackWarning)
        ]

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    def clear(self) -> None:
        self._records.clear()


@pytest.fixture
def warned() -> Iterator[Warned]:
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always", BloscpackWarning)
        yield Warned(records)


@dataclass(frozen=True, slots=True)
class ReferenceFolder:
    """The reference files of one format; reaching for one skips the test if they are missing."""

    name: str

    @property
    def path(self) -> Path:
        """Where the folder is, or would be."""
        return _REFERENCE / self.name

    def __str__(self) -> str:
        return str(self.path)

    def __bool__(self) -> bool:
        return self.path.is_dir()

    def __truediv__(self, name: str) -> Path:
        if not self:
            pytest.skip(self.missing, allow_module_level=True)
        return self.path / name

    def glob(self, pattern: str) -> list[Path]:
        """Return the files that match, sorted; none if the folder is missing."""
        return sorted(self.path.glob(pattern))

    @property
    def missing(self) -> str:
        """The reason to skip a test."""
        return f"{_NO_REFERENCE} in {self}: set BLOSCPACK_VECTORS to the folder that holds them"


_NO_REFERENCE = "no reference files"
# What pytest says of a test with a parameter for each reference file, where there are none.
_NO_PARAMETERS = "got empty parameter set"


# Values of parameters with which any test takes long: a recording of 2 MB, and a start method whose
# processes import everything, as those of "spawn" do.
_LONG = {"upstream/synthetic", "forkserver"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all",
        action="store_true",
        help="run long tests too, and install other programs to compare with",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    skip = pytest.mark.skip(reason="takes long: run by make test-all (--all)")
    for item in items:
        values = getattr(item, "callspec", None)
        is_long = values and any(
            isinstance(value, str) and value in _LONG for value in values.params.values()
        )
        if is_long or item.get_closest_marker("slow"):
            item.add_marker(skip)


Some = Callable[[Iterable[Any], int], list[Any]]


@pytest.fixture(scope="session")
def some(pytestconfig: pytest.Config) -> Some:
    """Choose from the cases of a long loop: `some(cases, step)`.

    Returns all of them with ``--all``, else every step-th and the last. A prime step hits fields at
    every alignment.
    """

    def chosen(cases: Iterable[Any], step: int) -> list[Any]:
        found = list(cases)
        return found if pytestconfig.getoption("--all") else [*found[:-1:step], *found[-1:]]

    return chosen


def pytest_collection_finish() -> None:
    """Take the collected tests, millions of objects, out of every later garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was not run, and say how to run it."""
    config = terminalreporter.config
    reasons = Counter(
        "files" if _NO_REFERENCE in why or _NO_PARAMETERS in why else "other"
        for why in (str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    )
    sentences = []
    if reasons["other"]:
        how = "ARGS=-rs lists why" if config.getoption("--all") else "make test-all"
        sentences.append(f"{reasons['other']:,} {_LEFT_OUT} were not run: {how}.")
    if reasons["files"]:
        sentences.append(f"{reasons['files']:,} tests need reference files: see BLOSCPACK_VECTORS.")
    if sentences:
        terminalreporter.write_line(" ".join(sentences))


_LEFT_OUT = "long tests and tests of torch, dask, zarr, S3 and other programs"


@dataclass(frozen=True, slots=True)
class Vectors:
    """The files of the original and their description."""

    folder: Path
    manifest: dict[str, Any]


@pytest.fixture(scope="session")
def vectors() -> Vectors:
    manifest = ReferenceFolder("bloscpack") / "manifest.json"
    return Vectors(manifest.parent, json.loads(manifest.read_text("utf-8")))
