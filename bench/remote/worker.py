"""A contender in its own process: does a kind of work so many times.

`process` starts it with the name of a contender. A task is what `race.Bench.task` makes.
"""

import sys

from process import serve
from races import assemble

from remote.contender import TABLE, prepare


def main(arguments: list[str]) -> int:
    """Answer until there are no more requests; return the exit status."""
    (contender,), _ = assemble(TABLE, arguments)
    return serve(lambda task, stack: prepare(contender, task, stack))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
