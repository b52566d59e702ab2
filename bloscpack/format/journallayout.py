"""The rollback journal: what an append in place overwrites, kept beside the file until it is done.

::

    journal = header(64) (offset(8) nbytes(8))*nregions bytes

A region is a run of bytes of the file as it was. The first is the front, header and metadata
section; the second, if there is one, goes from the first byte behind the last full chunk to the
end of the file. The entries of the offset table that were spare are not kept: they were -1.

A journal is whole or of no meaning: its digest covers all of it, and it is synced before the file
is touched. It belongs to a file if inode and device are those it tells, or if bytes that the append
does not touch are (a copy of both files has other inodes); where there are such bytes they must
match in any case.

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
MAX_REGIONS = 2
# What is read of a journal before its regions: all but their bytes, and the file's header.
JOURNAL_START_NBYTES = JOURNAL_HEADER_SIZE + MAX_REGIONS * _REGION.size + MAX_HEADER_SIZE
# Bytes before the first one to change that tell the file.
FINGERPRINT_NBYTES = 1 << 16
NO_FINGERPRINT = bytes(8)
# The header of a file, field by field: it may be half of this state and half of the next.
_FIELDS = Struct("<8siiqq")


class Region(NamedTuple):
    """A run of bytes of the file, and where the journal keeps them.

    Attributes
    ----------
    offset, nbytes : int
        Of the run, in the file.
    at : int
        Its position in the journal.
    """

    offset: int
    nbytes: int
    at: int


class Journal(NamedTuple):
    """A journal as far as its start tells; whether it is whole, its digest decides.

    Attributes
    ----------
    file_size : int
        Size of the file before the append.
    identity : tuple of int
        Inode and device of the file.
    fingerprint : bytes
        XXH3 of the bytes of `fingerprint_extent`; zeros if there are none.
    regions : tuple of Region
        In order, not overlapping, inside the file.
    nbytes : int
        Size of the journal.
    digest : bytes
        XXH3 of the journal without these 8 bytes.
    header : Header
        The header of the file before the append.
    """

    file_size: int
    identity: tuple[int, int]
    fingerprint: bytes
    regions: tuple[Region, ...]
    nbytes: int
    digest: bytes
    header: Header

    @property
    def spare_extent(self) -> tuple[int, int]:
        """Offset and size of the entries of the offset table that were spare."""
        header = self.header
        table = self.regions[0].nbytes
        return table + OFFSET_SIZE * header.nchunks, OFFSET_SIZE * header.max_app_chunks

    @property
    def fingerprint_extent(self) -> tuple[int, int]:
        """Offset and size of the bytes of which `fingerprint` is the digest."""
        data_offset = self.regions[0].nbytes + self.header.table_size
        end = self.regions[1].offset if len(self.regions) > 1 else self.file_size
        return fingerprint_extent(data_offset, end)

    def fits(self, live: BytesLike) -> bool:
        """Return whether `live`, the first 32 bytes of a file, may be of it, now or later."""
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
    """Return offset and size of the bytes that tell a file, chunks before `end`."""
    start = max(data_offset, end - FINGERPRINT_NBYTES)
    return start, max(end - start, 0)


def pack_journal_start(
    file_size: int,
    identity: tuple[int, int],
    fingerprint: bytes,
    extents: Sequence[tuple[int, int]],
) -> tuple[bytes, bytes]:
    """Return the header but for its digest, and the list of regions.

    The digest is the XXH3 of these two and the bytes of the regions, and goes between the two.
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
    """Return the journal that starts with `view` and has `size` bytes.

    `view` has `JOURNAL_START_NBYTES`, less only where the journal is shorter. None is returned for
    what is no journal, or none that is whole as far as sizes tell.
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
    if data_offset > (regions[1].offset if nregions > 1 else file_size):
        return None
    return Journal(file_size, (inode, device), fingerprint, tuple(regions), size, digest, header)
