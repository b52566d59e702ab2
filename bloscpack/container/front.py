"""The front of a file, header and metadata section, and the trailer that vouches for it.

The trailer is looked for at the end of the file. It is self-validating, so it can be told from
other bytes there; whether it is of this state of the file, the front decides. Where the front is
damaged, the copy of it in the trailer can be put in its place.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..exceptions import BloscpackError, FormatError, NotBloscpackError, UnsupportedError
from ..format.checksum import CHECKSUMS
from ..format.header import Header
from ..format.metadata import METADATA_HEADER_SIZE, MetadataHeader, decode_data, stored_data
from ..format.trailer import TAIL_SIZE, TRAILER_MAGIC, Trailer, is_current, unpack_trailer
from ..storage.protocol import ByteSource
from ..types import BytesLike

# The trailer of nearly every file but for its digests, in one read: pages of a million chunks.
TAIL_NBYTES = 8192
# Header, metadata and the first offsets of nearly every file, in one read.
HEAD_NBYTES = 4096


class TrailerState(NamedTuple):
    """What the end of a file was found to be.

    Attributes
    ----------
    trailer : Trailer or None
        The trailer; None unless it is valid.
    name : str
        "valid"; "absent"; "stale": of an earlier state of the file; "damaged": there was one.
    """

    trailer: Trailer | None
    name: str


ABSENT = TrailerState(None, "absent")
STALE = TrailerState(None, "stale")
DAMAGED = TrailerState(None, "damaged")


def has_trailer_magic(tail: BytesLike) -> bool:
    """Return whether `tail`, the end of a file, may be that of a trailer."""
    return tail[-TAIL_SIZE : len(TRAILER_MAGIC) - TAIL_SIZE] == TRAILER_MAGIC


def read_trailer(
    source: ByteSource, tail: BytesLike | None = None, size: int | None = None
) -> Trailer | None:
    """Return the trailer of a file if it is whole, of whatever state of the file it is.

    `tail` are the last bytes of the file, of `size` bytes, if they were read already.
    """
    if tail is None or size is None:
        size = source.size()
        start = max(size - TAIL_NBYTES, 0)
        tail = source.read_at(start, size - start)
    trailer, missing = unpack_trailer(tail, size)
    if missing:
        trailer, _ = unpack_trailer(source.read_at(size - missing, missing), size)
    return trailer


def judge_trailer(
    source: ByteSource,
    tail: BytesLike,
    file_size: int,
    header: Header,
    meta: MetadataHeader | None,
    head: BytesLike,
) -> TrailerState:
    """Return the trailer of a file whose front was read, and its state.

    Parameters
    ----------
    source : ByteSource
        The file.
    tail : bytes-like
        Its last bytes, which have the magic of a trailer.
    file_size : int
        Its size when they were read.
    header, meta : Header, MetadataHeader or None
        Of the front.
    head : bytes-like
        Header and metadata section as they are stored; only their beginning will do.

    Raises
    ------
    FormatError
        The front is damaged: it is not that of the trailer.
    """
    trailer = read_trailer(source, tail, file_size)
    if trailer is None:
        return DAMAGED
    size = header.size + (meta.section_size if meta else 0)
    head = head[:size] if len(head) >= size else source.read_at(0, size)
    checked = meta is not None and meta.meta_checksum.nbytes > 0
    if not is_current(trailer, header, head, section_is_checked=checked):
        return STALE
    fits = trailer.nchunks == header.nchunks and trailer.offset >= size + header.table_size
    return TrailerState(trailer, "valid") if fits else DAMAGED


class PatchedSource:
    """A file with other bytes in front, for reading; as long as the file."""

    def __init__(self, source: ByteSource, head: bytes) -> None:
        self.name: str | None = source.name
        self._source = source
        self.head = head

    def size(self) -> int:
        """Return the size of the file."""
        return self._source.size()

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return a copy where the new front is concerned, else what the file gives."""
        data = self._source.read_at(offset, nbytes)
        if offset >= len(self.head):
            return data
        mine = self.head[offset : offset + len(data)]
        return mine + bytes(data[len(mine) :])

    def close(self) -> None:
        """Close the file."""
        self._source.close()


def with_recorded_front(source: ByteSource) -> PatchedSource | None:
    """Return `source` with the front that its trailer has a copy of; None without such a copy."""
    trailer = read_trailer(source)
    if trailer is None or not trailer.head:
        return None
    try:
        Header.unpack(trailer.head)
    except BloscpackError:
        return None  # no writer makes such a copy
    # Of large metadata there is no copy: those in front must do.
    return PatchedSource(source, trailer.head)


@dataclass(slots=True)
class Front:
    """What is known of the front of a damaged file.

    Attributes
    ----------
    header : Header
        As stored, or from the trailer.
    meta : MetadataHeader or None
        Header of the metadata section; None without a section, and if it is lost.
    section : bytes
        The metadata section; empty if there is none, or it is lost.
    table_offset : int or None
        Where the offset table starts; None if it cannot be known.
    trailer : Trailer or None
        A trailer that is whole.
    is_current : bool
        It is of this state of the file.
    faults : list of (str, int, int)
        What is lost, with the bytes.
    restored : str
        What was wrong with the front that the trailer's copy stands for; empty if nothing was.
    """

    header: Header
    meta: MetadataHeader | None = None
    section: bytes = b""
    table_offset: int | None = None
    trailer: Trailer | None = None
    is_current: bool = False
    faults: list[tuple[str, int, int]] = field(default_factory=list)
    restored: str = ""

    @property
    def metadata(self) -> Any:
        """The JSON value of the section; None without one."""
        if self.meta is None:
            return None
        data = stored_data(self.meta, self.section)
        return decode_data(data, self.meta.meta_codec, self.meta.meta_size)


def find_front(source: ByteSource) -> Front:
    """Return the front of a file, from its trailer if the one in front is damaged.

    Raises
    ------
    NotBloscpackError
        The file is of another kind.
    FormatError
        The header is damaged, and no trailer has a copy of it.
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
            why = "and no trailer has a copy of it: nothing can be saved"
            raise FormatError(f"{err.args[0]}; {why}", offset=err.offset) from None
        error = err
    return _recorded_front(source, trailer, str(error.args[0]))


def find_recorded_front(source: ByteSource, front: Front) -> Front | None:
    """Return the front of which the trailer has a copy, where `front` seems to have grown since.

    A damaged size of the last chunk looks like an append; which of the two it is, the chunks tell.
    """
    trailer = front.trailer
    if trailer is None or front.is_current:
        return None
    try:
        recorded = _recorded_front(source, trailer, "header: it seemed to have grown")
    except BloscpackError:
        return None
    return recorded if recorded.header != front.header else None


def _recorded_front(source: ByteSource, trailer: Trailer, why: str) -> Front:
    front = _read_front(PatchedSource(source, trailer.head))
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
        why = "metadata: cut; they are lost"
        return Front(header, faults=[(why, position, source.size())])
    section = bytes(source.read_at(position, size))
    front = Front(header, meta, section, position + size)
    try:
        _ = front.metadata
    except BloscpackError as err:
        front.meta, front.section = None, b""
        front.faults.append((f"{err.args[0]}; the metadata are lost", position, position + size))
    return front
