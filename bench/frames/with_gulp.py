"""Our reader and our ingest of Gulp directories."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bloscpack.gulp import GulpIngestor
from bloscpack.gulp.adapters import Custom20BNCsvJpegAdapter
from bloscpack.gulp.clipsource import GulpSource
from frames.contenders import CLIP, LOADING, Frames, GulpClips, ReadClip


class Gulp(GulpClips):
    note = "GulpIO2's files through `bloscpack.frames.open`: one array; all processors"
    modules = ("bloscpack.gulp",)
    works = (CLIP, LOADING)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with GulpSource(path) as source:

            def read(key: str, selection: slice) -> Frames:
                (frames,) = source.read([(key, selection)])
                return frames

            yield read


def ingest(
    table: Path, root: Path, target: Path, nitems: int, nworkers: int, *, keep: bool
) -> None:
    """Ingest by the adapter of GulpIO2's name; `keep` stores images as they are."""
    target.mkdir()
    adapter = Custom20BNCsvJpegAdapter(str(table), str(root), str(target), keep_jpegs=keep)
    GulpIngestor(adapter, target, nitems, nworkers)()
