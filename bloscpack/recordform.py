"""Records as columns: what the payloads of like records are cut into, on their way into a store.

A *form* is the records of one stream, type and version whose payloads are made of the same parts:
the fields of their metadata, pixels of one size, coded images, samples, or just bytes. Each part is
a column, which goes into the store as a clip; names are in docs/formats/vrs-store.md. Payloads that
do not fit their format, or metadata that nobody would write again as they are, make a form of their
own that keeps the bytes, so that every payload comes back.

Columns of the records of one group are gathered in files without a name while the group is read,
and then appended: memory does not depend on how many records there are, but for their index.
"""

from array import array
from collections.abc import Iterator
from struct import Struct
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np

from . import image
from .exceptions import BloscpackError
from .frames.protocol import AnyArray, IntArray
from .frames.reader import FrameStore
from .vrs.audio import AudioFormat, AudioSpec
from .vrs.content import Content
from .vrs.decoding import StreamDecoder
from .vrs.format import RecordType
from .vrs.layout import INDEX_ENTRY_SIZE, DataLayout
from .vrs.pieces import Piece, PieceKind
from .vrs.pixels import ImageFormat, ImageSpec, image_view
from .vrs.record import Block, Record
from .vrs.recordformat import ContentType
from .vrs.recordset import RecordSet
from .wire import BytesLike

BLOCK_NBYTES = 1 << 16
"""Values of varying number are kept in frames of about so many bytes."""
MAX_LABEL_LENGTH = 200
"""A longer name of a field is cut in the id of its clip."""

# Columns and forms of one group, each column with an open file; what goes beyond is kept as bytes.
_MAX_COLUMNS = 256
_MAX_FORMS = 16
# Values of one clip; more begin another form.
_MAX_VALUES_NBYTES = 1 << 31
# What a column holds in memory, and records that are cut together.
_MEMORY_NBYTES = 1 << 16
_BATCH_NBYTES = 1 << 20
_BATCH_RECORDS = 4096

Plan: TypeAlias = dict[str, Any]
# What blocks a payload has: a tuple for each, the kind first.
Key: TypeAlias = tuple[tuple[Any, ...], ...]
_RAW: Key = (("raw",),)


class Spool:
    """Bytes that are gathered, in memory or in a file that nobody sees."""

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
                self._file = cast(BinaryIO, TemporaryFile(dir=self._folder))
            self._file.write(self._memory)
            self._memory = bytearray()

    def pad(self, nbytes: int) -> None:
        """Fill up with zeros to a multiple of `nbytes`."""
        self.write(bytes(-self.nbytes % nbytes))

    def array(self, dtype: Any, shape: tuple[int, ...]) -> AnyArray:
        """Return all bytes as an array, read from the file as it is used."""
        if self._file is None:
            return np.frombuffer(bytes(self._memory), dtype).reshape(shape)
        self._file.write(self._memory)
        self._memory = bytearray()
        self._file.flush()
        return np.memmap(self._file, dtype, "r", 0, shape)

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()


class Columns:
    """The columns of a form while they are gathered; base of all kinds.

    Attributes
    ----------
    spool : Spool
        The bytes so far.
    """

    def __init__(self, folder: str) -> None:
        self.spool = Spool(folder)

    def add(self, data: BytesLike) -> None:
        """Add what a record has."""
        self.spool.write(data)

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append clips to a store, and return how payloads are made of them again."""
        raise NotImplementedError


class FixedColumns(Columns):
    """The part of a metadata block that has the same size in all records: a clip per field."""

    def __init__(self, folder: str, layout: DataLayout) -> None:
        super().__init__(folder)
        self._layout = layout

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append a clip of shape (N, ...) for each field."""
        rows = self.spool.array(np.uint8, (nrows, self._layout.fixed_nbytes))
        plans, at = [], 0
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
                    "offsets": [at],
                    "itemsize": self._layout.fixed_nbytes,
                }
            )
            values = rows.view(place).reshape(nrows)["it"]
            if dtype == np.bool_ and (values.view(np.uint8) > 1).any():
                values = values.view(np.uint8)  # other bytes than 0 and 1 are to survive
            id_ = free_id(store, f"{prefix}/{key[:MAX_LABEL_LENGTH]}")
            store.append(id_, values, {"field": key})
            plans.append({"kind": "fixed", "id": id_})
            at += piece.nbytes
        return plans


