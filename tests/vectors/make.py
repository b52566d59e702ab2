"""Make the files in ``formats``: ``python -m tests.vectors.make NEW_FOLDER``.

The files there are fixed; this program shows how each was made, and refuses to write over a file.
Another release of an encoder, or of a compressor, may make other bytes of the same content.
"""

import sys
from pathlib import Path

from .datasets import make_datasets
from .gulpfiles import make_gulp
from .recordings import make_recordings

# One row for each file type.
MAKERS = (
    make_recordings,
    make_gulp,
    make_datasets,
)


def main(folder: Path) -> None:
    folder.mkdir()  # a new one: no file is ever replaced
    for make in MAKERS:
        make(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
