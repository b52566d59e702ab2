"""Open a store or a Gulp directory and read a frame, in a process that loads only one library.

``python -m frames.opening_worker LIBRARY PATH ID FRAME`` prints as JSON the cost of opening and of
the first frame.
"""

import json
import sys
from time import perf_counter

from race.resident import resident


def main(arguments: list[str]) -> int:
    """Print the figures; return the exit status."""
    library, path, key, number = arguments
    if library == "gulpio2":
        from gulpio2 import GulpDirectory

        before, start = resident(), perf_counter()
        directory = GulpDirectory(path)
        nclips = len(directory.merged_meta_dict)
        opened, after = perf_counter(), resident()
        frame = directory[key, [int(number)]][0][0]
    else:
        import bloscpack as bp
        import bloscpack.frames

        before, start = resident(), perf_counter()
        source = bp.frames.open(path)
        nclips = len(source)
        opened, after = perf_counter(), resident()
        frame = source[key][int(number)]
    found = {
        "seconds": opened - start,
        "first": perf_counter() - opened,
        "grown": after - before,
        "resident": resident(),
        "nclips": nclips,
        "sum": int(frame.sum()),
    }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
