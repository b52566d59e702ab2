"""Columns of records being imported, and the clips written from them.

Column data are collected in unnamed temporary files until all records of a group are read, so that
memory does not grow with the number of records. Ids and shapes of the clips:
docs/formats/vrs-store.md.
"""

from array import array
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import repeat
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np

from ...plugin import AnyArray, BytesLike, FrameStore, disk
from ..block.pixels import ImageSpec, image_view
from ..layout.datalayout import DataLayout, offsets_of
from ..layout.pieces import Piece, PieceKind

BLOCK_NBYTES = 1 << 16
"""Target size in bytes of the frames that hold values of varying number."""
MAX_LABEL_LENGTH = 200
"""Length at which the name of a field is cut in the id of its clip."""

# Bytes of a column in memory before it goes to a file.
_MEMORY_NBYTES = 1 << 16

Plan: TypeAlias = dict[str, Any]
"""JSON values that describe how records are rebuilt from clips."""


class Spool:
    """Byte buffer in memory that moves to an unnamed temporary file when it grows."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._memory = bytearray()
        self._file: BinaryIO | None = None
        self.nbytes = 0

    def write(self, data: BytesLike) -> None:
        """Add bytes."""
        self._memory += data
        self.nbytes += len(data)
        if len(self._memory) > _MEMORY_NBYTES:
            if self._file is None:
                self._file = cast(BinaryIO, TemporaryFile(dir=self._folder))  # noqa: SIM115 - see close
            self._write_out(self._file)

    def _write_out(self, file: BinaryIO) -> None:
        """Write the memory buffer to the file; later reads would flush it without naming errors."""
        with disk.naming(f"temporary file in {self._folder}"):
            file.write(self._memory)
            file.flush()
        self._memory = bytearray()

    def pad(self, nbytes: int) -> None:
        """Append zeros up to a multiple of `nbytes`."""
        self.write(bytes(-self.nbytes % nbytes))

    def array(self, dtype: Any, shape: tuple[int, ...]) -> AnyArray:
        """Return all bytes as an array, which is mapped from the file if there is one."""
        if self._file is None:
            return np.frombuffer(bytes(self._memory), dtype).reshape(shape)
        self._write_out(self._file)
        return np.memmap(self._file, dtype, "r", 0, shape)

    def iter_pieces(self, sizes: Iterable[int]) -> Iterator[bytes]:
        """Yield all bytes from the first on, in pieces of these sizes."""
        if self._file is None:
            source: BinaryIO = BytesIO(self._memory)
        else:
            self._write_out(self._file)
            self._file.seek(0)
            source = self._file
        for size in sizes:
            yield source.read(size)

    def close(self) -> None:
        """Close and remove the file."""
        if self._file is not None:
            self._file.close()


class Columns:
    """Columns of a form being imported, whose bytes are collected in `spool`; base class."""

    def __init__(self, folder: str) -> None:
        self.spool = Spool(folder)

    def add(self, data: BytesLike) -> None:
        """Add the bytes of a record."""
        self.spool.write(data)

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append clips to a store, and return the plan to rebuild payloads from them."""
        raise NotImplementedError


