"""Files of bloscpack and of other formats, with default options and with better ones; codecs alone.

The files of codecs of numbers and of pictures have no headers.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from peers.formats import chunk_places
from race.timing import Loop, loop_of

import bloscpack as bp
from arrays.contenders import CUBE, Codec, Contender
from arrays.data import Sample

_SEARCH_NBYTES = 1 << 18  # of an array that a search of options compresses
_SIZE_NBYTES = 4  # of a picture in a file of JPEG XL, in front of it


class Ours(Contender):
    note = "`bp.save` with its defaults, byte shuffle and zstd-3; `bp.load`, opening included"
    works = (CUBE,)
    codec = "zstd"

    def suited(self, sample: Sample) -> np.ndarray:
        return sample.array

    def write(
        self, path: Path, array: np.ndarray, chunks: Any = None, nthreads: int | None = 1
    ) -> None:
        # Chunks of several images are those of series.
        access = "series" if isinstance(chunks, tuple) and chunks[0] > 1 else None
        bp.save(path, array, chunks=chunks, access=access, codec=self.codec, nthreads=nthreads)

    def open(self, path: Path) -> Any:
        return bp.open(path)

    def cbytes(self, path: Path) -> int:
        return sum(size for _, size in chunk_places(path))

    def reading(self, path: Path, like: np.ndarray) -> Loop:
        return loop_of(lambda: bp.load(path, nthreads=1), clock=process_time)


class OurDataset(Ours):
    note = (
        "a variable of a Dataset that `bp.save` wrote, with array chunks; "
        "`bp.open(path)[NAME]`; parts of a cube only"
    )
    libraries = "bloscpack {bloscpack}, xarray {xarray}"
    modules = ("xarray", "bloscpack.integrations.xarray")
    codec = "auto"

    def suited(self, sample: Sample) -> None:
        """Return None: only parts differ from those of an array."""

    def write(
        self, path: Path, array: np.ndarray, chunks: Any = None, nthreads: int | None = 1
    ) -> None:
        dataset = self.lib.Dataset({"cube": (("time", "y", "x"), array)})
        super().write(path, dataset, chunks, nthreads)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        with bp.open(path) as archive:
            yield archive["cube"]


class OurXarray(OurDataset):
    note = "the same by `xr.open_dataset(path)[NAME]`"

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        backend = import_module(self.modules[1]).BloscpackBackend
        with self.lib.open_dataset(path, engine=backend) as dataset:
            yield _Values(dataset["cube"])


class _Values:
    """A variable of xarray, indexed as an array."""

    def __init__(self, variable: Any) -> None:
        self._variable = variable

    def __getitem__(self, index: Any) -> np.ndarray:
        found: np.ndarray = self._variable[index].values
        return found


class Blosc2(Contender):
    note = "`blosc2.asarray` with its defaults, byte shuffle and zstd-5"
    libraries = "blosc2 {blosc2}"
    modules = ("blosc2",)

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        cparams = self.lib.CParams(nthreads=1, **self.options(array))
        self.lib.asarray(array, chunks=chunks, urlpath=str(path), mode="w", cparams=cparams)

    def options(self, array: np.ndarray) -> dict[str, Any]:
        """Return the compression parameters for an array."""
        return {}

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield self.lib.open(str(path), mode="r", dparams=self.lib.DParams(nthreads=1))

    def cbytes(self, path: Path) -> int:
        return int(self.lib.open(str(path), mode="r").schunk.cbytes)


class Blosc2Searched(Blosc2):
    note = (
        "the smallest for the middle rows, up to 256 KiB, among zstd-5 and zstd-7 by no filter, "
        "byte shuffle, bit shuffle, and byte shuffle with bytedelta"
    )

    def options(self, array: np.ndarray) -> dict[str, Any]:
        nrows = max(1, _SEARCH_NBYTES // max(1, array[0].nbytes))
        first = max(0, (len(array) - nrows) // 2)
        some = array[first : first + nrows]
        kinds = self.lib.Filter
        combinations = (
            [kinds.NOFILTER],
            [kinds.SHUFFLE],
            [kinds.BITSHUFFLE],
            [kinds.SHUFFLE, kinds.BYTEDELTA],
        )
        choices = [
            {"clevel": level, "filters": filters, "filters_meta": [0] * len(filters)}
            for level in (5, 7)
            for filters in combinations
        ]
        return min(choices, key=lambda options: self._size(some, options))

    def _size(self, array: np.ndarray, options: dict[str, Any]) -> int:
        cparams = self.lib.CParams(nthreads=1, **options)
        return int(self.lib.asarray(array, cparams=cparams).schunk.cbytes)


class Zarr(Contender):
    note = "format 3 with its defaults: Zstandard at level 0, no shuffle, chunks of its choice"
    libraries = "zarr {zarr}"
    modules = ("zarr",)
    has_blosc = False

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        options = {"chunks": chunks or "auto"}
        if self.has_blosc:
            blosc = self.lib.codecs.BloscCodec(cname="zstd", clevel=5, shuffle="shuffle")
            options["compressors"] = [blosc]
        self.lib.create_array(str(path), data=array, **options)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield self.lib.open_array(str(path), mode="r", zarr_format=3)

    def cbytes(self, path: Path) -> int:
        return sum(entry.stat().st_size for entry in path.glob("c/**/*") if entry.is_file())


class Hdf5(Contender):
    note = "byte shuffle and gzip-4, which every HDF5 has; chunks of its choice"
    libraries = "h5py {h5py}, hdf5plugin {hdf5plugin}"
    modules = ("h5py", "hdf5plugin")
    has_blosc = False

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        options = {"compression": "gzip", "shuffle": True}
        if self.has_blosc:
            options = import_module("hdf5plugin").Blosc(cname="zstd", clevel=5, shuffle=1)
        with self.lib.File(path, "w") as file:
            file.create_dataset("array", data=array, chunks=chunks, **options)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        with self.lib.File(path, "r") as file:
            yield file["array"]

    def cbytes(self, path: Path) -> int:
        with self.open(path) as dataset:
            return int(dataset.id.get_storage_size())


class Vortex(Contender):
    note = "a file of one column, with its compact encodings, pcodec and Zstandard"
    libraries = "vortex-data {vortex-data}"
    modules = ("vortex", "pyarrow")

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        column = self.lib.array(import_module("pyarrow").array(array.reshape(-1)))
        self.lib.io.VortexWriteOptions.compact().write(column, str(path))

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield self.lib.open(str(path))

    def read(self, handle: Any, like: np.ndarray) -> np.ndarray:
        column = handle.scan().read_all()
        return column.to_numpy(zero_copy_only=False).reshape(like.shape)


class PCodec(Codec):
    note = "pcodec at its default level: one dimension, items of 2 to 8 bytes"
    libraries = "pcodec {pcodec}"
    modules = ("pcodec",)
    itemsizes = (2, 4, 8)
    level = 8

    def encode(self, array: np.ndarray) -> bytes:
        config = self.lib.ChunkConfig(compression_level=self.level)
        return self.lib.standalone.simple_compress(array.reshape(-1), config)

    def read(self, handle: bytes, like: np.ndarray) -> np.ndarray:
        out = np.empty_like(like)
        self.lib.standalone.simple_decompress_into(handle, out.reshape(-1))
        return out


class OpenZL(Codec):
    note = (
        "the graph that is smallest for the array itself: generic, field LZ, and field LZ of "
        "differences, as they are or by zigzag"
    )
    libraries = "openzl {openzl}"
    modules = ("openzl.ext",)

    def encode(self, array: np.ndarray) -> bytes:
        graphs, nodes = self.lib.graphs, self.lib.nodes
        choices = (
            lambda c: graphs.Compress()(c),
            lambda c: graphs.FieldLz()(c),
            lambda c: nodes.DeltaInt()(c, graphs.FieldLz()(c)),
            lambda c: nodes.DeltaInt()(c, nodes.Zigzag()(c, graphs.FieldLz()(c))),
        )
        return min((self._by(graph, array) for graph in choices), key=len)

    def _by(self, graph: Callable[[Any], Any], array: np.ndarray) -> bytes:
        zl = self.lib
        compressor, context = zl.Compressor(), zl.CCtx()
        compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
        compressor.select_starting_graph(graph(compressor))
        context.ref_compressor(compressor)
        items = array.reshape(-1).view(f"u{array.itemsize}")
        return context.compress([zl.Input(zl.Type.Numeric, items)])

    def read(self, handle: bytes, like: np.ndarray) -> np.ndarray:
        (output,) = self.lib.DCtx().decompress(handle)
        return output.content.as_nparray().view(like.dtype).reshape(like.shape)


class Flac(Codec):
    note = "lossless audio of 16 bits, through soundfile at its default level: signals only"
    libraries = "soundfile {soundfile}"
    modules = ("soundfile",)

    def suited(self, sample: Sample) -> np.ndarray | None:
        is_audio = sample.kind == "signals" and sample.array.dtype == "i2"
        return sample.array if is_audio else None

    def encode(self, array: np.ndarray) -> bytes:
        stream = io.BytesIO()
        # The rate is only noted in the file.
        self.lib.write(stream, array, 44100, format="FLAC", subtype="PCM_16")
        return stream.getvalue()

    def read(self, handle: bytes, like: np.ndarray) -> np.ndarray:
        samples, _ = self.lib.read(io.BytesIO(handle), dtype="int16")
        return samples.reshape(like.shape)


class FpZip(Codec):
    note = "without loss: floats of 4 and 8 bytes, up to 4 dimensions"
    libraries = "fpzip {fpzip}"
    modules = ("fpzip",)

    def suited(self, sample: Sample) -> np.ndarray | None:
        return sample.array if sample.array.dtype in ("f4", "f8") else None

    def encode(self, array: np.ndarray) -> bytes:
        return self.lib.compress(array)

    def read(self, handle: bytes, like: np.ndarray) -> np.ndarray:
        return self.lib.decompress(handle).reshape(like.shape)


class JpegXL(Codec):
    note = "lossless, effort 3, through imagecodecs: pictures of 8 and 16 bits, slice by slice"
    libraries = "imagecodecs {imagecodecs}"
    modules = ("imagecodecs",)

    def suited(self, sample: Sample) -> np.ndarray | None:
        return sample.array if sample.is_picture else None

    def encode(self, array: np.ndarray) -> bytes:
        encode = self.lib.jpegxl_encode
        pictures = [
            encode(_signs_flipped(picture), lossless=True, effort=3, numthreads=1)
            for picture in _pictures(array)
        ]
        return b"".join(len(one).to_bytes(_SIZE_NBYTES, "little") + one for one in pictures)

    def read(self, handle: bytes, like: np.ndarray) -> np.ndarray:
        out, at = np.empty_like(like), 0
        for picture in _pictures(out):
            start = at + _SIZE_NBYTES
            at = start + int.from_bytes(handle[at:start], "little")
            pixels = self.lib.jpegxl_decode(handle[start:at], numthreads=1)
            picture[...] = _signs_flipped(pixels.view(like.dtype)).view(like.dtype)
        return out


def _pictures(array: np.ndarray) -> np.ndarray:
    """Return a view with the pictures along the first axis."""
    return array.reshape(-1, *array.shape[-3 if array.shape[-1] == 3 else -2 :])


def _signs_flipped(pixels: np.ndarray) -> np.ndarray:
    """Return signed pixels as unsigned ones in the same order, or these as they were."""
    unsigned = pixels.view(f"u{pixels.itemsize}")
    return unsigned ^ unsigned.dtype.type(1 << 15) if pixels.dtype.kind == "i" else unsigned
