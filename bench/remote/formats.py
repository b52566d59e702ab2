"""Our files; zarr, and what else reads its files; Icechunk; h5py on a file of fsspec."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fsspec
import numpy as np
from peers.formats import HDF5_LIBRARIES

import bloscpack as bp
from remote.contenders import CLIP, OPEN, Contender
from remote.data import CODEC, LEVEL, NCLIP
from remote.serving import BUCKET, S3

_NSHARDED = 32  # chunks of a shard
_REGION = "us-east-1"


class Ours(Contender):
    """`bloscpack.open` of a URL."""

    note = (
        "a file of `bloscpack.save`, opened by `bloscpack.open` with its defaults: the checksum of "
        "each chunk is compared, and the version of the object with every answer"
    )
    suffix = ".blp"

    def write(self, path: Path, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        bp.save(path, array, chunks=chunks, codec=CODEC, clevel=LEVEL, shuffle="byte")

    def open(self, url: str, options: dict[str, Any]) -> AbstractContextManager[Any]:
        return bp.open(url, storage_options=options)

    def iterate(self, array: Any, nrows: int) -> Iterator[np.ndarray]:
        return islice(array, nrows)


class OurStore(Ours):
    """`bloscpack.frames.open` of a URL."""

    note = (
        "the same frames as clips in a file of `bloscpack.frames.create`, with its defaults, which "
        "compress more and check each frame"
    )
    works = (OPEN, CLIP)
    suffix = "-clips.blp"

    def write(self, path: Path, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        with bp.frames.create(path) as store:
            for start in range(0, len(array), NCLIP):
                store.append(str(start), array[start : start + NCLIP])

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        with bp.frames.open(url, storage_options=options) as store:
            yield _Clips(store)


class _Clips:
    """An array over a store of clips of one size, read clip by clip."""

    def __init__(self, store: Any) -> None:
        self._store = store
        first = store["0"]
        self.shape = (len(store) * len(first), *first.shape[1:])
        self.dtype = first.dtype

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._store[str(rows.start)][:]


class Plain(Contender):
    """Format 3 with its defaults."""

    note = (
        "format 3, an object for each chunk, without checksums, the default; `FsspecStore`, opened "
        "as format 3, which saves asking for format 2; rows at random are asked for as they are "
        "stored, which is faster"
    )
    libraries = "zarr {zarr} with fsspec {fsspec}"
    modules: tuple[str, ...] = ("zarr", "zarr.storage")
    suffix = ".zarr"

    def write(self, path: Path, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        self.fill(str(path), array, chunks)

    def fill(self, store: Any, array: np.ndarray, chunks: tuple[int, ...], **options: Any) -> None:
        """Write an array to a store."""
        blosc = self.lib.codecs.BloscCodec(cname=CODEC, clevel=LEVEL, shuffle="shuffle")
        stored = self.lib.create_array(
            store,
            shape=array.shape,
            dtype=array.dtype,
            chunks=chunks,
            compressors=[blosc],
            **options,
        )
        stored[:] = array

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        yield self.lib.open_array(self.store(url, options), mode="r", zarr_format=3)

    def store(self, url: str, options: dict[str, Any]) -> Any:
        """Return the store at a URL."""
        from_url = self.lib.storage.FsspecStore.from_url
        return from_url(url, storage_options=options, read_only=True)

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        found: np.ndarray = array.oindex[sorted(rows)]
        return found[np.argsort(np.argsort(rows))]


class Sharded(Plain):
    """Format 3 with shards."""

    note = f"the same with up to {_NSHARDED} chunks in an object, a shard"
    suffix = "-sharded.zarr"

    def write(self, path: Path, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        nrows = min(_NSHARDED * chunks[0], len(array))
        self.fill(str(path), array, chunks, shards=(nrows, *chunks[1:]))


class WithObstore(Plain):
    """zarr on the object stores of obstore, in Rust."""

    note = "the files of zarr, through `ObjectStore` and obstore"
    libraries = "obstore {obstore}"
    modules = ("zarr", "zarr.storage", "obstore.store")

    def store(self, url: str, options: dict[str, Any]) -> Any:
        obstore = import_module("obstore.store")
        client = {"allow_http": True}
        if not options:
            found = obstore.HTTPStore(url, client_options=client)
        else:
            found = obstore.S3Store(
                BUCKET,
                prefix=_key(url),
                endpoint=options["endpoint_url"],
                access_key_id=options["key"],
                secret_access_key=options["secret"],
                region=_REGION,
                virtual_hosted_style_request=False,
                client_options=client,
            )
        return self.lib.storage.ObjectStore(found, read_only=True)


class WithZarrs(WithObstore):
    """zarr with the codec pipeline of zarrs, which fetches the chunks, too."""

    note = "the files of zarr, through `ObjectStore`, by the codec pipeline of zarrs"
    libraries = "zarrs {zarrs}"
    modules = (*WithObstore.modules, "zarrs")

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        with self.lib.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
            yield self.lib.open_array(self.store(url, options), mode="r", zarr_format=3)


class WithTensorStore(Plain):
    """TensorStore reading the files of zarr."""

    note = "the files of zarr, by its own drivers, without a cache, the default"
    libraries = "tensorstore {tensorstore}"
    modules = ("zarr", "zarr.storage", "tensorstore")

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        if options:
            os.environ["AWS_ACCESS_KEY_ID"] = options["key"]
            os.environ["AWS_SECRET_ACCESS_KEY"] = options["secret"]
            store = {
                "driver": "s3",
                "bucket": BUCKET,
                "path": f"{_key(url)}/",
                "endpoint": options["endpoint_url"],
                "aws_region": _REGION,
            }
        else:
            store = {"driver": "http", "base_url": f"{url}/"}
        open_array = import_module("tensorstore").open
        spec = {"driver": "zarr3", "kvstore": store}
        yield _Tensor(open_array(spec, read=True, open=True).result())

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        found: np.ndarray = array[rows]
        return found


class _Tensor:
    """A tensor that is read when it is indexed."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.shape = tensor.shape
        self.dtype = tensor.dtype.numpy_dtype
        self.chunks = tensor.chunk_layout.read_chunk.shape

    def __getitem__(self, index: Any) -> np.ndarray:
        found: np.ndarray = self._tensor[index].read().result()
        return found


