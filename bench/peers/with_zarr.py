"""zarr, with its own codec pipeline or that of zarrs: a folder with a file for each chunk."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from peers.contender import Append, DataExtent, GrowingFile
from peers.data import Spec


class Zarr(GrowingFile):
    """Zarr format 3 without checksums, the default."""

    name = "zarr"
    note = "format 3, a file for each chunk; no checksums, the default"
    can_append = True
    can_grow = True
    is_parallel = True
    is_variant = False

    def version(self) -> str:
        """Return name and version."""
        return f"zarr {zarr.__version__}"

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Create an array and assign to it."""
        codecs: list[Any] = [BloscCodec(cname=spec.codec, clevel=spec.clevel, shuffle="shuffle")]
        if self.is_variant:
            codecs.append(Crc32cCodec())
        with self.settings(None):
            stored = zarr.create_array(
                str(path),
                shape=array.shape,
                dtype=array.dtype,
                chunks=(spec.chunk_rows, *array.shape[1:]),
                compressors=codecs,
            )
            if len(array):
                stored[:] = array

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        """Read."""
        with self.settings(nthreads):
            return zarr.open_array(str(path), mode="r")[:]

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        """Open; there is nothing to close."""
        with self.settings(None):
            array = zarr.open_array(str(path), mode="r")
        yield array

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        """Open in mode "r+" and use `append`."""
        with self.settings(None):
            array = zarr.open_array(str(path), mode="r+")
        yield array.append

    def settings(self, nthreads: int | None) -> AbstractContextManager[Any]:
        """Return the configuration; what is not named keeps its default."""
        if nthreads is None:
            return zarr.config.set({})
        return zarr.config.set({"async.concurrency": nthreads})

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return the files of the chunks, in order."""
        found = sorted((path / "c").glob("*/*"), key=lambda file: int(file.parent.name))
        return [DataExtent(file, 0, file.stat().st_size) for file in found]


class ZarrCrc32c(Zarr):
    """Zarr with the crc32c codec behind the compressor."""

    name = "zarr, crc32c"
    note = "as zarr, with its crc32c codec"
    is_variant = True


class Zarrs(Zarr):
    """Zarr with the codec pipeline of zarrs."""

    name = "zarrs"
    note = "zarr with the codec pipeline of zarrs; no checksums, the default"

    def __init__(self) -> None:
        import zarrs  # zarr works without it

        self._version = zarrs.__version__

    def version(self) -> str:
        """Return name and version."""
        return f"zarrs {self._version}"

    def settings(self, nthreads: int | None) -> AbstractContextManager[Any]:
        """Return the configuration that selects the pipeline."""
        settings: dict[str, Any] = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}
        if nthreads is not None:
            settings["threading.max_workers"] = nthreads
        return zarr.config.set(settings)


class ZarrsCrc32c(Zarrs):
    """Zarrs with the crc32c codec behind the compressor."""

    name = "zarrs, crc32c"
    note = "as zarrs, with zarr's crc32c codec"
    is_variant = True