class FixedColumns(Columns):
    """Fixed-size part of a metadata block: one clip per field."""

    def __init__(self, folder: str, layout: DataLayout) -> None:
        super().__init__(folder)
        self._layout = layout

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append a clip of shape (N, ...) for each field."""
        rows = self.spool.array(np.uint8, (nrows, self._layout.fixed_nbytes))
        plans, offsets = [], offsets_of(self._layout)
        for key, piece in self._layout.fixed:
            if not piece.nbytes:
                continue
            dtype, shape = item_of(piece)
            if piece.kind is PieceKind.ARRAY:
                shape = (piece.size, *shape)
            place = np.dtype(
                {
                    "names": ["it"],
                    "formats": [(dtype, shape)],
                    "offsets": [offsets[key]],
                    "itemsize": self._layout.fixed_nbytes,
                }
            )
            values = rows.view(place).reshape(nrows)["it"]
            if dtype == np.bool_ and (values.view(np.uint8) > 1).any():
                values = values.view(np.uint8)  # preserves bytes other than 0 and 1
            id_ = free_id(store, f"{prefix}/{key[:MAX_LABEL_LENGTH]}")
            store.append(id_, values, {"field": key})
            plans.append({"kind": "fixed", "id": id_})
        return plans


class RaggedColumn(Columns):
    """Values whose number varies by record: a clip of values, and one of offsets."""

    def __init__(self, folder: str, name: str, dtype: Any, shape: tuple[int, ...] = ()) -> None:
        super().__init__(folder)
        self._name = name
        self._dtype = np.dtype(dtype)
        self._shape = shape
        self._nbytes = self._dtype.itemsize * int(np.prod(shape))
        self._ends = array("q", [0])
        self.id = ""

    def add(self, data: BytesLike) -> None:
        """Add the values of a record."""
        self.spool.write(data)
        self._ends.append(self.spool.nbytes // self._nbytes)

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append values in blocks, (K, B, ...), and the offset of each record, (N + 1,)."""
        total = self._ends[-1]
        self.id = id_ = free_id(store, f"{prefix}/{self._name}")
        block = max(1, min(total, BLOCK_NBYTES // self._nbytes))
        self.spool.pad(block * self._nbytes)
        nblocks = self.spool.nbytes // (block * self._nbytes)
        shape = (block, *self._shape)
        blocks = (
            np.frombuffer(piece, self._dtype).reshape(shape)
            for piece in self.spool.iter_pieces(repeat(block * self._nbytes, nblocks))
        )
        # A clip without frames would lose the dtype.
        frames = blocks if nblocks else np.empty((0, *shape), self._dtype)
        store.append(id_, frames, {"values": total})
        offsets = free_id(store, f"{id_}:offsets")
        store.append(offsets, np.frombuffer(self._ends, np.int64))
        return [{"kind": "ragged", "id": id_, "offsets": offsets}]


class IndexColumn(Columns):
    """Index of the variable pieces of a metadata block, which is rebuilt from their offsets."""

    def __init__(self, folder: str, pieces: list[RaggedColumn]) -> None:
        super().__init__(folder)
        self._pieces = pieces

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append the pieces, and return the plan of the index and the pieces."""
        plans = [plan for piece in self._pieces for plan in piece.append_to(store, prefix, nrows)]
        return [{"kind": "index", "ids": [plan["id"] for plan in plans]}, *plans]


class PixelColumn(Columns):
    """Raw images of one size: a clip of pixels, and one of the bytes between and after them."""

    def __init__(self, folder: str, spec: ImageSpec) -> None:
        super().__init__(folder)
        self._spec = spec

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append pixels as (N, H, W) or (N, H, W, C), and the other bytes as (N, bytes)."""
        spec = self._spec
        nbytes = spec.raw_nbytes or 0
        one = image_view(bytes(nbytes), spec)
        id_ = free_id(store, f"{prefix}/image")
        pixels = (image_view(raw, spec) for raw in self.spool.iter_pieces(repeat(nbytes, nrows)))
        store.append(id_, pixels, {"pixel_format": str(spec.pixel_format)})
        if one.nbytes == nbytes:
            return [{"kind": "fixed", "id": id_}]
        stride, width = spec.row_nbytes, one[0].nbytes
        rest = free_id(store, f"{id_}:rest")
        raws = (
            np.frombuffer(raw, np.uint8) for raw in self.spool.iter_pieces(repeat(nbytes, nrows))
        )
        store.append(rest, (_rest_of(raw, len(one), stride, width) for raw in raws))
        return [{"kind": "pixels", "id": id_, "stride": stride, "rest": rest}]


def _rest_of(raw: AnyArray, height: int, stride: int, width: int) -> AnyArray:
    """Return the bytes of a raw image that are not pixels of its first plane."""
    between = raw[: height * stride].reshape(height, stride)[:, width:]
    return np.concatenate([between.reshape(-1), raw[height * stride :]])


class ImageColumn(Columns):
    """JPEG and PNG images, byte for byte."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._sizes = array("q")

    def add(self, data: BytesLike) -> None:
        """Add an image."""
        self.spool.write(data)
        self._sizes.append(len(data))

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append a clip of the images."""
        id_ = free_id(store, f"{prefix}/image")
        store.append(id_, self.spool.iter_pieces(self._sizes))
        return [{"kind": "images", "id": id_}]


def item_of(piece: Piece) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the dtype and shape of an element of a piece in a store; text is stored as bytes."""
    element = piece.element
    if piece.kind is PieceKind.STRING_MAP or element is None or not element.nbytes:
        return np.dtype(np.uint8), ()
    if element.name == "char" or (element.name == "Bool" and piece.kind is PieceKind.VECTOR):
        return np.dtype(np.uint8), ()
    return element.dtype.base, element.shape


def free_id(store: FrameStore, wanted: str) -> str:
    """Return `wanted` if no clip has this id, else `wanted` with a number."""
    id_, number = wanted, 1
    while id_ in store:
        number += 1
        id_ = f"{wanted}#{number}"
    return id_