class RaggedColumn(Columns):
    """Values, as many in each record as it has: a clip of values, and one of offsets."""

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
        """Append values in blocks, (K, B, ...), and where those of each record begin, (N + 1,)."""
        total = self._ends[-1]
        self.id = id_ = free_id(store, f"{prefix}/{self._name}")
        block = max(1, min(total, BLOCK_NBYTES // self._nbytes))
        self.spool.pad(block * self._nbytes)
        shape = (self.spool.nbytes // (block * self._nbytes), block, *self._shape)
        store.append(id_, self.spool.array(self._dtype, shape), {"values": total})
        offsets = free_id(store, f"{id_}:offsets")
        store.append(offsets, np.frombuffer(self._ends, np.int64))
        return [{"kind": "ragged", "id": id_, "offsets": offsets}]


class IndexColumn(Columns):
    """The index of the variable pieces of a metadata block: their offsets say it all."""

    def __init__(self, folder: str, pieces: list[RaggedColumn]) -> None:
        super().__init__(folder)
        self._pieces = pieces

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append the pieces, and return the plan of the index and of them."""
        plans = [plan for piece in self._pieces for plan in piece.append_to(store, prefix, nrows)]
        return [{"kind": "index", "ids": [plan["id"] for plan in plans]}, *plans]


class PixelColumn(Columns):
    """Raw images of one size: a clip of their pixels, and one of what lies between and behind."""

    def __init__(self, folder: str, spec: ImageSpec) -> None:
        super().__init__(folder)
        self._spec = spec

    def append_to(self, store: FrameStore, prefix: str, nrows: int) -> list[Plan]:
        """Append pixels as (N, H, W) or (N, H, W, C), and the rest as (N, bytes)."""
        nbytes, stride = self._spec.raw_nbytes or 0, self._spec.row_nbytes
        raw = self.spool.array(np.uint8, (nrows, nbytes))
        one = image_view(memoryview(bytes(nbytes)), self._spec)
        shape, strides = (nrows, *one.shape), (nbytes, *one.strides)
        pixels: AnyArray = np.ndarray(shape, one.dtype, cast(Any, raw), 0, strides)
        id_ = free_id(store, f"{prefix}/image")
        store.append(id_, pixels, {"pixel_format": str(self._spec.pixel_format)})
        if one.nbytes == nbytes:
            return [{"kind": "fixed", "id": id_}]
        width = one[0].nbytes
        rest = free_id(store, f"{id_}:rest")
        store.append(rest, (_rest_of(row, len(one), stride, width) for row in raw))
        return [{"kind": "pixels", "id": id_, "stride": stride, "rest": rest}]


def _rest_of(raw: AnyArray, height: int, stride: int, width: int) -> AnyArray:
    """Return the bytes of a raw image that are no pixels of its first plane."""
    between = raw[: height * stride].reshape(height, stride)[:, width:]
    return np.concatenate([between.reshape(-1), raw[height * stride :]])


class ImageColumn(Columns):
    """JPEG and PNG images, as they are."""

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
        store.append(id_, self._images())
        return [{"kind": "images", "id": id_}]

    def _images(self) -> Iterator[bytes]:
        data, at = self.spool.array(np.uint8, (self.spool.nbytes,)), 0
        for size in self._sizes:
            yield data[at : at + size].tobytes()
            at += size


def item_of(piece: Piece) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape of an element of a piece as a store has it; of text, bytes."""
    element = piece.element
    if piece.kind is PieceKind.STRING_MAP or element is None or not element.nbytes:
        return np.dtype(np.uint8), ()
    if element.name == "char" or (element.name == "Bool" and piece.kind is PieceKind.VECTOR):
        return np.dtype(np.uint8), ()
    return element.dtype.base, element.shape


def free_id(store: FrameStore, wanted: str) -> str:
    """Return an id that no clip has: `wanted`, or that with a number."""
    id_, number = wanted, 1
    while id_ in store:
        number += 1
        id_ = f"{wanted}#{number}"
    return id_


class Form:
    """Records whose payloads have the same parts, while they are gathered.

    Parameters
    ----------
    folder : str
        For temporary files.
    key : tuple
        What blocks there are.
    blocks : sequence of Block
        Of one of the records.
    """

    def __init__(self, folder: str, key: Key, blocks: tuple[Block, ...]) -> None:
        self.key = key
        self.rows = array("q")
        self.parts: list[tuple[int, Columns]] = []
        self.columns: list[Columns] = []
        if key == _RAW:
            self._put(-1, RaggedColumn(folder, "payload", np.uint8))
        for number, (part, block) in enumerate(zip(key, blocks, strict=False)):
            if part[0] == "metadata":
                self._put_metadata(folder, number, cast(DataLayout, block.spec))
            elif part[0] == "pixels":
                self._put(number, PixelColumn(folder, cast(ImageSpec, block.spec)))
            elif part[0] == "images":
                self._put(number, ImageColumn(folder))
            elif part[0] == "samples":
                self._put(number, RaggedColumn(folder, "audio", part[1], (part[2],)))
            elif part[0] == "bytes":
                self._put(number, RaggedColumn(folder, block.kind, np.uint8))

    def _put(self, number: int, column: Columns) -> None:
        self.parts.append((number, column))
        self.columns.append(column)

    def _put_metadata(self, folder: str, number: int, layout: DataLayout) -> None:
        if layout.fixed_nbytes:
            self._put(number, FixedColumns(folder, layout))
        if layout.variable:
            pieces = [
                RaggedColumn(folder, key[:MAX_LABEL_LENGTH], *item_of(piece))
                for key, piece in layout.variable
            ]
            self.parts.append((number, IndexColumn(folder, pieces)))
            self.columns += pieces

    @property
    def is_full(self) -> bool:
        """Whether a clip of it would have too many values."""
        return any(
            column.spool.nbytes > _MAX_VALUES_NBYTES
            for column in self.columns
            if isinstance(column, RaggedColumn)
        )

    def add(self, row: int, parts: list[BytesLike]) -> None:
        """Add a record: its row, and what each column gets."""
        self.rows.append(row)
        for column, part in zip(self.columns, parts, strict=True):
            column.add(part)

    def append_to(self, store: FrameStore, prefix: str, headers: Plan) -> Plan:
        """Append all columns; return what tells how the records are made of them again."""
        nrows = len(self.rows)
        parts: list[Plan] = []
        for number, column in self.parts:
            where = prefix if number < 0 else f"{prefix}/{number}"
            parts += column.append_to(store, where, nrows)
        return {**headers, "prefix": prefix, "records": nrows, "parts": parts}

    def close(self) -> None:
        """Give temporary files back."""
        for column in self.columns:
            column.spool.close()


class GroupImport:
    """Brings the records of one stream, type and version into a store.

    Parameters
    ----------
    store : FrameStore
        Open for appending.
    folder : str
        For temporary files.
    content : Content
        The recording.
    records : RecordSet
        All records of the stream and type.
    version : int
        Of their formats.
    """

    def __init__(
        self, store: FrameStore, folder: str, content: Content, records: RecordSet, version: int
    ) -> None:
        self._store = store
        self._folder = folder
        self._content = content
        self._records = records
        self._version = version
        self._decoder = records.decoder(version)
        self._forms: dict[Key, Form] = {}
        self._nforms = 0
        stream_id = content.table.streams[records.ordinal]
        kind = RecordType(records.record_type).name.lower()
        self._called = f"{stream_id}/{kind}-{version}"
        self._plan: Plan = {"stream": str(stream_id), "type": kind, "version": version}

    def run(self, chosen: IntArray) -> Iterator[Plan | int]:
        """Read the records; yield the number of records done now and then, and every form made.

        Parameters
        ----------
        chosen : ndarray of int64
            Which of the records of the stream and type have the version.
        """
        rows = self._records.rows[chosen]
        self._compressions = dict(
            zip(rows.tolist(), self._records.headers.compressions[chosen].tolist(), strict=True)
        )
        fixed = _fixed_layouts(self._decoder)
        try:
            batch: list[tuple[int, float, bytes]] = []
            nbytes = 0
            for row, (*_, timestamp, payload) in self._content.reader.iter_records(rows):
                batch.append((row, timestamp, payload))
                nbytes += len(payload)
                if nbytes >= _BATCH_NBYTES or len(batch) >= _BATCH_RECORDS:
                    yield from self._take(batch, fixed)
                    batch, nbytes = [], 0
            yield from self._take(batch, fixed)
            for form in list(self._forms.values()):
                yield self._finish(form)
        finally:
            for form in self._forms.values():
                form.close()

    def _take(
        self, batch: list[tuple[int, float, bytes]], fixed: list[DataLayout] | None
    ) -> Iterator[Plan | int]:
        if not batch:
            return
        if fixed is not None and self._take_fixed(batch, fixed):
            yield len(batch)
            return
        for row, timestamp, payload in batch:
            record = Record(self._decoder, timestamp, row, payload)
            key, blocks, parts = cut(record)
            form = self._forms.get(key)
            if form is not None and form.is_full:
                yield self._finish(form)
                form = None
            if form is None:
                form = self._open(key, blocks)
            form.add(row, parts if form.key == key else [payload])
        yield len(batch)

    def _take_fixed(self, batch: list[tuple[int, float, bytes]], layouts: list[DataLayout]) -> bool:
        """Take records whose payloads are fields of fixed size, all at once; tell if they are."""
        total = sum(layout.fixed_nbytes for layout in layouts)
        if not total or any(len(payload) != total for _, _, payload in batch):
            return False
        key: Key = (("metadata",),) * len(layouts)
        form = self._forms.get(key)
        if form is None:
            row, timestamp, payload = batch[0]
            record = Record(self._decoder, timestamp, row, payload)
            form = self._open(key, record.blocks)
            if form.key != key:
                return False
        data = np.frombuffer(b"".join([payload for *_, payload in batch]), np.uint8)
        table, at = data.reshape(len(batch), total), 0
        form.rows.extend([row for row, *_ in batch])
        sizes = (layout.fixed_nbytes for layout in layouts if layout.fixed_nbytes)
        for column, nbytes in zip(form.columns, sizes, strict=True):
            column.add(table[:, at : at + nbytes].tobytes())
            at += nbytes
        return True

    def _open(self, key: Key, blocks: tuple[Block, ...]) -> Form:
        """Return the form for payloads of these blocks: a new one, or that of bytes."""
        form = Form(self._folder, key, blocks)
        ncolumns = sum(len(each.columns) for each in self._forms.values()) + len(form.columns)
        if key != _RAW and (ncolumns > _MAX_COLUMNS or self._nforms >= _MAX_FORMS):
            return self._forms.get(_RAW) or self._open(_RAW, ())
        self._forms[key] = form
        self._nforms += 1
        return form

    def _finish(self, form: Form) -> Plan:
        """Append a form to the store."""
        del self._forms[form.key]
        try:
            name = f"{self._called}.raw" if form.key == _RAW else self._called
            prefix, number = name, 1
            while f"{prefix}/timestamp" in self._store:
                number += 1
                prefix = f"{name}.{number}"
            rows = np.frombuffer(form.rows, np.int64)
            table, store = self._content.table, self._store
            store.append(f"{prefix}/timestamp", table.timestamp[rows])
            store.append(f"{prefix}/order", table.position[rows])
            codes = [self._compressions[row] for row in form.rows]
            store.append(f"{prefix}/compression", np.array(codes, np.uint8))
            return form.append_to(store, prefix, self._plan)
        finally:
            form.close()


def _fixed_layouts(decoder: StreamDecoder) -> list[DataLayout] | None:
    """Return the layouts of records that are fields of fixed size and no more; None for others."""
    try:
        contents, layouts = decoder.contents, decoder.layouts
    except BloscpackError:
        return None
    if not contents or any(each.content_type != ContentType.DATA_LAYOUT for each in contents):
        return None
    found = [layouts[index] for index in sorted(layouts)]
    if len(found) < len(contents) or any(each.undecodable or each.variable for each in found):
        return None
    return found


def cut(record: Record) -> tuple[Key, tuple[Block, ...], list[BytesLike]]:
    """Return what the payload of a record is made of, and the bytes for each column.

    Where the parts put together would not be the payload, it is one part.
    """
    whole: tuple[Key, tuple[Block, ...], list[BytesLike]] = _RAW, (), [record.payload]
    try:
        blocks, note = record.blocks, record.note
    except BloscpackError:
        return whole
    if note is not None:
        return whole
    key: list[tuple[Any, ...]] = []
    parts: list[BytesLike] = []
    for block in blocks:
        if not block.is_whole or block.nbytes is None:
            return whole
        if block.kind == "metadata":
            pieces = _cut_metadata(block.data, cast(DataLayout, block.spec))
            if pieces is None:
                return whole
            key.append(("metadata",))
            parts += pieces
        else:
            key.append(_kind_of(block))
            parts.append(block.data)
    return tuple(key), blocks, parts


def _cut_metadata(data: memoryview, layout: DataLayout) -> list[BytesLike] | None:
    """Return the fixed part and the variable pieces; None if these do not lie back to back."""
    parts: list[BytesLike] = [data[: layout.fixed_nbytes]] if layout.fixed_nbytes else []
    variable = layout.variable
    if not variable:
        return parts
    index = Struct(f"<{2 * len(variable)}I").unpack_from(data, layout.fixed_nbytes)
    at = 0
    start = layout.fixed_nbytes + INDEX_ENTRY_SIZE * len(variable)
    for (_, piece), offset, nbytes in zip(variable, index[::2], index[1::2], strict=True):
        dtype, shape = item_of(piece)
        if offset != at or nbytes % (dtype.itemsize * int(np.prod(shape))):
            return None
        parts.append(data[start + at : start + at + nbytes])
        at += nbytes
    return parts if start + at == len(data) else None


def _kind_of(block: Block) -> tuple[Any, ...]:
    """Return what column a block that is no metadata goes into."""
    spec = block.spec
    if isinstance(spec, AudioSpec) and spec.audio_format == AudioFormat.PCM:
        dtype, nbytes = spec.sample_dtype, spec.min_frame_nbytes
        is_dense = dtype is not None and 0 < nbytes == spec.frame_nbytes
        if dtype is not None and is_dense and len(block.data) % nbytes == 0:
            return "samples", dtype.str, spec.channel_count
    if block.kind != "image" or not isinstance(spec, ImageSpec):
        return "bytes", block.kind
    if spec.image_format == ImageFormat.RAW:
        try:
            one = image_view(block.data, spec)
        except BloscpackError:
            return "bytes", block.kind
        if one.size and len(block.data) == spec.raw_nbytes:
            return "pixels", int(spec.pixel_format), one.shape, spec.row_nbytes, len(block.data)
    elif spec.image_format in (ImageFormat.JPG, ImageFormat.PNG):
        try:
            return "images", image.probe(block.data).dtype.str
        except BloscpackError:
            return "bytes", block.kind
    return "bytes", block.kind
