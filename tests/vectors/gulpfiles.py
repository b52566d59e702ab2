"""The small Gulp directory: what it holds, and the function that made it."""

from pathlib import Path

import bloscpack as bp
from bloscpack import gulp

from .pictures import frame

# Of each clip its frames, height and width.
CLIPS = {"walk": (3, 24, 32), "run": (2, 16, 40)}


def make_gulp(parent: Path) -> None:
    folder = parent / "gulp"
    folder.mkdir()
    for number, (id_, (count, height, width)) in enumerate(CLIPS.items()):
        chunk = gulp.GulpChunk(folder / f"data_{number}.gulp", folder / f"meta_{number}.gmeta")
        with chunk.open("wb"):
            frames = [frame(k, height, width) for k in range(count)]
            chunk.append(id_, {"label": id_, "idx": number}, frames)
    bp.convert(folder, parent / "gulp_store.blp")
