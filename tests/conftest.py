"""Test options (long tests, reference files, other programs) and shared fixtures.

Reference files are written by other programs and are not part of the repository: they are in the
folder named by ``BLOSCPACK_VECTORS``, by default ``shared/vectors`` beside the repository. A test
gets at them through `ReferenceFolder`, which skips it where they are missing. Small vectors of
every format are always there, in ``tests/vectors``.

``--all`` runs tests marked ``slow`` and every case of those marked ``sampled``, tries all cases of
loops (`some`) and more examples of properties, and installs the programs that ours are compared
with (``tests/oracle.py``). The last line of a run counts what was left out.

``--minutes=N`` begins no test after N minutes, and says at the end how many it left out.

``--passed=FILE`` writes the names of the tests that have passed and would do the same with
``--all``. With ``--all``, the tests named in the file are left out: CI has run them already.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from bloscpack.exceptions import BloscpackWarning

from . import clientlist, threadlist

if TYPE_CHECKING:
    from .servers import FileServer, Server

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "bloscpack"
# Tests of the core whose files of other libraries `convert` reads or writes.
needs_exchange = pytest.mark.skipif(
    not (PACKAGE / "exchange").is_dir(), reason="files of other libraries are not converted"
)
_REFERENCE = Path(os.environ.get("BLOSCPACK_VECTORS") or REPOSITORY.parent / "shared" / "vectors")
SMALL_VECTORS = REPOSITORY / "tests" / "vectors"
SMALL_FORMATS = SMALL_VECTORS / "formats"


def small_vectors(*names: str) -> list[str]:
    """Return those of the small vectors whose file type has not been removed, with its vectors.

    A test with them as its parameters needs no change then. `test_small_vectors.py` fails if one
    is missing for another reason.
    """
    return [name for name in names if (SMALL_FORMATS / name).exists()]


# Background jobs of a shell without job control ignore Ctrl-C, and so do their children:
# programs that tests start and interrupt would never end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Those of nohup ignore that their terminal was closed.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The same examples in every run; `pytest --hypothesis-profile=dev` looks for new ones.
settings.register_profile(
    "all",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("light", settings.get_profile("all"), max_examples=12)
settings.register_profile("dev", deadline=None, max_examples=1000)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile", None):
        settings.load_profile("all" if config.getoption("--all") else "light")
    # Of xarray's own tests, which a test of ours runs.
    for marker in ("asyncio", "flaky", "network", "skip_if_param", "skip_with_dask_array"):
        config.addinivalue_line("markers", marker)
    path = config.getoption("--passed")
    if path and not config.getoption("--all") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Passed(path))
    # They would make tests of damage fail; tests of the warnings enable them.
    config.addinivalue_line("filterwarnings", "ignore::bloscpack.exceptions.BloscpackWarning")


@pytest.fixture(autouse=True, scope="module")
def _scheduled_as_before() -> Iterator[None]:
    """Check that no library left this thread with real-time priority: children would starve."""
    if not hasattr(os, "sched_getscheduler"):
        yield
        return
    before = os.sched_getscheduler(0)
    yield
    assert os.sched_getscheduler(0) == before


@pytest.fixture(autouse=True, scope="module")
def _clients_are_closed() -> Iterator[None]:
    """Close clients of URLs: otherwise they are collected, with warnings, in an unrelated test."""
    yield
    if "fsspec" in sys.modules:
        clientlist.close_all()


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """Check that every call ends the threads that it starts."""
    before = threadlist.running()
    yield
    assert threadlist.running() <= before


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk."""
    monkeypatch.setattr("bloscpack.storage.disk.sync", lambda _: None)


@pytest.fixture
def retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat failed requests without waiting."""
    from bloscpack.storage.remote import retry  # on use: few tests make requests

    async def sleep(_: float) -> None:
        pass

    monkeypatch.setattr(retry, "sleep", sleep)


def server_fixture(kind: "type[Server]") -> Any:
    """Return a fixture: a server of this kind for all tests of a module."""

    @pytest.fixture(scope="module")
    def server() -> Iterator[Any]:
        from .servers import S3Server, running  # on use, as above

        with running(kind()) as started:
            if isinstance(started, S3Server):
                started.put("other", b"")  # so that there is a bucket
            yield started

    return server


@pytest.fixture
def http() -> "Iterator[FileServer]":
    """A web server without files."""
    from .servers import FileServer, running  # on use, as above

    with running(FileServer()) as server:
        yield server


class Warned:
    """Collect the warnings of this package instead of turning them into errors."""

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


# Files of tests that have looked for a reference file.
_used_by: set[str] = set()


@dataclass(frozen=True, slots=True)
class ReferenceFolder:
    """Reference files of one format; accessing them skips the test if they are missing."""

    name: str

    @property
    def path(self) -> Path:
        """Path of the folder, which may not exist."""
        _used_by.add(os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0])
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
        """Return the matching files, sorted; an empty list if the folder is missing."""
        return sorted(self.path.glob(pattern))

    @property
    def missing(self) -> str:
        """Reason to skip a test."""
        return f"{_NO_REFERENCE} in {self}: set BLOSCPACK_VECTORS to the folder that holds them"


_NO_REFERENCE = "no reference files"
# Skip reason of pytest for a test that is parametrised by reference files and has none of them.
_NO_PARAMETERS = "got empty parameter set"


# Parameter values that make every test slow: a recording of 2 MB, and the start method "spawn",
# whose processes import everything again.
_LONG = {"upstream/synthetic", "forkserver"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all",
        action="store_true",
        help="run long tests too, and install other programs to compare with",
    )
    parser.addoption(
        "--passed",
        type=Path,
        metavar="FILE",
        help="write the names of tests that pass; with --all, leave out those in the file",
    )
    parser.addoption(
        "--minutes", type=float, metavar="N", help="begin no test after N minutes: skip the rest"
    )


_NLEFT_OUT = pytest.StashKey[int]()
_STARTED = time.monotonic()
_NO_TIME = "no time was left"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the test if there is no time left for it."""
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - _STARTED > 60 * minutes:
        pytest.skip(_NO_TIME)


