"""Reader of the front of a file, header and metadata section, and of the trailer that covers it.

The trailer is searched for at the end of the file. It has its own checksum, which distinguishes it
from other bytes there. Its digest of the front decides whether it describes the current state of
the file. If the front is damaged, the copy of it in the trailer can be used instead.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..exceptions import BloscpackError, FormatError, NotBloscpackError, UnsupportedError
from ..format.checksum import CHECKSUMS
from ..format.header import FEATURE_GRID, MAGIC, Header
from ..format.metadata import METADATA_HEADER_SIZE, MetadataHeader, decode_data, stored_data
from ..format.trailer import TAIL_SIZE, TRAILER_MAGIC, Trailer, is_current, unpack_trailer
from ..parallel.imports import importing
from ..storage.memory import MemorySource
from ..storage.overlay import OverlaySource, Patch
from ..storage.protocol import ByteSource
from ..types import BytesLike

if TYPE_CHECKING:
    from ..format.chunkgrid import ChunkGrid

# Read at the end: the trailer of nearly every file except its digests; pages of a million chunks.
TAIL_NBYTES = 8192
# Read at the beginning: header, metadata and the first offsets of nearly every file.
HEAD_NBYTES = 4096


def read_trailer(
    source: ByteSource, tail: BytesLike | None = None, size: int | None = None
) -> Trailer | None:
    """Return the trailer of a file if it is intact, even if it describes an earlier state.

    `tail` is the end of the file, and `size` the file size, if they were read already.
    """
    if tail is None or size is None:
        size = source.size()
        start = max(size - TAIL_NBYTES, 0)
        tail = source.read_at(start, size - start)
    trailer, missing = unpack_trailer(tail, size)
    if missing:
        trailer, _ = unpack_trailer(source.read_at(size - missing, missing), size)
    return trailer


def is_bloscpack(source: ByteSource, head: BytesLike) -> bool:
    """Return whether a file is a Bloscpack file by its first bytes or, if damaged, its trailer."""
    # A file that was cut off may have only a part of the magic.
    is_ours = len(head) > 0 and MAGIC.startswith(bytes(head[: len(MAGIC)]))
    return is_ours or read_trailer(source) is not None


def check_trailer(
    source: ByteSource,
    tail: BytesLike,
    file_size: int,
    header: Header,
    meta: MetadataHeader | None,
    head: BytesLike,
    table_offset: int,
) -> tuple[Trailer | None, str]:
    """Return the trailer of a file whose front was read, and its state.

    Parameters
    ----------
    source : ByteSource
        The file.
    tail : bytes-like
        Its last bytes.
    file_size : int
        Its size when `tail` was read.
    header, meta : Header, MetadataHeader or None
        Headers of the front.
    head : bytes-like
        Beginning of the file.
    table_offset : int
        Size of header and metadata section.

    Returns
    -------
    trailer : Trailer or None
        The trailer; None unless it is valid.
    state : str
        "valid", "absent", "stale" (it describes an earlier state of the file) or "damaged".

    Raises
    ------
    FormatError
        The front is damaged: it does not match the trailer.
    """
    trailer = read_trailer(source, tail, file_size)
    if trailer is None:
        has_magic = tail[-TAIL_SIZE : len(TRAILER_MAGIC) - TAIL_SIZE] == TRAILER_MAGIC
        return None, "damaged" if has_magic else "absent"
    front = head[:table_offset]
    if len(front) < table_offset:
        front = source.read_at(0, table_offset)
    checked = meta is not None and meta.meta_checksum.nbytes > 0
    if not is_current(trailer, header, front, section_is_checked=checked):
        return None, "stale"
    if trailer.nchunks != header.nchunks or trailer.offset < table_offset + header.table_size:
        return None, "damaged"
    return trailer, "valid"


def with_front(source: ByteSource, head: bytes) -> OverlaySource:
    """Return `source` with its first bytes replaced; closing it does not close `source`."""
    return OverlaySource(source, [Patch(0, len(head), MemorySource(head))], source.size())


def recorded_head(source: ByteSource) -> bytes | None:
    """Return the copy of the front of a file in its trailer; None without a copy."""
    trailer = read_trailer(source)
    if trailer is None or not trailer.head:
        return None
    try:
        Header.unpack(trailer.head)
    except BloscpackError:
        return None  # the trailer is not from a writer of ours
    # Large metadata are not copied to the trailer; those of the file itself are used.
    return trailer.head


@dataclass(slots=True)
class Front:
    """Front of a possibly damaged file, as far as it can be read."""

    header: Header  # the stored header, or its copy in the trailer
    # Header of the metadata section; None if the section is missing or lost.
    meta: MetadataHeader | None = None
    section: bytes = b""  # the metadata section; empty if it is missing or lost
    table_offset: int | None = None  # offset of the offset table; None if unknown
    trailer: Trailer | None = None  # the trailer, if it is intact
    is_current: bool = False  # whether the trailer describes the current state of the file
    # Description, start and stop of each damaged range.
    faults: list[tuple[str, int, int]] = field(default_factory=list)
    # Reason why the front was replaced by its copy in the trailer; empty if it was not.
    restored: str = ""

    @property
    def metadata(self) -> Any:
        """JSON value of the metadata section; None without a section."""
        if self.meta is None:
            return None
        data = stored_data(self.meta, self.section)
        return decode_data(data, self.meta.meta_codec, self.meta.meta_size)

    @property
    def grid(self) -> "ChunkGrid | None":
        """The chunk grid; None if the file has none.

        Raises
        ------
        FormatError
            The metadata do not describe it: without them, no chunk can be placed.
        """
        if not self.header.features & FEATURE_GRID:
            return None
        with importing:  # on use: few files have a grid
            from ..format.chunkgrid import ChunkGrid

        try:
            grid = ChunkGrid.of_metadata(self.metadata, self.header.last_chunk)
        except FormatError as err:
            why = "without the shape of the chunk grid, nothing can be recovered"
            raise FormatError(f"{err.args[0]}; {why}", field=err.field) from None
        if grid.nchunks != self.header.nchunks:
            raise FormatError(
                f"header: nchunks is {self.header.nchunks}, but the grid has {grid.nchunks} "
                "chunks; nothing can be recovered",
                offset=16,
                field="nchunks",
            )
        return grid


def find_front(source: ByteSource) -> Front:
    """Return the front of a file, or its copy in the trailer if it is damaged.

    Raises
    ------
    NotBloscpackError
        It is not a Bloscpack file.
    FormatError
        The header is damaged, and the file has no copy of it in a trailer.
    UnsupportedError
        The version is unknown.
    """
    trailer = read_trailer(source)
    try:
        front = _read_front(source)
        if trailer is not None:
            checked = front.meta is not None and front.meta.meta_checksum.nbytes > 0
            size = front.header.size + len(front.section)
            head = source.read_at(0, size)
            front.is_current = is_current(trailer, front.header, head, section_is_checked=checked)
        front.trailer = trailer
        if trailer is None or not front.faults:
            return front
        error: BloscpackError = FormatError(front.faults[0][0])
    except (FormatError, UnsupportedError) as err:
        if trailer is None:
            if isinstance(err, NotBloscpackError | UnsupportedError):
                raise
            why = "no trailer has a copy of it, so nothing can be recovered"
            raise FormatError(f"{err.args[0]}; {why}", offset=err.offset) from None
        error = err
    return _recorded_front(source, trailer, str(error.args[0]))


def find_recorded_front(source: ByteSource, front: Front) -> Front | None:
    """Return the copy of the front in the trailer if `front` seems to be of a later state.

    A damaged size of the last chunk looks like an append; the caller must compare the chunks.
    """
    trailer = front.trailer
    if trailer is None or front.is_current:
        return None
    try:
        recorded = _recorded_front(source, trailer, "header: it describes a larger file")
    except BloscpackError:
        return None
    return recorded if recorded.header != front.header else None


def _recorded_front(source: ByteSource, trailer: Trailer, why: str) -> Front:
    front = _read_front(with_front(source, trailer.head))
    front.trailer, front.is_current, front.restored = trailer, True, why
    return front


def _read_front(source: ByteSource) -> Front:
    head = source.read_at(0, HEAD_NBYTES)
    header = Header.unpack(head)
    position = header.size
    if not header.metadata:
        return Front(header, table_offset=position)
    try:
        meta = MetadataHeader.unpack(head, position, last_checksum=CHECKSUMS[-1].id)
    except BloscpackError as err:
        end = position + METADATA_HEADER_SIZE
        return Front(header, faults=[(f"{err.args[0]}; the metadata are lost", position, end)])
    size = meta.section_size
    if position + size > source.size():
        why = "metadata: truncated; they are lost"
        return Front(header, faults=[(why, position, source.size())])
    section = bytes(source.read_at(position, size))
    front = Front(header, meta, section, position + size)
    try:
        _ = front.metadata
    except BloscpackError as err:
        front.meta, front.section = None, b""
        front.faults.append((f"{err.args[0]}; the metadata are lost", position, position + size))
    return front
