"""The trailer: digests of all that versions 3 and 4 leave unprotected, behind the last chunk.

::

    trailer = digest(8)*nchunks page(16)*npages head tail(64)

A digest is the XXH3 of a chunk as stored; a page holds that of 4096 entries of the offset table and
that of the digests beside them, so that opening reads one block whatever the number of chunks.
`head` is a copy of header and metadata section, from which a damaged front can be rebuilt. The tail
is the end of the file: what follows it, or does not fit the file any more, makes the trailer stale.
Readers that know nothing of it (bloscpack 0.16) ignore bytes behind the last chunk.

Pure: bytes in, values out. Layout: docs/formats/bloscpack.md, "Trailer".
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64_digest

from ..exceptions import BloscpackError, FormatError
from ..types import BytesLike
from .codec import CHUNK_HEADER_SIZE
from .header import Header, pack_offsets
from .metadata import METADATA_HEADER_SIZE

TRAILER_MAGIC = b"BLPKTRLR"
DIGEST_SIZE = 8
PAGE_CHUNKS = 4096
PAGE_SIZE = DIGEST_SIZE + DIGEST_SIZE
# The digest of a chunk that an append found without one; also stored for that chunk whose XXH3 it
# is, which then goes unchecked: one in 2^64.
UNKNOWN_DIGEST = bytes(DIGEST_SIZE)

_VERSION = 1
# magic, version, zero, bytes of the head, offset, bytes of the trailer, nchunks, zero,
# XXH3 of the head as it is in front, XXH3 of pages, head and this tail
_TAIL = Struct("<8sHHIQQQ8s8s8s")
TAIL_SIZE = 8 + 2 + 2 + 4 + 8 + 8 + 8 + 8 + 8 + 8
# Of a larger head only the header is copied: the digest still protects all of it.
MAX_HEAD_NBYTES = 1 << 16
# Pages are read when a file is opened: those of a billion chunks, and of no more.
_MAX_PAGES_NBYTES = 4 << 20


class Trailer(NamedTuple):
    """A trailer that is whole; whether it is of this state of the file, `matches_head` tells.

    Attributes
    ----------
    offset : int
        Where it starts: the end of the last chunk and its digest.
    nbytes : int
        Its size; it ends with the file.
    nchunks : int
        Chunks it knows.
    head_digest : bytes
        XXH3 of header and metadata section.
    head : bytes
        Copy of header and metadata section; only of the header if they were large.
    pages : bytes
        Digests of each page.
    """

    offset: int
    nbytes: int
    nchunks: int
    head_digest: bytes
    head: bytes
    pages: bytes

    @property
    def digests_size(self) -> int:
        """Bytes of the digests of all chunks, which start at `offset`."""
        return DIGEST_SIZE * self.nchunks

    def matches_head(self, head: BytesLike) -> bool:
        """Return whether `head`, header and metadata section, are those of the trailer."""
        return xxh3_64_digest(head) == self.head_digest

    def page_extent(self, page: int) -> tuple[int, int]:
        """Return the offset and the size of the digests of the chunks of page `page`."""
        first = page * PAGE_CHUNKS
        count = min(PAGE_CHUNKS, self.nchunks - first)
        return self.offset + DIGEST_SIZE * first, DIGEST_SIZE * count

    def matches_entries(self, page: int, entries: BytesLike) -> bool:
        """Return whether `entries` of the offset table, as stored, are those of `page`.

        Without an offset table `entries` is empty.
        """
        start = PAGE_SIZE * page
        return xxh3_64_digest(entries) == self.pages[start : start + DIGEST_SIZE]

    def matches_digests(self, page: int, digests: BytesLike) -> bool:
        """Return whether `digests` of chunks, as stored, are those of `page`."""
        start = PAGE_SIZE * page + DIGEST_SIZE
        return xxh3_64_digest(digests) == self.pages[start : start + DIGEST_SIZE]


def unpack_trailer(view: BytesLike, file_size: int) -> tuple[Trailer | None, int]:
    """Return the trailer whose end is the end of `view`, the last bytes of the file.

    Returns
    -------
    trailer : Trailer or None
        None if there is none, or `view` is too short for it, or it is damaged.
    missing : int
        Bytes that `view` needs in all if it is too short, else 0.
    """
    if len(view) < TAIL_SIZE or view[-TAIL_SIZE : 8 - TAIL_SIZE] != TRAILER_MAGIC:
        return None, 0
    fields = _TAIL.unpack_from(view, len(view) - TAIL_SIZE)
    _, version, _, head_nbytes, offset, nbytes, nchunks, _, head_digest, digest = fields
    pages_size = PAGE_SIZE * _npages(nchunks)
    covered = pages_size + head_nbytes + TAIL_SIZE
    if (
        version != _VERSION
        or head_nbytes > MAX_HEAD_NBYTES
        or nbytes != DIGEST_SIZE * nchunks + covered
        or offset + nbytes != file_size
        or nchunks > offset // CHUNK_HEADER_SIZE
        or pages_size > _MAX_PAGES_NBYTES
    ):
        return None, 0
    if covered > len(view):
        return None, covered
    covered_view = view[len(view) - covered :]
    if xxh3_64_digest(covered_view[:-DIGEST_SIZE]) != digest:
        return None, 0
    head = bytes(covered_view[pages_size : pages_size + head_nbytes])
    pages = bytes(covered_view[:pages_size])
    return Trailer(offset, nbytes, nchunks, head_digest, head, pages), 0


def pack_trailer(
    head: bytes, offsets: Sequence[int], digests: bytes, offset: int
) -> Iterator[bytes]:
    """Yield the parts of the trailer of a file.

    Parameters
    ----------
    head : bytes
        Header and metadata section, as they are in front.
    offsets : sequence of int
        The entries of the offset table, empty without one.
    digests : bytes
        The XXH3 of every chunk, 8 bytes each.
    offset : int
        The end of the last chunk, where the trailer goes.
    """
    nchunks = len(digests) // DIGEST_SIZE
    pages = b"".join(
        xxh3_64_digest(pack_offsets(offsets[first : first + PAGE_CHUNKS]))
        + xxh3_64_digest(digests[DIGEST_SIZE * first : DIGEST_SIZE * (first + PAGE_CHUNKS)])
        for first in range(0, nchunks, PAGE_CHUNKS)
    )
    copy = head if len(head) <= MAX_HEAD_NBYTES else head[: Header.unpack(head).size]
    nbytes = trailer_nbytes(nchunks, len(copy))
    tail = _TAIL.pack(
        TRAILER_MAGIC,
        _VERSION,
        0,
        len(copy),
        offset,
        nbytes,
        nchunks,
        bytes(8),
        xxh3_64_digest(head),
        bytes(DIGEST_SIZE),
    )[:-DIGEST_SIZE]
    yield digests
    covered = pages + copy + tail
    yield covered + xxh3_64_digest(covered)


def trailer_nbytes(nchunks: int, head_nbytes: int) -> int:
    """Return the size of the trailer of so many chunks with so long a copy of the front."""
    return DIGEST_SIZE * nchunks + PAGE_SIZE * _npages(nchunks) + head_nbytes + TAIL_SIZE


def is_current(
    trailer: Trailer, header: Header, head: BytesLike, *, section_is_checked: bool
) -> bool:
    """Return whether a trailer is of this state of the file, or of one before.

    Parameters
    ----------
    trailer : Trailer
        Of the file.
    header : Header
        The header in front.
    head : bytes-like
        Header and metadata section in front, as they are stored.
    section_is_checked : bool
        The metadata section has a checksum of its own, which matches.

    Returns
    -------
    bool
        False if the trailer is stale: another program has appended to the file or has replaced
        its metadata, and took no notice of the trailer.

    Raises
    ------
    FormatError
        The front is not that of the trailer, and no such program makes it so: it is damaged.
    """
    if trailer.matches_head(head):
        return True
    try:
        recorded = Header.unpack(trailer.head)
    except BloscpackError:
        return False  # nothing to compare with: no writer makes such a copy
    size = recorded.size
    has_section = len(trailer.head) > size
    section, before = head[size:], trailer.head[size:]
    same_section = has_section and section == before
    # Other metadata have other data: damage alone changes only the header of the section.
    behind = METADATA_HEADER_SIZE
    same_data = has_section and section[behind:] == before[behind:]
    same_place = len(head) == len(trailer.head) or not has_section
    if same_place and (same_section or section_is_checked or not header.metadata):
        if header == recorded and not same_data:
            return False
        if _is_grown(recorded, header):
            return False
    changed = (name for name in header._fields if getattr(header, name) != getattr(recorded, name))
    field = next(changed, None)
    what = "metadata" if field is None else f"header: {field}"
    raise FormatError(f"{what} differs from what the trailer has recorded", field=field)


def _is_grown(before: Header, after: Header) -> bool:
    """Return whether an append in place makes the one header of the other."""
    same = after._replace(
        last_chunk=before.last_chunk,
        nchunks=before.nchunks,
        max_app_chunks=before.max_app_chunks,
    )
    return (
        same == before
        and before.nchunks + before.max_app_chunks == after.nchunks + after.max_app_chunks
        and _content_nbytes(after) > _content_nbytes(before)
    )


def _content_nbytes(header: Header) -> int:
    return (header.nchunks - 1) * header.chunk_size + header.last_chunk


def _npages(nchunks: int) -> int:
    return -(-nchunks // PAGE_CHUNKS)
