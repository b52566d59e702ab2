"""Races of a run: contenders, folders, workers, results, and checks of what contenders return."""

import platform
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

import bloscpack
from bloscpack.format.codec import BLOSC_VERSION
from bloscpack.parallel.threads import available_cpus
from race.original import Original
from race.timing import NTHREADS, ORIGINAL, Call, Loop, take_turns
from race.worker import Worker, WorkerError, WorkerLoop

_IN_MEMORY = Path("/dev/shm")
_NREADS = 499  # random reads before the sequence repeats; a prime number

Say = Callable[[str], object]
"""Takes a line about the progress."""
Table = Mapping[str, str | tuple[str, dict[str, Any]]]
"""Contenders by name, see `assemble`."""
Setting = SimpleNamespace
"""How much to do: the values of `Benchmark.settings` for this run."""
Task = dict[str, Any]
"""Work for a contender in its own process, as JSON values."""


class Contender:
    """Base of all contenders.

    Attributes
    ----------
    name : str
        Its label in tables, which is its key in the table of contenders.
    note : str
        How it works and what it checks, for the page.
    libraries : str
        Text with the versions, as "zarr {zarr}".
    works : tuple of str
        Kinds of work that it takes part in, where a benchmark has several.
    modules : tuple of str
        Modules that must be installed; imported when the contender is made.
    """

    name = ""
    note = ""
    libraries = "bloscpack {bloscpack}"
    works: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def __init__(self, **options: Any) -> None:
        """Take attributes from the table of contenders."""
        vars(self).update(options)
        for module in self.modules:
            import_module(module)

    @property
    def lib(self) -> Any:
        """The first of `modules`; not an attribute, as modules cannot be pickled for a worker."""
        return import_module(self.modules[0])

    def version(self) -> str:
        """Return names and versions of the libraries."""
        return self.libraries.format_map(_Versions())


class _Versions(dict[str, str]):
    def __missing__(self, name: str) -> str:
        if name == "HDF5":
            return str(import_module("h5py").version.hdf5_version)
        return bloscpack.__version__ if name == "bloscpack" else version(name)


@dataclass(slots=True)
class Case:
    """Result of one race.

    Attributes
    ----------
    key : str
        Name for tables and targets.
    title : str
        Description of the work.
    nbytes : int
        Decoded bytes that one call handles; 0 where a speed has little meaning.
    seconds : dict of str to list of float
        Seconds per call by contender, one figure per round.
    skipped : dict of str to str
        Contenders that did not take part, and why.
    processor : dict of str to float
        Median seconds of processor time per call, of contenders in processes of their own.
    """

    key: str
    title: str
    nbytes: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)

    def median(self, name: str) -> float | None:
        """Return the median of a contender, None if it did not take part."""
        found = self.seconds.get(name)
        return median(found) if found else None

    def best(self) -> dict[str, float]:
        """Return the seconds of the fastest round by contender."""
        return {name: min(found) for name, found in self.seconds.items()}


