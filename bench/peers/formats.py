"""Files of bloscpack and of other formats."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from peers.contenders import Append, Changer, Contender, DataExtent
from peers.data import Spec

HDF5_LIBRARIES = "h5py {h5py} (HDF5 {HDF5}, hdf5plugin {hdf5plugin})"
_CRC32_SIZE = 4


class Ours(Contender):
    """A file of `bloscpack.save`, every chunk's checksum compared."""

    name = "bloscpack"
    note = "crc32 of every chunk, checked; save and append end with fsync"
    is_durable = True

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        bp.save(path, array, **_options(spec))

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        return bp.load(path, nthreads=nthreads)

    def open(self, path: Path) -> AbstractContextManager[Any]:
        return bp.open(path)  # verify=True is the default

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        with bp.open(path, "a") as array:  # closing commits
            yield array.append

    @contextmanager
    def changer(self, path: Path) -> Iterator[Changer]:
        with bp.open(path, "r+") as array:
            yield lambda: array, array.flush

    @contextmanager
    def writer(self, path: Path, row: np.ndarray, spec: Spec) -> Iterator[Append]:
        with bp.Writer(path, dtype=row.dtype, shape=(None, *row.shape), **_options(spec)) as writer:
            yield writer.append

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return the chunks with their digests."""
        return [
            DataExtent(path, offset, offset + cbytes + _CRC32_SIZE)
            for offset, cbytes in chunk_places(path)
        ]


def _options(spec: Spec) -> dict[str, Any]:
    return {
        "chunks": spec.chunk_rows,
        "codec": spec.codec,
        "clevel": spec.clevel,
        "shuffle": "byte",
    }


def chunk_places(path: Path) -> list[tuple[int, int]]:
    """Return position and stored bytes of every chunk, without its digest."""
    with bp.open(path) as array, path.open("rb") as stream:
        return [stored_place(stream, array.chunk_offset(index)) for index in range(array.nchunks)]


def stored_place(stream: Any, offset: int) -> tuple[int, int]:
    """Return position and stored bytes of the chunk at `offset`, from its Blosc header."""
    stream.seek(offset + 12)
    return offset, int.from_bytes(stream.read(4), "little")


def stored_chunks(path: Path) -> list[bytes]:
    """Return the Blosc chunks of a file."""
    content = memoryview(path.read_bytes())
    return [bytes(content[offset : offset + cbytes]) for offset, cbytes in chunk_places(path)]


class Blosc2(Contender):
    note = "blocks of its own choice; it has no checksums"
    libraries = "blosc2 {blosc2}"
    modules = ("blosc2",)

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        cparams = self.lib.CParams(
            codec=self.lib.Codec[spec.codec.upper()],
            clevel=spec.clevel,
            filters=[self.lib.Filter.SHUFFLE],
            nthreads=self.lib.nthreads,
        )
        chunks = (spec.chunk_rows, *array.shape[1:])
        self.lib.asarray(array, chunks=chunks, urlpath=str(path), mode="w", cparams=cparams)

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        before = self.lib.set_nthreads(nthreads or self.lib.nthreads)
        try:
            return self.lib.open(str(path), mode="r")[:]
        finally:
            self.lib.set_nthreads(before)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield self.lib.open(str(path), mode="r")  # closed with the last reference

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        array = self.lib.open(str(path), mode="a")

        def append(rows: np.ndarray) -> None:
            length = array.shape[0]
            array.resize((length + len(rows), *array.shape[1:]))
            array[length:] = rows

        yield append

    @contextmanager
    def changer(self, path: Path) -> Iterator[Changer]:
        array = self.lib.open(str(path), mode="a")
        yield lambda: array, lambda: None

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return the chunks: they follow the header of the frame (c-blosc2, frame.h)."""
        with path.open("rb") as stream:
            head = stream.read(64)
        header_len = int.from_bytes(head[11:15], "big")
        cbytes = int.from_bytes(head[39:47], "big")
        return [DataExtent(path, header_len, header_len + cbytes)]


