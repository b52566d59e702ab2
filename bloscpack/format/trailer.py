"""Trailer after the last chunk: digests of everything that versions 3 and 4 do not protect.

::

    trailer = digest(8)*nchunks [statistics(32)*nchunks] page(16)*npages head tail(64)

A digest is the XXH3 of a stored chunk. A page holds the XXH3 of 4096 entries of the offset table
and the XXH3 of the digests of these chunks, so opening a file reads one block for any number of
chunks. `head` is a copy of the header and the metadata section, from which a damaged front can be
rebuilt. The statistics of chunks (`statistics.py`) have a digest of their own, in the tail. The
tail is the end of the file: a trailer that is followed by other bytes, or that does not match the
file any more, is stale. Readers that do not know the trailer (bloscpack 0.16) ignore bytes after
the last chunk.

Pure: bytes in, values out. Layout: docs/formats/bloscpack.md, "Trailer".
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64_digest

from ..exceptions import BloscpackError, FormatError
from ..types import BytesLike
from .codec import CHUNK_HEADER_SIZE
from .header import FEATURE_GRID, Header, pack_offsets
from .metadata import METADATA_HEADER_SIZE

TRAILER_MAGIC = b"BLPKTRLR"
DIGEST_SIZE = 8
PAGE_CHUNKS = 4096
PAGE_SIZE = DIGEST_SIZE + DIGEST_SIZE
# Digest of a chunk that an append found without one. A chunk whose XXH3 is really 0, one in 2^64,
# is not checked either.
UNKNOWN_DIGEST = bytes(DIGEST_SIZE)

STATISTICS_SIZE = 8 + 8 + 8 + 8  # of a chunk; see statistics.py

_VERSION = 1
# magic, version, bytes of the statistics of a chunk, bytes of the head, offset, bytes of the
# trailer, nchunks, XXH3 of the statistics, XXH3 of the stored head, XXH3 of pages, head and this
# tail
_TAIL = Struct("<8sHHIQQQ8s8s8s")
TAIL_SIZE = 8 + 2 + 2 + 4 + 8 + 8 + 8 + 8 + 8 + 8
# Of a larger head only the header is copied; the digest still covers all of it.
MAX_HEAD_NBYTES = 1 << 16
# Limit on the pages, which are read when a file is opened: enough for a billion chunks.
_MAX_PAGES_NBYTES = 4 << 20


class Trailer(NamedTuple):
    """Intact trailer; `is_current` checks that it describes the current state of the file."""

    offset: int  # offset of the trailer: the end of the last chunk and its digest
    nbytes: int  # size in bytes; the trailer ends with the file
    nchunks: int  # number of chunks that it covers
    head_digest: bytes  # XXH3 of the header and the metadata section
    head: bytes  # copy of the header and the metadata section; only of the header above 64 KiB
    pages: bytes  # digests of all pages
    statistics_digest: bytes  # XXH3 of the statistics; empty without them

    def page_extent(self, page: int) -> tuple[int, int]:
        """Return the offset and the size of the digests of the chunks of page `page`."""
        first = page * PAGE_CHUNKS
        count = min(PAGE_CHUNKS, self.nchunks - first)
        return self.offset + DIGEST_SIZE * first, DIGEST_SIZE * count

    def statistics_extent(self) -> tuple[int, int]:
        """Return the offset and the size of the statistics of all chunks."""
        return self.offset + DIGEST_SIZE * self.nchunks, STATISTICS_SIZE * self.nchunks

    def matches_entries(self, page: int, entries: BytesLike) -> bool:
        """Return whether `entries`, stored entries of the offset table, match `page`.

        Without an offset table, `entries` is empty.
        """
        start = PAGE_SIZE * page
        return xxh3_64_digest(entries) == self.pages[start : start + DIGEST_SIZE]

    def matches_digests(self, page: int, digests: BytesLike) -> bool:
        """Return whether `digests`, the stored digests of chunks, match `page`."""
        start = PAGE_SIZE * page + DIGEST_SIZE
        return xxh3_64_digest(digests) == self.pages[start : start + DIGEST_SIZE]


def unpack_trailer(view: BytesLike, file_size: int) -> tuple[Trailer | None, int]:
    """Return the trailer at the end of `view`, the last bytes of the file.

    Returns
    -------
    trailer : Trailer or None
        None if the trailer is missing or damaged, or `view` is too short for it.
    missing : int
        Total size that `view` must have if it is too short, else 0.
    """
    if len(view) < TAIL_SIZE or view[-TAIL_SIZE : 8 - TAIL_SIZE] != TRAILER_MAGIC:
        return None, 0
    fields = _TAIL.unpack_from(view, len(view) - TAIL_SIZE)
    _, version, size, head_nbytes, offset, nbytes, nchunks, statistics, head_digest, digest = fields
    pages_size = PAGE_SIZE * -(-nchunks // PAGE_CHUNKS)
    covered = pages_size + head_nbytes + TAIL_SIZE
    if (
        version != _VERSION
        or head_nbytes > MAX_HEAD_NBYTES
        or size not in (0, STATISTICS_SIZE)
        or nbytes != (DIGEST_SIZE + size) * nchunks + covered
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
    values = offset, nbytes, nchunks, head_digest, head, pages, statistics if size else b""
    return tuple.__new__(Trailer, values), 0  # same as `_make`, but saves a call


def pack_trailer(
    head: bytes, offsets: Sequence[int], digests: bytes, offset: int, statistics: bytes = b""
) -> Iterator[bytes]:
    """Yield the trailer of a file in pieces.

    Parameters
    ----------
    head : bytes
        Header and metadata section as stored at the front.
    offsets : sequence of int
        Entries of the offset table; empty without a table.
    digests : bytes
        XXH3 of every chunk, 8 bytes each.
    offset : int
        Offset of the trailer, the end of the last chunk and its digest.
    statistics : bytes
        The statistics of every chunk, 32 bytes each; empty for a file without them.
    """
    nchunks = len(digests) // DIGEST_SIZE
    pages = b""
    for first in range(0, nchunks, PAGE_CHUNKS):
        stop = first + PAGE_CHUNKS
        pages += xxh3_64_digest(pack_offsets(offsets[first:stop]))
        pages += xxh3_64_digest(digests[DIGEST_SIZE * first : DIGEST_SIZE * stop])
    copy = head if len(head) <= MAX_HEAD_NBYTES else head[: Header.unpack(head).size]
    size = STATISTICS_SIZE if statistics else 0
    if len(statistics) != size * nchunks:
        raise ValueError(f"{len(statistics)} bytes are not the statistics of {nchunks} chunks")
    tail = _TAIL.pack(
        TRAILER_MAGIC,
        _VERSION,
        size,
        len(copy),
        offset,
        trailer_nbytes(nchunks, len(copy), size),
        nchunks,
        xxh3_64_digest(statistics) if statistics else bytes(DIGEST_SIZE),
        xxh3_64_digest(head),
        bytes(DIGEST_SIZE),
    )[:-DIGEST_SIZE]
    yield digests + statistics
    covered = pages + copy + tail
    yield covered + xxh3_64_digest(covered)


def trailer_nbytes(nchunks: int, head_nbytes: int, statistics_size: int = 0) -> int:
    """Return the size of a trailer for `nchunks` chunks with a copy of `head_nbytes`.

    `statistics_size` is that of the statistics of a chunk.
    """
    pages_size = PAGE_SIZE * -(-nchunks // PAGE_CHUNKS)
    return (DIGEST_SIZE + statistics_size) * nchunks + pages_size + head_nbytes + TAIL_SIZE


def is_current(
    trailer: Trailer, header: Header, head: BytesLike, *, section_is_checked: bool
) -> bool:
    """Return whether a trailer describes the current state of the file, not an earlier one.

    Parameters
    ----------
    trailer : Trailer
        The trailer of the file.
    header : Header
        The header at the front.
    head : bytes-like
        Stored header and metadata section at the front.
    section_is_checked : bool
        Whether the metadata section has a checksum of its own, which matches.

    Returns
    -------
    bool
        False if the trailer is stale: a program that does not know trailers has appended to the
        file or replaced its metadata.

    Raises
    ------
    FormatError
        The front differs from the copy in the trailer in a way that only damage explains.
    """
    if xxh3_64_digest(head) == trailer.head_digest:
        return True
    try:
        recorded = Header.unpack(trailer.head)
    except BloscpackError:
        return False  # no writer of ours makes such a copy, so it cannot be compared
    size = recorded.size
    has_section = len(trailer.head) > size
    section, before = head[size:], trailer.head[size:]
    same_section = has_section and section == before
    # Replaced metadata have other data. If only the header of the section differs, it is damage.
    data_start = METADATA_HEADER_SIZE
    same_data = has_section and section[data_start:] == before[data_start:]
    same_place = len(head) == len(trailer.head) or not has_section
    if same_place and (same_section or section_is_checked or not header.metadata):
        if header == recorded and not same_data:
            return False
        if _is_grown(recorded, header):
            return False
    changed = (name for name in header._fields if getattr(header, name) != getattr(recorded, name))
    field = next(changed, None)
    what = "metadata" if field is None else f"header: {field}"
    raise FormatError(f"{what} differs from the copy in the trailer", field=field)


def _is_grown(before: Header, after: Header) -> bool:
    """Return whether an append in place changes the header `before` to `after`."""
    same = after._replace(
        last_chunk=before.last_chunk,
        nchunks=before.nchunks,
        max_app_chunks=before.max_app_chunks,
    )
    return (
        same == before
        and not before.features & FEATURE_GRID  # `append_fp` refuses a chunk grid
        and before.nchunks + before.max_app_chunks == after.nchunks + after.max_app_chunks
        and _content_nbytes(after) > _content_nbytes(before)
    )


def _content_nbytes(header: Header) -> int:
    return (header.nchunks - 1) * header.chunk_size + header.last_chunk
