"""What all races share: what comes out of one, who takes part, and the folders they work in."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib import import_module
from itertools import cycle
from pathlib import Path
from shutil import rmtree
from time import perf_counter
from typing import Any

from harness import NTHREADS, Loop, Timing, take_turns

_IN_MEMORY = Path("/dev/shm")


@dataclass(slots=True)
class Case:
    """What came out of one race.

    Attributes
    ----------
    key : str
        For the tables and the targets.
    title : str
        What was done.
    nbytes : int
        Decoded bytes one call handles; 0 where a speed says nothing.
    seconds : dict of str to list of float
        Seconds a call by contender, one figure a round.
    skipped : dict of str to str
        Who did not take part, and why.
    """

    key: str
    title: str
    nbytes: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def median(self, name: str) -> float | None:
        """Return the median of a contender, None if it did not take part."""
        found = self.seconds.get(name)
        return Timing(tuple(found)).median if found else None


class Races:
    """The races of a run that were held so far.

    Parameters
    ----------
    setting : dataclass
        How much to do.
    contenders : list
        Who takes part.
    absent : dict of str to str
        Who does not, and why.
    say : callable
        Takes a line on the progress.

    Attributes
    ----------
    cases : list of Case
        What came out.
    found : dict
        What else was measured, JSON values by name.
    closing : ExitStack
        Takes what is to be closed at the end.
    """

    def __init__(
        self,
        setting: Any,
        contenders: list[Any],
        absent: dict[str, str],
        say: Callable[[str], object],
    ) -> None:
        self.setting = setting
        self.contenders = contenders
        self.absent = absent
        self.say = say
        self.cases: list[Case] = []
        self.found: dict[str, Any] = {}
        self.closing = ExitStack()

    def hold(self, case: Case, loops: dict[str, Loop], per_call: int, nrounds: int) -> None:
        """Let all run in turns and keep the result.

        Parameters
        ----------
        case : Case
            Without results.
        loops : dict of str to Loop
            What is timed, by the name of who does it; its result was checked before.
        per_call : int
            How many of the things that are timed a call does.
        nrounds : int
            How often everyone's turn comes.
        """
        self.say(case.title)
        case.skipped.update(dict.fromkeys(self.absent, "not there"))
        timings = take_turns(loops, per_call, nrounds) if loops else {}
        case.seconds = {name: list(timing.seconds) for name, timing in timings.items()}
        self.cases.append(case)

    def results(self, about: dict[str, str]) -> dict[str, Any]:
        """Return what was measured as JSON values, with what the page says of the surroundings."""
        return {
            "about": about,
            "setting": asdict(self.setting),
            "nthreads": NTHREADS,
            "cases": [asdict(case) for case in self.cases],
            "notes": {one.name: one.note for one in self.contenders},
            **self.found,
        }


def folder_in_memory() -> Path | None:
    """Return a file system in memory, if there is one."""
    return _IN_MEMORY if _IN_MEMORY.is_dir() else None


def assemble(
    table: Mapping[str, tuple[str, str]], names: Iterable[str] | None = None
) -> tuple[list[Any], dict[str, str]]:
    """Return the contenders that are installed, and for the others why they are not there.

    Parameters
    ----------
    table : mapping of str to (str, str)
        Module and class of each contender by its name.
    names : iterable of str, optional
        Those to choose; all by default.
    """
    present, absent = [], {}
    for name in table if names is None else names:
        module, kind = table[name]
        try:
            present.append(getattr(import_module(module), kind)())
        except ImportError as err:
            absent[name] = f"not installed ({err})"
    return present, absent


def timed_loop(call: Callable[[], object], before: Callable[[], object] = lambda: None) -> Loop:
    """Return the loop that runs `before`, untimed, ahead of every call."""

    def loop(count: int) -> float:
        seconds = 0.0
        for _ in range(count):
            before()
            start = perf_counter()
            call()
            seconds += perf_counter() - start
        return seconds

    return loop


def cycling(get: Callable[[Any], object], items: list[Any], per_call: int) -> Callable[[], None]:
    """Return a call that gets the next `per_call` of `items`, beginning anew at the end."""
    forever = cycle(items)

    def call() -> None:
        for _ in range(per_call):
            get(next(forever))

    return call


def require(is_equal: bool, who: str, what: str) -> None:
    """Fail the run unless a result was right.

    Raises
    ------
    AssertionError
        It was not.
    """
    if not is_equal:
        raise AssertionError(f"{who}: {what} is not what was stored")


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