class Zarr(Contender):
    note = "format 3, a file for each chunk; no checksums, the default"
    libraries = "zarr {zarr}"
    modules: tuple[str, ...] = ("zarr",)

    def create(self, path: Path, like: Any, spec: Spec, **options: Any) -> Any:
        """Create an array with the shape and dtype of another, for its rows or for Dask's."""
        codecs = self.lib.codecs
        blosc = codecs.BloscCodec(cname=spec.codec, clevel=spec.clevel, shuffle="shuffle")
        return self.lib.create_array(
            str(path),
            shape=like.shape,
            dtype=like.dtype,
            chunks=(spec.chunk_rows, *like.shape[1:]),
            compressors=[blosc, codecs.Crc32cCodec()] if self.is_variant else [blosc],
            **options,
        )

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        with self.settings(None):
            stored = self.create(path, array, spec)
            if len(array):
                stored[:] = array

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        with self.settings(nthreads):
            return self.lib.open_array(str(path), mode="r")[:]

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        with self.settings(None):
            array = self.lib.open_array(str(path), mode="r")
        yield array

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        with self.settings(None):
            array = self.lib.open_array(str(path), mode="r+")
        yield array.append

    @contextmanager
    def changer(self, path: Path) -> Iterator[Changer]:
        with self.settings(None):
            array = self.lib.open_array(str(path), mode="r+")
            yield lambda: array, lambda: None

    def settings(self, nthreads: int | None) -> AbstractContextManager[Any]:
        """Return the configuration, by default zarr's own."""
        return self.lib.config.set({} if nthreads is None else {"async.concurrency": nthreads})

    def data_extents(self, path: Path) -> list[DataExtent]:
        return _chunk_files(path)


class Zarrs(Zarr):
    note = "zarr with the codec pipeline of zarrs; no checksums, the default"
    libraries = "zarrs {zarrs}"
    modules = ("zarr", "zarrs")

    def settings(self, nthreads: int | None) -> AbstractContextManager[Any]:
        """Return the configuration that selects the pipeline."""
        settings: dict[str, Any] = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}
        if nthreads is not None:
            settings["threading.max_workers"] = nthreads
        return self.lib.config.set(settings)


class Tensorstore(Contender):
    note = "driver zarr3, a file for each chunk, each synced, the default; no checksums"
    libraries = "tensorstore {tensorstore}"
    modules = ("tensorstore",)

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        blosc = {"cname": spec.codec, "clevel": spec.clevel, "shuffle": "shuffle"}
        blosc["typesize"] = array.dtype.itemsize
        codec = {"name": "blosc", "configuration": blosc}
        metadata = zarr_metadata(array, spec.chunk_rows, codec)
        spec_of_new = {**tensorstore_spec(path), "metadata": metadata}
        store = self.lib.open(spec_of_new, create=True).result()
        if len(array):
            store.write(array).result()

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        context = None
        if nthreads is not None:
            context = self.lib.Context({"data_copy_concurrency": {"limit": nthreads}})
        store = self.lib.open(tensorstore_spec(path), context=context, read=True).result()
        return store.read().result()

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield _Handle(self.lib.open(tensorstore_spec(path), read=True).result())

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        store = self.lib.open(tensorstore_spec(path), read=True, write=True).result()

        def append(rows: np.ndarray) -> None:
            nonlocal store
            length = store.shape[0]
            store = store.resize(exclusive_max=[length + len(rows), *store.shape[1:]]).result()
            store[length:].write(rows).result()

        yield append

    def data_extents(self, path: Path) -> list[DataExtent]:
        return _chunk_files(path)


class _Handle:
    """A TensorStore that reads when it is indexed, as arrays do."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.shape = store.shape

    def __getitem__(self, index: Any) -> np.ndarray:
        return self._store[index].read().result()

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(self._store.shape[0]))


def tensorstore_spec(path: Path) -> dict[str, Any]:
    """Return the spec of an array of Zarr format 3 in a folder."""
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}


def zarr_metadata(array: np.ndarray, chunk_rows: int, codec: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of Zarr format 3 for an array in chunks of rows."""
    shape = [chunk_rows, *array.shape[1:]]
    return {
        "shape": list(array.shape),
        "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, codec],
    }


