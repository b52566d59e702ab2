"""A disk that loses power: any subset of the unsynced changes may survive.

The calls of an operation are recorded while they run. Then, for a power cut after each of them, the
possible disks are rebuilt: everything that was synced, and a choice of the rest. A file's name is
durable after a sync of its folder, its bytes after a sync of the file.
"""

import hashlib
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from bloscpack.format.header import is_log
from bloscpack.format.log import COPIES, SLOTS

from .disk import REAL, REAL_IDENTITY

Identity = tuple[int, int]
_SECTOR = 512


@dataclass
class File:
    identity: Identity
    durable: bytearray
    # Unsynced changes: ("write", offset, bytes) and ("truncate", size).
    pending: list[tuple[Any, ...]] = field(default_factory=list)


class Recorder:
    """Runs calls, and records their effects by file, not by descriptor."""

    def __init__(self, folder: Path) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.files: dict[int, File] = {}
        self.names: dict[str, int] = {}
        self._numbers: dict[Identity, int] = {}
        for path in sorted(folder.iterdir()):
            status = path.stat()
            number = self._add((status.st_ino, status.st_dev))
            self.files[number] = File((status.st_ino, status.st_dev), bytearray(path.read_bytes()))
            self.names[path.name] = number

    def _add(self, identity: Identity) -> int:
        number = len(self.files)
        # The inode number of a removed file may be reused: it belongs to the newest file.
        self._numbers[identity] = number
        self.files[number] = File(identity, bytearray())
        return number

    def _number(self, fd: int) -> int:
        return self._numbers[REAL_IDENTITY(fd)]

    def call(self, name: str, *args: Any) -> Any:
        if name == "create":
            fd = REAL[name](*args)
            number = self._add(REAL_IDENTITY(fd))
            self.events.append(("create", os.path.basename(args[0]), number))
            return fd
        if name == "write_at":
            self.events.append(("write", self._number(args[0]), args[1], b"".join(args[2:])))
        elif name == "copy_range":
            source, source_offset, target, offset, nbytes = args
            data = os.pread(source, nbytes, source_offset)
            self.events.append(("write", self._number(target), offset, data))
        elif name == "punch":  # of whole blocks only, which the content of a test may not depend on
            fd, offset, nbytes = args
            self.events.append(("write", self._number(fd), offset, bytes(nbytes)))
        elif name == "truncate":
            self.events.append(("truncate", self._number(args[0]), args[1]))
        elif name == "sync":
            self.events.append(("sync", self._number(args[0])))
            return None
        elif name == "sync_folder":
            self.events.append(("sync_folder",))
            return None
        elif name in ("replace", "rename_new") and os.path.isfile(args[0]):
            self.events.append(("replace", *map(os.path.basename, args)))
        elif name == "unlink":
            REAL[name](*args)  # may raise if the file does not exist
            self.events.append(("unlink", os.path.basename(args[0])))
            return None
        return REAL[name](*args)


def sectors_of(path: Path) -> Sequence[int]:
    """Return the sectors of a log that have the slots and their copies."""
    return (SLOTS[0], COPIES[0]) if is_log(path.read_bytes()) else ()


def after_cut(
    recorder: Recorder, count: int, seed: int, sectors: Sequence[int] = ()
) -> dict[str, File]:
    """Return files that may exist, by name, if the power fails after `count` events.

    Seed 0 keeps no unsynced change, seed 1 keeps all, other seeds a random choice. Of `sectors`, by
    their offsets, one that was being written may be lost; no other write is torn in them.
    """
    files = {
        number: File(file.identity, bytearray(file.durable))
        for number, file in recorder.files.items()
    }
    names = dict(recorder.names)
    # Names as the program sees them, and the changes among them that are not durable.
    pending: list[tuple[Any, ...]] = []
    seen = dict(names)
    for event in recorder.events[:count]:
        kind = event[0]
        if kind in ("write", "truncate"):
            files[event[1]].pending.append((kind, *event[2:]))
        elif kind == "sync":
            _apply(files[event[1]], files[event[1]].pending)
            files[event[1]].pending = []
        elif kind == "sync_folder":
            _rename(names, pending)
            pending = []
        elif kind == "replace":
            number = seen.pop(event[1])
            seen[event[2]] = number
            pending.append(("replace", event[1], event[2], number))
        else:
            if kind == "create":
                seen[event[1]] = event[2]
            pending.append(event)
    choose = random.Random(f"{count} {seed}")
    keep = [seed == 1 or (seed > 1 and choose.random() < 0.5) for _ in pending]
    _rename(names, [event for event, kept in zip(pending, keep, strict=True) if kept])
    for file in files.values():
        kept_writes = [
            change
            for whole in file.pending
            if seed == 1 or (seed > 1 and choose.random() < 0.6)
            for is_atomic in [any(_is_in(whole, at, at + _SECTOR) for at in sectors)]
            for change in [_torn(whole, choose) if seed > 1 and not is_atomic else whole]
        ]
        _apply(file, kept_writes)
        torn = [
            at for at in sectors if any(_is_in(each, at, at + _SECTOR) for each in file.pending)
        ]
        if torn and choose.random() < 0.5:
            _apply(file, [("write", choose.choice(torn), choose.randbytes(_SECTOR))])
    return {name: files[number] for name, number in names.items()}


def _is_in(change: tuple[Any, ...], start: int, stop: int) -> bool:
    return change[0] == "write" and start <= change[1] and change[1] + len(change[2]) <= stop


def _torn(change: tuple[Any, ...], choose: random.Random) -> tuple[Any, ...]:
    if change[0] == "write" and choose.random() < 0.3:
        _, offset, data = change
        return "write", offset, data[: choose.randrange(len(data) + 1)]
    return change


def _apply(file: File, changes: list[tuple[Any, ...]]) -> None:
    for change in changes:
        if change[0] == "truncate":
            size = change[1]
            del file.durable[size:]
            file.durable += bytes(size - len(file.durable))
        else:
            _, offset, data = change
            file.durable += bytes(max(offset - len(file.durable), 0))
            file.durable[offset : offset + len(data)] = data


def _rename(names: dict[str, int], events: list[tuple[Any, ...]]) -> None:
    for event in events:
        if event[0] == "create":
            names[event[1]] = event[2]
        elif event[0] == "unlink":
            names.pop(event[1], None)
        else:
            _, old, new, number = event
            if names.get(old) == number:
                del names[old]
            names[new] = number


def all_cuts(
    recorder: Recorder, seeds: Iterable[int], sectors: Sequence[int] = ()
) -> Iterator[tuple[int, int, dict[str, File]]]:
    """Yield a number of events, a seed and the files of `after_cut`; equal files only once."""
    tried = set()
    for count, seed in product(range(len(recorder.events) + 1), seeds):
        files = after_cut(recorder, count, seed, sectors)
        content = repr(sorted((name, bytes(file.durable)) for name, file in files.items()))
        key = hashlib.sha256(content.encode()).digest()
        if key not in tried:
            tried.add(key)
            yield count, seed, files


def write_all(files: dict[str, File], folder: Path) -> Path:
    """Write what is durable of the files of a cut into a new folder, and return it."""
    folder.mkdir()
    for name, file in files.items():
        (folder / name).write_bytes(file.durable)
    return folder
