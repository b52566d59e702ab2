"""One run: its contenders, the files they wrote, and the races held so far."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from harness import BARE, ORIGINAL, Loop, Timing, take_turns
from original import NoOriginalError, Original

from peers.bare import Bare, BareDecoder, NoBareError, build
from peers.contender import Contender, assemble
from peers.data import Setting, Spec
from peers.data import field as make_field
from peers.with_bloscpack import Ours, stored_chunks

BARE_OWN_BLOCKS = f"{BARE}, its own blocks"


@dataclass(slots=True)
class Case:
    """What came out of one race.

    Attributes
    ----------
    key : str
        For `targets`.
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


class Bench:
    """What all work shares.

    Parameters
    ----------
    setting : Setting
        How much to do.
    folder : Path
        Empty; takes the files.
    memory_folder : Path or None
        Empty, on a file system in memory, if there is one and `folder` is on a disk.
    names : list of str
        The contenders.
    say : callable
        Takes a line on the progress.
    """

    def __init__(
        self,
        setting: Setting,
        folder: Path,
        memory_folder: Path | None,
        names: list[str],
        say: Callable[[str], object],
    ) -> None:
        self.setting = setting
        self.folder = folder
        self.memory_folder = memory_folder
        self.say = say
        self.cases: list[Case] = []
        self.found: dict[str, Any] = {}
        self.contenders, self.absent = assemble(names)
        self.array = make_field(setting.nrows)
        self._written = cache(self._write)
        self.chunks_of = cache(self._chunks)
        self.closing = ExitStack()
        self.original = self._start_original()
        try:
            self.library = build(folder)
        except NoBareError as err:
            self.library = None
            self.absent[BARE] = str(err)

    def _start_original(self) -> Original | None:
        try:
            original = Original()
        except (NoOriginalError, OSError) as err:
            self.absent[ORIGINAL] = str(err)
            return None
        np.save(self.folder / "array.npy", self.array)
        return original

    def close(self) -> None:
        """Close the handles that are open and end the process of the original."""
        self.closing.close()
        if self.original is not None:
            self.original.close()

    def path_of(self, contender: Contender, spec: Spec, nrows: int | None = None) -> Path:
        """Return the file that a contender wrote of all or the first rows, made once."""
        return self._written(contender.name, spec, len(self.array) if nrows is None else nrows)

    def _write(self, name: str, spec: Spec, nrows: int) -> Path:
        path = self.folder / f"{name}, {spec}, {nrows} rows"
        contender = next(one for one in self.contenders if one.name == name)
        contender.write(path, self.array[:nrows], spec)
        return path

    def _chunks(self, spec: Spec) -> list[bytes]:
        """Return the Blosc chunks of our file."""
        return stored_chunks(self.path_of(Ours(), spec))

    def decoder(self, spec: Spec) -> BareDecoder | None:
        """Return C-Blosc for the chunks of our file."""
        if self.library is None:
            return None
        return Bare(self.library, spec.chunk_nbytes).decoder(self.chunks_of(spec), self.array)

    def blocksize(self, spec: Spec) -> int:
        """Return the size of Blosc blocks in our file."""
        return int.from_bytes(self.chunks_of(spec)[0][8:12], "little")

    def race(
        self,
        case: Case,
        prepare: Callable[[Contender], dict[str, Loop]],
        others: dict[str, Loop],
        per_call: int = 1,
        *,
        is_plain: bool = False,
        is_part: bool = False,
    ) -> None:
        """Let everyone run in turns and keep the result.

        Parameters
        ----------
        case : Case
            Without results.
        prepare : callable
            Gives the loops of a contender, after checking what they result in.
        others : dict of str to Loop
            C-Blosc and the original.
        per_call : int
            How many of the things that are timed a call does.
        is_plain : bool
            Without those who only add a checksum to another contender.
        is_part : bool
            Whether a call handles a small part of a file, in microseconds.
        """
        self.say(case.title)
        case.skipped.update(dict.fromkeys(self.absent, "not there"))
        loops: dict[str, Loop] = {}
        for contender in self.contenders:
            if is_plain and contender.is_variant:
                case.skipped[contender.name] = "not run"
                continue
            try:
                loops.update(prepare(contender))
            except NotImplementedError as err:
                case.skipped[contender.name] = str(err)
        loops.update(others)
        setting = self.setting
        nrounds = setting.nrounds_of_parts if is_part else setting.nrounds
        timings = take_turns(loops, per_call, nrounds) if loops else {}
        case.seconds = {name: list(timing.seconds) for name, timing in timings.items()}
        self.cases.append(case)


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
