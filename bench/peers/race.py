"""One run: its contenders, the files they wrote, and the races held so far."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from harness import BARE, ORIGINAL, Loop
from original import NoOriginalError, Original
from races import Case, Races, assemble

from peers.bare import Bare, BareDecoder, NoBareError, build
from peers.contender import TABLE, Contender
from peers.data import Setting, Spec
from peers.data import field as make_field
from peers.with_bloscpack import Ours, stored_chunks

BARE_OWN_BLOCKS = f"{BARE}, its own blocks"


class Bench(Races):
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
        super().__init__(setting, *assemble(TABLE, names), say)
        self.folder = folder
        self.memory_folder = memory_folder
        self.array = make_field(setting.nrows)
        self._written = cache(self._write)
        self.chunks_of = cache(self._chunks)
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
        self.hold(case, loops, per_call, nrounds)
