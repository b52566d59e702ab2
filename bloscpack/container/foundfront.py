"""Front of a damaged file: what can be read of it, or the copy of it in the trailer."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..exceptions import (
    BloscpackError,
    FormatError,
    NotBloscpackError,
    TruncatedError,
    UnsupportedError,
)
from ..format.checksum import CHECKSUMS
from ..format.header import FEATURE_GRID, Header
from ..format.metadata import METADATA_HEADER_SIZE, MetadataHeader, stored_data
from ..format.trailer import Trailer, is_current
from ..storage.protocol import ByteSource
from .front import HEAD_NBYTES, decoded, read_grid, read_section, read_trailer, with_front

if TYPE_CHECKING:
    from ..format.chunkgrid import ChunkGrid


@dataclass(slots=True)
class FoundFront:
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
    is_measured: bool = False  # whether it is an array of a log that has statistics

    @property
    def metadata(self) -> Any:
        """JSON value of the metadata section; None without a section."""
        if self.meta is None:
            return None
        return decoded(self.meta, stored_data(self.meta, self.section))

    @property
    def has_statistics(self) -> bool:
        """Whether the file has the statistics of its chunks, damaged or not."""
        trailer = self.trailer if self.is_current else None
        return self.is_measured or (trailer is not None and bool(trailer.statistics_digest))

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
        try:
            return read_grid(self.header, self.metadata)
        except FormatError as err:
            why = "without the shape of the chunk grid, nothing can be recovered"
            raise FormatError(f"{err.args[0]}; {why}", offset=err.offset, field=err.field) from None


def find_front(source: ByteSource) -> FoundFront:
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
        front = _find_front(source)
        if trailer is not None:
            checked = front.meta is not None and front.meta.meta_checksum.nbytes > 0
            head = source.read_at(0, front.header.size + len(front.section))
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


def find_recorded_front(source: ByteSource, front: FoundFront) -> FoundFront | None:
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


def _recorded_front(source: ByteSource, trailer: Trailer, why: str) -> FoundFront:
    front = _find_front(with_front(source, trailer.head))
    front.trailer, front.is_current, front.restored = trailer, True, why
    return front


def _find_front(source: ByteSource) -> FoundFront:
    head = memoryview(source.read_at(0, HEAD_NBYTES))
    header = Header.unpack(head)
    position = header.size
    if not header.metadata:
        return FoundFront(header, table_offset=position)
    try:
        meta, found = read_section(source, head, header, position, CHECKSUMS[-1].id)
    except BloscpackError as err:
        is_cut = isinstance(err, TruncatedError)
        end = source.size() if is_cut else position + METADATA_HEADER_SIZE
        return FoundFront(header, faults=[(f"{err.args[0]}; the metadata are lost", position, end)])
    section = bytes(found)
    front = FoundFront(header, meta, section, position + len(section))
    try:
        _ = front.metadata
    except BloscpackError as err:
        front.meta, front.section = None, b""
        end = position + len(section)
        front.faults.append((f"{err.args[0]}; the metadata are lost", position, end))
    return front
