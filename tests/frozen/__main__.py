"""Record the snapshots again: ``python -m tests.frozen [NAME ...]``."""

import sys

from .snapshots import SNAPSHOTS, record


def main(names: list[str]) -> None:
    unknown = {*names} - {*SNAPSHOTS}
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SNAPSHOTS)}")
    for name in names or SNAPSHOTS:
        record(name)


if __name__ == "__main__":  # workers of a command import this module, too
    main(sys.argv[1:])
