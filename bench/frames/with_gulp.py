"""Our reader and our ingest of Gulp directories."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bloscpack.gulp import GulpIngestor
from bloscpack.gulp.adapters import Custom20BNCsvJpegAdapter
from bloscpack.gulp.clipsource import GulpSource
from frames.contenders import CLIP, LOADING, Frames, GulpClips, ReadClip


class GulpDirectory(GulpClips):
    """A Gulp directory, read by the names of GulpIO2."""

    note = "GulpIO2's files and its ``gd[id, slice]``: a list of frames"
    modules = ("bloscpack.gulp",)


class Gulp(GulpDirectory):
    """A Gulp directory as a source of clips."""

    note = "GulpIO2's files through `bloscpack.frames.open`: one array; all processors"
    works = (CLIP, LOADING)
    nthreads: int | None = None

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with GulpSource(path) as source:

            def read(key: str, selection: slice) -> Frames:
                (frames,) = source.read([(key, selection)], nthreads=self.nthreads)
                return frames

            yield read


class GulpOneThread(Gulp):
    """A Gulp directory as a source, on one thread."""

    note = "the same on one thread"
    works = (CLIP,)
    nthreads = 1


def ingest(
    table: Path, root: Path, target: Path, nitems: int, nworkers: int, *, keep: bool
) -> None:
    """Ingest by the adapter of GulpIO2's name; `keep` stores images as they are."""
    target.mkdir()
    adapter = Custom20BNCsvJpegAdapter(str(table), str(root), str(target), keep_jpegs=keep)
    GulpIngestor(adapter, target, nitems, nworkers)()
