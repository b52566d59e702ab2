"""The run: one array, its files by every contender, and how they race."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from race.races import Case, Races, file_system, folder_in_memory
from race.timing import Loop

from peers.contenders import TABLE, Contender
from peers.data import GENERATOR, SPECS, Spec, field
from peers.formats import Ours, stored_chunks


class Arrays(Races):
    """Races over files of one array, with bloscpack 0.16 where it is there.

    Attributes
    ----------
    array : ndarray
        The stored array.
    on_disk : bool
        Whether `folder` and `memory_folder` are on different file systems.
    """

    folder_name, table = "peers", TABLE

    def make_data(self) -> None:
        in_memory = folder_in_memory()
        self.on_disk = in_memory is not None and in_memory not in self.folder.resolve().parents
        self.array = field(self.setting.nrows)
        self._written = cache(self._write)
        self.start_original()
        if self.original is not None:
            np.save(self.folder / "array.npy", self.array)

    def about(self) -> dict[str, str]:
        about = super().about()
        about["array"] = f"{self.array.nbytes / 1e6:g} MB {GENERATOR}"
        about["chunks"] = "; ".join(map(self._stored, SPECS))
        memory = f"; 'in memory': {file_system(self.memory_folder)}" if self.on_disk else ""
        about["files"] = f"{file_system(self.folder)}, in the page cache{memory}"
        setting = self.setting
        about["rounds"] = f"{setting.nrounds}, or {setting.nrounds_of_parts} of small parts"
        return about

    def _stored(self, spec: Spec) -> str:
        chunks = stored_chunks(self.path_of(Ours(), spec))
        times = self.array.nbytes / sum(map(len, chunks))
        blocksize = int.from_bytes(chunks[0][8:12], "little")
        return (
            f"{spec} ({spec.chunk_rows} rows): stored {times:.2f} times smaller, Blosc blocks of "
            f"{blocksize:,} bytes"
        )

    def path_of(self, contender: Contender, spec: Spec, nrows: int | None = None) -> Path:
        """Return the file of a contender with all or the first rows, written once."""
        return self._written(contender.name, spec, len(self.array) if nrows is None else nrows)

    def _write(self, name: str, spec: Spec, nrows: int) -> Path:
        path = self.folder / f"{name}, {spec}, {nrows} rows"
        self.named(name).write(path, self.array[:nrows], spec)
        return path

    def formats(self) -> list[Contender]:
        """Return the contenders whose files can be opened: all but C-Blosc."""
        return [one for one in self.contenders if not one.works]

    def race(
        self,
        case: Case,
        prepare: Callable[[Contender], dict[str, Loop]],
        original: dict[str, Loop] | None = None,
        per_call: int = 1,
        *,
        is_plain: bool = False,
        is_part: bool = False,
    ) -> None:
        """Race the contenders.

        Parameters
        ----------
        case : Case
            Without results; its key begins with the kind of work.
        prepare : callable
            Returns the loops of a contender, after checking their results.
        original : dict of str to Loop, optional
            That of bloscpack 0.16.
        per_call : int
            How many of the things that are timed a call does.
        is_plain : bool
            Without contenders that only add a checksum to another one.
        is_part : bool
            Whether a call handles a small part of a file, in microseconds.
        """
        loops: dict[str, Loop] = {}
        for contender in self.contenders:
            if contender.works and case.key.partition("/")[0] not in contender.works:
                continue
            if is_plain and contender.is_variant:
                case.skipped[contender.name] = "not run"
                continue
            try:
                loops.update(prepare(contender))
            except NotImplementedError as err:
                case.skipped[contender.name] = str(err)
        setting = self.setting
        nrounds = setting.nrounds_of_parts if is_part else setting.nrounds
        self.hold(case, loops | (original or {}), per_call, nrounds)