@pytest.hookimpl(tryfirst=True)  # other plugins look at the rest only
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests: to skip one costs as much as to run a short one."""
    config.stash[_NLEFT_OUT] = 0
    if config.getoption("--all"):
        _leave_out_passed(config, items)
        return
    kept, left_out = [], []
    ncases: Counter[object] = Counter()
    for item in items:
        values = getattr(item, "callspec", None)
        is_long = values and any(
            isinstance(value, str) and value in _LONG for value in values.params.values()
        )
        if sampled := item.get_closest_marker("sampled"):
            test = (item.parent, getattr(item, "originalname", None))
            is_long = is_long or ncases[test] % sampled.args[0]
            ncases[test] += 1
        is_long = is_long or item.get_closest_marker("slow")
        (left_out if is_long else kept).append(item)
    items[:] = kept
    config.stash[_NLEFT_OUT] = len(left_out)
    config.hook.pytest_deselected(items=left_out)


def _leave_out_passed(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that have passed in another run."""
    path = config.getoption("--passed")
    if path is None:
        return
    passed = set(path.read_text("utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note in the report of a test whether it does more with `--all` or with reference files."""
    report = yield
    is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if is_property or "some" in getattr(item, "fixturenames", ()):
        report.user_properties.append(("does", "more"))
    if item.nodeid.partition("::")[0] in _used_by:
        report.user_properties.append(("needs", "files"))
    return report


class Passed:
    """Names of tests that have passed, written to a file at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: set[str] = set()
        self._used_by: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name, properties = report.nodeid, dict(report.user_properties)
        if "needs" in properties:
            self._used_by.add(name.partition("::")[0])
        if not report.passed:
            self._names.discard(name)
        elif report.when == "call" and "does" not in properties:
            self._names.add(name)

    def pytest_sessionfinish(self) -> None:
        kept = (each for each in self._names if each.partition("::")[0] not in self._used_by)
        self._path.write_text("".join(f"{each}\n" for each in sorted(kept)), "utf-8")


Some = Callable[[Iterable[Any], int], list[Any]]


@pytest.fixture(scope="session")
def some(pytestconfig: pytest.Config) -> Some:
    """Sample the cases of a long loop: `some(cases, step)`.

    Returns all of them with ``--all``, else every 3 * step-th, for the sake of time, and the last.
    With a prime step, fields at every alignment are hit.
    """

    def chosen(cases: Iterable[Any], step: int) -> list[Any]:
        found = list(cases)
        if pytestconfig.getoption("--all"):
            return found
        return [*found[: -1 : 3 * step], *found[-1:]]

    return chosen


def pytest_collection(session: pytest.Session) -> None:
    """Collect no garbage while tests are found: it takes a third of the time, and finds little."""
    gc.disable()
    _import_share(session.config)


def _import_share(config: pytest.Config) -> None:
    """Import every n-th module of tests first in each of n workers of pytest-xdist.

    All of them import all modules. In the same order, each would compile all of them to bytecode
    at the same time; so each compiles its share, and finds that of the others.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    found = {
        path.relative_to(REPOSITORY).with_suffix("")
        for each in config.args
        for path in (REPOSITORY / each).rglob("test_*.py")
        if (path.parent / "__init__.py").exists()
    }
    first = int(worker["workerid"].removeprefix("gw"))
    for path in sorted(found)[first :: worker["workercount"]]:
        # Errors are reported where the module is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.parts))


def pytest_collection_finish() -> None:
    """Take the collected tests, millions of objects, out of every later garbage collection."""
    gc.enable()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the number of tests left out to the main process of pytest-xdist."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left out"] = session.config.stash.get(_NLEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the number from a worker: each of them collects all tests."""
    if hasattr(node, "workeroutput"):  # it did not crash
        node.config.stash[_NLEFT_OUT] = node.workeroutput["left out"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the number of skipped tests and how to run them."""
    config = terminalreporter.config
    reasons = Counter(
        "time" if _NO_TIME in why else "files" if _is_of_files(why) else "other"
        for why in (str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    )
    reasons["other"] += config.stash.get(_NLEFT_OUT, 0)
    sentences = []
    if reasons["other"]:
        how = "ARGS=-rs lists why" if config.getoption("--all") else "make test-all"
        sentences.append(f"{reasons['other']:,} {_LEFT_OUT} were not run: {how}.")
    if reasons["files"]:
        sentences.append(f"{reasons['files']:,} tests need reference files: see BLOSCPACK_VECTORS.")
    if reasons["time"]:
        sentences.append(f"{reasons['time']:,} tests had not begun when the time was over.")
    if sentences:
        terminalreporter.write_line(" ".join(sentences))


def _is_of_files(why: str) -> bool:
    return _NO_REFERENCE in why or _NO_PARAMETERS in why


_LEFT_OUT = "long tests and tests of torch, dask, zarr, S3 and other programs"


@dataclass(frozen=True, slots=True)
class Vectors:
    """Files written by the original, with their description."""

    folder: Path
    manifest: dict[str, Any]


@pytest.fixture(scope="session")
def vectors() -> Vectors:
    manifest = ReferenceFolder("bloscpack") / "manifest.json"
    return Vectors(manifest.parent, json.loads(manifest.read_text("utf-8")))
