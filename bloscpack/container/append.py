"""Appending to a container in place.

The last chunk is filled up and compressed anew, further chunks go behind it, and header, offset
table and metadata follow. Everything that can be refused is refused before the first byte is
written, and what lies beyond the old end is written first, the header last.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from ..codec import CodecParams, encode
from ..exceptions import (
    FormatError,
    NotEnoughSpace,
    UnsupportedError,
)
from ..storage.file import SpoolSink, read_fully
from .format import UNUSED_ENTRY, Header, pack_offsets
from .metadata import MetadataHeader, pack_section
from .reader import Container
from .writer import Chunking


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """What an append of some bytes will do; made and checked before anything is written.

    Attributes
    ----------
    fill_nbytes : int
        New bytes that go into the last chunk.
    chunking : Chunking or None
        How the rest is cut; None if there is none.
    header : Header
        The header afterwards.
    """

    fill_nbytes: int
    chunking: Chunking | None
    header: Header

    @property
    def nchunks(self) -> int:
        """Number of new chunks."""
        return self.chunking.nchunks if self.chunking else 0


def plan_append(container: Container, nbytes: int) -> AppendPlan:
    """Return what an append of `nbytes` bytes to `container` will do.

    Raises
    ------
    UnsupportedError
        There is no offset table, or the version is not 3 or 4.
    NotEnoughSpace
        The offset table has too few spare entries.
    ValueError
        The file holds no bytes and has no chunk size to go by.
    """
    header = container.header
    if header.format_version < 3:
        raise UnsupportedError(
            f"appending needs format version 3 or 4, the file has {header.format_version}"
        )
    if not header.offsets:
        raise UnsupportedError("appending needs an offset table, the file has none; pack it again")
    if container.chunk_size <= 0:
        raise ValueError("cannot append to a file packed from empty content: it has no chunk size")
    # Sizes that the header leaves open are known once the file is open.
    header = header._replace(chunk_size=container.chunk_size, last_chunk=container.last_chunk)
    room = container.chunk_size - container.last_chunk
    if nbytes <= room:
        return AppendPlan(nbytes, None, header._replace(last_chunk=header.last_chunk + nbytes))
    chunking = Chunking.of(nbytes - room, container.chunk_size)
    spare = header.max_app_chunks - chunking.nchunks
    if spare < 0:
        raise NotEnoughSpace(
            f"{chunking.nchunks} more chunks are needed, the offset table has room for "
            f"{header.max_app_chunks}; pack the file again with a larger max_app_chunks"
        )
    after = header._replace(
        nchunks=header.nchunks + chunking.nchunks,
        last_chunk=chunking.last_chunk,
        max_app_chunks=spare,
    )
    return AppendPlan(room, chunking, after)


def append_content(
    file: IO[bytes],
    container: Container,
    plan: AppendPlan,
    content: IO[bytes],
    params: CodecParams,
    section: bytes | None = None,
) -> None:
    """Carry out `plan`.

    Parameters
    ----------
    file : seekable binary file, open for reading and writing
        The file that `container` reads.
    container : Container
        Before the append.
    plan : AppendPlan
        From `plan_append`.
    content : binary file
        Gives the new bytes.
    params : CodecParams
        How to compress them, and the last chunk again.
    section : bytes, optional
        A new metadata section, as long as the old one.

    Raises
    ------
    ChecksumMismatch, FormatError, CodecError
        The last chunk or the offset table is damaged. Nothing was written.
    ValueError
        `content` ended early. The file holds what it held.
    """
    digest = container.header.checksum.digest
    container.check_end()
    offsets = list(container.read_offsets())
    last = container.nchunks - 1
    position, before = container.read_located(last)
    if position != offsets[last]:
        raise FormatError(
            f"offset table: entry {last} is {offsets[last]}, which is not the last chunk",
            field="offsets",
        )
    merged = before + _read_exactly(content, plan.fill_nbytes)
    filled = encode(merged, params)
    filled += digest(filled)
    # All of the content is compressed before the first byte is written: it may end early.
    spool = SpoolSink()
    try:
        position = offsets[last] + len(filled)
        for chunk in _encoded_chunks(content, plan.chunking, params):
            offsets.append(position)
            stored = chunk + digest(chunk)
            spool.write(stored)
            position += len(stored)
        file.seek(offsets[last] + len(filled))
        for block in spool.iter_blocks():
            file.write(block)
    finally:
        spool.abort()
    file.seek(offsets[last])
    file.write(filled)
    front = container.header.size
    if section is not None:
        file.seek(front)
        file.write(section)
    front += container.metadata_header.section_size if container.metadata_header else 0
    file.seek(front)
    # The next entry was spare, and nothing looked at it: let it be marked so.
    file.write(pack_offsets(offsets) + UNUSED_ENTRY * min(plan.header.max_app_chunks, 1))
    file.seek(0)
    file.write(plan.header.pack())
    file.flush()


def rewrite_section(
    old: MetadataHeader,
    metadata: Any,
    *,
    checksum: str | None = None,
    codec: str = "zlib",
    level: int = 6,
) -> bytes:
    """Return a metadata section for `metadata` of the same length as the one that `old` heads.

    Raises
    ------
    MetadataSectionTooSmall
        It does not fit.
    """
    return pack_section(
        metadata,
        checksum=checksum or old.meta_checksum.name,
        codec=codec,
        level=level,
        reserve=old.max_meta_size,
    )


def _encoded_chunks(
    content: IO[bytes], chunking: Chunking | None, params: CodecParams
) -> Iterator[bytes]:
    if chunking is None:
        return
    for index in range(chunking.nchunks):
        is_last = index == chunking.nchunks - 1
        nbytes = chunking.last_chunk if is_last else chunking.chunk_size
        yield encode(_read_exactly(content, nbytes), params)


def _read_exactly(content: IO[bytes], nbytes: int) -> bytes:
    data = read_fully(content, nbytes)
    if len(data) != nbytes:
        raise ValueError(f"the new content ended {nbytes - len(data)} bytes early")
    return data