class InIcechunk(Plain):
    """A repository with one commit, on object stores only."""

    note = "a repository with one commit, opened at its branch; on the web server it cannot be read"
    libraries = "icechunk {icechunk}"
    modules = ("zarr", "zarr.storage", "icechunk")
    suffix = ".icechunk"
    servers = (S3,)

    def write(self, path: Path, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        icechunk = import_module("icechunk")
        made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)))
        session = made.writable_session("main")
        self.fill(session.store, array, chunks)
        session.commit("the array")

    def store(self, url: str, options: dict[str, Any]) -> Any:
        icechunk = import_module("icechunk")
        place = icechunk.s3_storage(
            bucket=BUCKET,
            prefix=_key(url),
            region=_REGION,
            endpoint_url=options["endpoint_url"],
            allow_http=True,
            access_key_id=options["key"],
            secret_access_key=options["secret"],
            force_path_style=True,
        )
        return icechunk.Repository.open(place).readonly_session("main").store


def _key(url: str) -> str:
    """Return the name of an object in its bucket."""
    return urlsplit(url).path.lstrip("/")


class Hdf5File(Contender):
    """A file object with the defaults of its library."""

    note = (
        "the Blosc filter of hdf5plugin, without checksums, the default; a file object of s3fs or "
        "of fsspec's HTTP, which by default reads ahead, 50 MiB and 5 MiB; rows at random are read "
        "one by one as they are stored, in a tenth of the time that a list of them takes"
    )
    libraries = HDF5_LIBRARIES
    modules = ("h5py", "hdf5plugin")
    suffix = ".h5"

    def write(self, path: Path, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        blosc = import_module("hdf5plugin").Blosc(cname=CODEC, clevel=LEVEL, shuffle=1)
        with self.lib.File(path, "w") as file:
            file.create_dataset("array", data=array, chunks=chunks, **blosc)

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        filesystem, path = fsspec.core.url_to_fs(url, **options)
        with filesystem.open(path, "rb") as stream, self.lib.File(stream, "r") as file:
            yield file["array"]

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        found = np.empty((len(rows), *array.shape[1:]), array.dtype)
        for place in np.argsort(rows).tolist():
            found[place] = array[rows[place]]
        return found
