"""Layout of the rollback journal, which saves the bytes that an append in place overwrites.

::

    journal = header(64) (offset(8) nbytes(8))*nregions bytes

A region is a range of old bytes of the file. The first is the front, header and metadata section.
The last of several extends from the end of the last full chunk to the end of the file. Between them
may be the entries of the last row of a chunk grid. The spare entries of the offset table are not
saved, as they were all -1.

An incomplete journal is ignored: its digest covers all of it, and it is synced before the file is
changed. To find out whether a journal belongs to a file, a fingerprint of bytes that the append
does not touch is compared. Inode and device are compared only without such bytes, because a copy of
both files has other inodes.

Pure: bytes in, values out. Layout: docs/formats/bloscpack.md, "Rollback journal".
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from ..exceptions import BloscpackError
from ..types import BytesLike
from .header import HEADER_SIZE, MAX_HEADER_SIZE, OFFSET_SIZE, UNKNOWN, Header

JOURNAL_MAGIC = b"BLPKUNDO"
JOURNAL_SUFFIX = ".journal"

_VERSION = 1
# magic, version, zero, nregions, size of the file, inode, device, fingerprint, bytes of all
# regions, XXH3 of all the rest
_HEADER = Struct("<8sHHIQQQ8sQ8s")
JOURNAL_HEADER_SIZE = 8 + 2 + 2 + 4 + 8 + 8 + 8 + 8 + 8 + 8
_REGION = Struct("<QQ")
MAX_REGIONS = 3
# First read of a journal: everything before the bytes of the regions, and the header of the file.
JOURNAL_START_NBYTES = JOURNAL_HEADER_SIZE + MAX_REGIONS * _REGION.size + MAX_HEADER_SIZE
# Size of the unchanged bytes, before the first changed one, that the fingerprint covers.
FINGERPRINT_NBYTES = 1 << 16
NO_FINGERPRINT = bytes(8)
# Header of a file, field by field, as it may mix fields of two states.
_FIELDS = Struct("<8siiqq")


class Region(NamedTuple):
    """Range of old bytes of the file, and its position in the journal."""

    # Range in the file.
    offset: int
    nbytes: int
    at: int  # position of the bytes in the journal


class Journal(NamedTuple):
    """Fields of a journal from its beginning; the caller must still compare the digest."""

    file_size: int  # size of the file before the append
    identity: tuple[int, int]  # inode and device of the file
    fingerprint: bytes  # XXH3 of the bytes of `fingerprint_extent`; zeros if that is empty
    regions: tuple[Region, ...]  # in order, not overlapping, inside the file
    nbytes: int  # size of the journal in bytes
    digest: bytes  # XXH3 of the journal without these 8 bytes
    header: Header  # header of the file before the append

    @property
    def spare_extent(self) -> tuple[int, int]:
        """Offset and size of the spare entries of the offset table."""
        header = self.header
        table = self.regions[0].nbytes
        return table + OFFSET_SIZE * header.nchunks, OFFSET_SIZE * header.max_app_chunks

    @property
    def fingerprint_extent(self) -> tuple[int, int]:
        """Offset and size of the bytes that `fingerprint` covers."""
        data_offset = self.regions[0].nbytes + self.header.table_size
        end = self.regions[-1].offset if len(self.regions) > 1 else self.file_size
        return fingerprint_extent(data_offset, end)

    def fits(self, live: BytesLike) -> bool:
        """Return whether `live`, the first 32 bytes of a file, are consistent with this journal."""
        if len(live) < HEADER_SIZE:
            return False
        fixed, chunk_size, _, nchunks, spare = _FIELDS.unpack_from(live)
        header = self.header
        return (
            fixed == header.pack()[:8]
            and header.chunk_size in (UNKNOWN, chunk_size)
            and header.nchunks <= nchunks <= header.nchunks + header.max_app_chunks
            and 0 <= spare <= header.max_app_chunks
        )


def fingerprint_extent(data_offset: int, end: int) -> tuple[int, int]:
    """Return the offset and size of the bytes, chunks before `end`, that identify a file."""
    start = max(data_offset, end - FINGERPRINT_NBYTES)
    return start, max(end - start, 0)


def pack_journal_start(
    file_size: int,
    identity: tuple[int, int],
    fingerprint: bytes,
    extents: Sequence[tuple[int, int]],
) -> tuple[bytes, bytes]:
    """Return the header without its digest, and the list of regions.

    The digest is the XXH3 of these two and of the bytes of the regions; it goes between the two.
    """
    inode, device = identity
    mask = (1 << 64) - 1
    head = _HEADER.pack(
        JOURNAL_MAGIC,
        _VERSION,
        0,
        len(extents),
        file_size,
        inode & mask,
        device & mask,
        fingerprint,
        sum(nbytes for _, nbytes in extents),
        bytes(8),
    )
    return head[:-8], b"".join(_REGION.pack(*extent) for extent in extents)


def unpack_journal(view: BytesLike, size: int) -> Journal | None:
    """Return the journal of `size` bytes that begins with `view`, or None.

    `view` has `JOURNAL_START_NBYTES` bytes, fewer only if the journal is shorter. The result is
    None if it is not a journal, or if its sizes show that it is incomplete.
    """
    if len(view) < JOURNAL_HEADER_SIZE:
        return None
    fields = _HEADER.unpack_from(view)
    magic, version, _, nregions, file_size, inode, device, fingerprint, payload, digest = fields
    if magic != JOURNAL_MAGIC or version != _VERSION or not 1 <= nregions <= MAX_REGIONS:
        return None
    at = JOURNAL_HEADER_SIZE + nregions * _REGION.size
    if at + payload != size or len(view) < at:
        return None
    regions: list[Region] = []
    end = 0
    for index in range(nregions):
        offset, nbytes = _REGION.unpack_from(view, JOURNAL_HEADER_SIZE + index * _REGION.size)
        if offset < end or (index == 0 and offset != 0):
            return None
        regions.append(Region(offset, nbytes, at))
        end = offset + nbytes
        at += nbytes
    if at != size or end > file_size:
        return None
    first = regions[0]
    try:
        header = Header.unpack(view[first.at : first.at + min(first.nbytes, MAX_HEADER_SIZE)])
    except BloscpackError:
        return None
    data_offset = first.nbytes + header.table_size
    if header.format_version < 3 or header.nchunks < 1 or first.nbytes < header.size:
        return None
    before = regions[max(nregions - 2, 0)]  # the front, or entries of the offset table
    tail = regions[-1].offset if nregions > 1 else file_size
    if not before.offset + before.nbytes <= data_offset <= tail:
        return None
    return Journal(file_size, (inode, device), fingerprint, tuple(regions), size, digest, header)