class Races:
    """Base of the runs of all benchmarks; a subclass makes the data and defines the races.

    Attributes
    ----------
    setting : Setting
        How much to do.
    folder : Path
        An empty folder for files that are read.
    memory_folder : Path
        An empty folder for files that are written, in memory where there is such a file system.
    contenders : list of Contender
        Those that are installed.
    absent : dict of str to str
        Why others are not there.
    original : Original, optional
        bloscpack 0.16, where `start_original` was called and could.
    cases : list of Case
        Results so far.
    found : dict
        Other measurements, JSON values by name.
    closing : ExitStack
        Closed at the end of the run, or when the data cannot be made.
    """

    folder_name = ""
    table: ClassVar[Table] = {}

    def __init__(
        self, setting: Setting, folder: Path, memory_folder: Path, names: list[str], say: Say
    ) -> None:
        self.setting = setting
        self.folder = folder
        self.memory_folder = memory_folder
        self.contenders, self.absent = assemble(self.table, names)
        self.say = say
        self.cases: list[Case] = []
        self.found: dict[str, Any] = {}
        self.original: Original | None = None
        self.closing = ExitStack()
        self._workers: dict[Any, Worker] = {}
        with ExitStack() as stack:  # servers must not outlive a failure
            stack.callback(self.closing.close)
            self.make_data()
            stack.pop_all()

    def make_data(self) -> None:
        """Make the data that all work shares; subclasses do."""

    def about(self, libraries: Iterable[str] = ()) -> dict[str, str]:
        """Return facts that the page lists above the figures; subclasses add theirs.

        `libraries` are versions beside those of the contenders.
        """
        about = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": f"{_processor()}, {available_cpus()} processors, {platform.system()}",
            "threads": str(NTHREADS),
            "memory": f"{_copied_nbytes() / 1e9:.1f} GB/s when one thread copies",
            "versions": f"bloscpack {bloscpack.__version__}, C-Blosc {BLOSC_VERSION}, "
            f"python-blosc {version('blosc')}, numpy {np.__version__}, "
            f"Python {platform.python_version()}",
        }
        if self.original is not None:
            versions = self.original.versions.items()
            about[ORIGINAL] = ", ".join(f"{name} {number}" for name, number in versions)
        if contenders := dict.fromkeys(one.version() for one in self.contenders):
            about["contenders"] = "; ".join([*contenders, *libraries])
        if self.absent:
            about["not there"] = "; ".join(f"{who}: {why}" for who, why in self.absent.items())
        about["files"] = (
            f"read from {file_system(self.folder)}, in the page cache; "
            f"written to {file_system(self.memory_folder)}"
        )
        return about | {"rounds": str(self.setting.nrounds)}

    def start_original(self) -> None:
        """Start bloscpack 0.16, which is named as absent if it cannot be."""
        try:
            self.original = Original()
        except (WorkerError, OSError) as err:
            self.absent[ORIGINAL] = str(err)
        else:
            self.closing.callback(self.original.close)

    def loop_of_original(self, op: str, wanted: Any, **request: Any) -> dict[str, Loop]:
        """Return the loop of bloscpack 0.16 by its name, if it is there.

        The result of `op` must have the bytes of `wanted`.
        """
        if self.original is None:
            return {}
        return {ORIGINAL: self.original.loop(op, wanted, **request)}

    def has(self, name: str) -> bool:
        """Return whether a contender takes part."""
        return any(one.name == name for one in self.contenders)

    def named(self, name: str) -> Any:
        """Return a contender that takes part."""
        return next(one for one in self.contenders if one.name == name)

    def worker(self, name: str, key: object = None, timeout: float | None = None) -> Worker:
        """Return the process of a contender, one for each `key`."""
        if (name, key) not in self._workers:
            self._workers[name, key] = worker = Worker(self.folder_name, name, timeout)
            self.closing.callback(worker.close)
        return self._workers[name, key]

    def hold_work(
        self, case: Case, work: str, task: Callable[[Any], Task], per_call: int = 1
    ) -> None:
        """Race the contenders that do a kind of work at their tasks, each in its own process."""
        loops = {
            one.name: self.worker(one.name).prepare(**task(one))
            for one in self.contenders
            if work in one.works
        }
        self.hold(case, loops, per_call)

    def hold(
        self, case: Case, loops: dict[str, Loop], per_call: int = 1, nrounds: int | None = None
    ) -> None:
        """Let all loops take turns and keep the result.

        Parameters
        ----------
        case : Case
            Without results.
        loops : dict of str to Loop
            Timed work by contender; its result was checked before.
        per_call : int
            How many of the things that are timed a call does.
        nrounds : int, optional
            Rounds; by default those of the setting.
        """
        self.say(case.title)
        if loops:
            case.seconds = take_turns(loops, per_call, nrounds or self.setting.nrounds)
        for name, loop in loops.items():
            if isinstance(loop, WorkerLoop):  # the first two runs count the calls of a round
                case.processor[name] = median(loop.processor[2:]) / per_call
        self.cases.append(case)

    def results(self) -> dict[str, Any]:
        """Return all measurements as JSON values."""
        return {
            "about": self.about(),
            "setting": vars(self.setting),
            "nthreads": NTHREADS,
            "cases": [asdict(case) for case in self.cases],
            "notes": {one.name: one.note for one in self.contenders},
            **self.found,
        }


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A folder of cases.

    Attributes
    ----------
    races : type of Races
        Its data and contenders.
    work : dict of str to callable
        Kinds of work, each called with the running `Races`.
    settings : dict of str to tuple
        How much to do, by name: in a full run, and in a try.
    always : tuple of str
        Contenders that take part even if they are not chosen.
    """

    races: type[Any]
    work: dict[str, Callable[[Any], object]]
    settings: dict[str, tuple[Any, Any]]
    always: tuple[str, ...] = ()


def assemble(table: Table, names: Iterable[str] | None = None) -> tuple[list[Any], dict[str, str]]:
    """Return the contenders that are installed, and why the others are not there.

    `table` has for each name the "module:class" of the contender, or that and its attributes;
    `names` are all by default.
    """
    present, absent = [], {}
    for name in table if names is None else names:
        entry = table[name]
        made_by, options = (entry, {}) if isinstance(entry, str) else entry
        module, _, kind = made_by.partition(":")
        try:
            present.append(getattr(import_module(module), kind)(name=name, **options))
        except ImportError as err:
            absent[name] = f"not installed ({err})"
    return present, absent


def folder_in_memory() -> Path | None:
    """Return a file system in memory, if there is one."""
    return _IN_MEMORY if _IN_MEMORY.is_dir() else None


def random_places(seed: int, *counts: int) -> list[list[int]]:
    """Return for each count random numbers below it, the same for every call."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, count, _NREADS).tolist() for count in counts]


