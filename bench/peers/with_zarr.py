"""zarr, with its own codec pipeline or that of zarrs: a folder with a file for each chunk."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from peers.contenders import Append, Contender, DataExtent, chunk_files
from peers.data import Spec


def create(path: Path, like: Any, spec: Spec, *, is_checked: bool = False, **options: Any) -> Any:
    """Create an array of format 3 with the shape and dtype of another; with crc32c if checked."""
    codecs: list[Any] = [BloscCodec(cname=spec.codec, clevel=spec.clevel, shuffle="shuffle")]
    return zarr.create_array(
        str(path),
        shape=like.shape,
        dtype=like.dtype,
        chunks=(spec.chunk_rows, *like.shape[1:]),
        compressors=[*codecs, Crc32cCodec()] if is_checked else codecs,
        **options,
    )


class Zarr(Contender):
    """Zarr format 3 without checksums, the default."""

    name = "zarr"
    note = "format 3, a file for each chunk; no checksums, the default"
    libraries = "zarr {zarr}"

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        with self.settings(None):
            stored = create(path, array, spec, is_checked=self.is_variant)
            if len(array):
                stored[:] = array

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        with self.settings(nthreads):
            return zarr.open_array(str(path), mode="r")[:]

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        with self.settings(None):
            array = zarr.open_array(str(path), mode="r")
        yield array

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        with self.settings(None):
            array = zarr.open_array(str(path), mode="r+")
        yield array.append

    def settings(self, nthreads: int | None) -> AbstractContextManager[Any]:
        """Return the configuration, by default zarr's own."""
        if nthreads is None:
            return zarr.config.set({})
        return zarr.config.set({"async.concurrency": nthreads})

    def data_extents(self, path: Path) -> list[DataExtent]:
        return chunk_files(path)


class ZarrCrc32c(Zarr):
    """Zarr with the crc32c codec behind the compressor."""

    name = "zarr, crc32c"
    note = "as zarr, with its crc32c codec"
    is_variant = True


class Zarrs(Zarr):
    """Zarr with the codec pipeline of zarrs."""

    name = "zarrs"
    note = "zarr with the codec pipeline of zarrs; no checksums, the default"

    libraries = "zarrs {zarrs}"

    def __init__(self) -> None:
        import zarrs  # noqa: F401 - zarr works without it

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