def _chunk_files(path: Path) -> list[DataExtent]:
    """Return the files of the chunks of a Zarr array, in order."""
    found = sorted((path / "c").glob("*/*"), key=lambda file: int(file.parent.name))
    return [DataExtent(file, 0, file.stat().st_size) for file in found]


class Hdf5(Contender):
    note = "Blosc filter of hdf5plugin; no checksums of data, the default"
    libraries = HDF5_LIBRARIES
    modules = ("h5py", "hdf5plugin")
    is_parallel = False

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        hdf5plugin = import_module("hdf5plugin")
        blosc = hdf5plugin.Blosc(cname=spec.codec, clevel=spec.clevel, shuffle=1)
        with self.lib.File(path, "w") as file:
            file.create_dataset(
                "array",
                data=array,
                chunks=(spec.chunk_rows, *array.shape[1:]),
                maxshape=(None, *array.shape[1:]),
                fletcher32=self.is_variant,
                **blosc,
            )

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        with self.open(path) as dataset:
            return dataset[:]

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        with self.lib.File(path, "r") as file:
            yield file["array"]

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        with self.lib.File(path, "r+") as file:
            dataset = file["array"]

            def append(rows: np.ndarray) -> None:
                length = len(dataset)
                dataset.resize(length + len(rows), axis=0)
                dataset[length:] = rows

            yield append

    def data_extents(self, path: Path) -> list[DataExtent]:
        with self.open(path) as dataset:
            low = dataset.id
            chunks = [low.get_chunk_info(index) for index in range(low.get_num_chunks())]
        return [DataExtent(path, one.byte_offset, one.byte_offset + one.size) for one in chunks]


class PlainHdf5(Hdf5):
    is_durable = True

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        with self.lib.File(path, "w") as file:
            file.create_dataset("array", data=array, chunks=(spec.chunk_rows, *array.shape[1:]))

    @contextmanager
    def changer(self, path: Path) -> Iterator[Changer]:
        with self.lib.File(path, "r+") as file:
            yield lambda: file["array"], partial(_sync, file)


class VersionedHdf5(PlainHdf5):
    note = "a version for each commit; not compressed, the default"
    libraries = "versioned-hdf5 {versioned-hdf5}"
    modules = ("h5py", "versioned_hdf5")
    works = ("commits",)

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        with self.lib.File(path, "w") as file, self._versions(file).stage_version("0") as group:
            group.create_dataset("array", data=array, chunks=(spec.chunk_rows,))

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        with self.lib.File(path, "r") as file:
            versions = self._versions(file)
            return versions[versions.current_version]["array"][:]

    @contextmanager
    def changer(self, path: Path) -> Iterator[Changer]:
        """Open to change items; each handle is that of a new version, which the commit ends."""
        with self.lib.File(path, "r+") as file, ExitStack() as stack:
            versions = self._versions(file)

            def stage() -> Any:
                version = versions.stage_version(str(len(versions.versions)))
                return stack.enter_context(version)["array"]

            def commit() -> None:
                stack.pop_all().close()
                _sync(file)

            yield stage, commit

    def _versions(self, file: Any) -> Any:
        return import_module("versioned_hdf5").VersionedHDF5File(file)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.id.get_vfd_handle())


class Npy(Contender):
    """A .npy file, which needs its length at the start; mapped into memory for a part."""

    note = "not compressed, no checksums; parts are read through mmap_mode"
    libraries = "numpy {numpy}"
    can_grow = False
    is_parallel = False

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        with path.open("wb") as stream:  # np.save would add a suffix to a path
            np.save(stream, array)

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        return np.load(path)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield _Mapped(np.load(path, mmap_mode="r"))

    def data_extents(self, path: Path) -> list[DataExtent]:
        array = np.load(path, mmap_mode="r")
        size = path.stat().st_size
        return [DataExtent(path, size - array.nbytes, size)]


class _Mapped:
    """A memory map whose parts are read when it is indexed, as the others do."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape = array.shape

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.array(self._array[index])

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(np.array, self._array)