def exhaust(results: Iterable[object]) -> None:
    """Take all results and keep none."""
    deque(results, 0)


def checked(call: Call, is_right: Callable[[Any], bool], who: str, what: str) -> Call:
    """Return `call` after one run whose result `is_right`."""
    require(is_right(call()), who, what)
    return call


def require(is_equal: bool, who: str, what: str) -> None:
    """Stop the run unless a result was right.

    Raises
    ------
    AssertionError
        The result was wrong.
    """
    if not is_equal:
        raise AssertionError(f"{who}: {what} is not what was stored")


def require_equal(found: Any, wanted: Any, who: str, what: str) -> None:
    """Stop the run unless two arrays, or sequences of arrays, are equal."""
    if isinstance(found, np.ndarray):
        is_equal = np.array_equal(found, wanted)
    else:
        is_equal = len(found) == len(wanted) and all(map(np.array_equal, found, wanted))
    require(is_equal, who, what)


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there."""
    if path.is_dir():
        rmtree(path)
    else:
        path.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Return the bytes in a file, or in all files of a folder."""
    if path.is_dir():
        return sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())
    return path.stat().st_size


def file_system(folder: Path) -> str:
    """Return the folder and the kind of its file system."""
    best, kind = Path(), "unknown file system"
    mounts = Path("/proc/mounts")
    if mounts.exists():
        for line in mounts.read_text("utf-8").splitlines():
            _, point, name, *_ = line.split()
            if folder.resolve().is_relative_to(point) and len(point) >= len(str(best)):
                best, kind = Path(point), name
    return f"{folder.parent} ({kind})"


def _copied_nbytes() -> float:
    """Return how many bytes one thread copies in a second, at best."""
    source = np.ones(1 << 25)
    target = source.copy()
    seconds = []
    for _ in range(5):
        start = perf_counter()
        np.copyto(target, source)
        seconds.append(perf_counter() - start)
    return source.nbytes / min(seconds)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
