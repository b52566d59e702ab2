"""A contender in its own process: reads frames at random so many times.

`process` starts it with the name of a contender. Members of a task:

path
    The files of the contender.
wanted
    A ``.npy`` file: the frames of every clip.
places
    What to read, in this order and then again: an id with start, stop and step, or with an ordinal.
per_call
    How many of these each time.
bare
    Whether to decode chunks from memory instead; of single frames.
"""

import sys
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from harness import Loop, loop_of
from process import serve
from races import assemble

from frames.bare import bare_frames
from frames.contender import OURS, TABLE, Contender
from frames.race import require_frames

_NCHECKED = 20


def main(arguments: list[str]) -> int:
    """Answer until there are no more requests; return the exit status."""
    (contender,), _ = assemble(TABLE, arguments)
    return serve(lambda task, stack: prepare(contender, task, stack))


def prepare(contender: Contender, task: dict[str, Any], stack: ExitStack) -> Loop:
    """Return the loop of a task, after checking what it results in."""
    path = Path(task["path"])
    read: Any = bare_frames(path) if task["bare"] else stack.enter_context(contender.open(path))
    places: list[tuple[str, Any]] = []
    for key, *which in task["places"]:
        if len(which) > 1:
            places.append((key, slice(*which)))
        elif contender.name in OURS:  # an int picks a frame
            places.append((key, which[0]))
        else:
            places.append((key, slice(which[0], which[0] + 1)))
    # Mapped, so that this process has never had an array of this size.
    wanted = np.load(task["wanted"], mmap_mode="r")
    for key, which in places[:_NCHECKED]:
        found = read(key, which)
        if isinstance(which, int):
            found, which = [found], slice(which, which + 1)
        require_frames(found, wanted[which], contender.name, f"{key}, frames {which}")
    forever, per_call = cycle(places), task["per_call"]

    def call() -> None:
        for _ in range(per_call):
            read(*next(forever))

    return loop_of(call)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
