"""Front of a frame store: the header, and the metadata of the whole store.

Clips are found without the metadata, so opening a store only checks the header. Damaged metadata
lose the attributes, but no frame.
"""

from collections.abc import Mapping
from typing import Any

from ...exceptions import FormatError, TruncatedError
from ...format.checksum import CHECKSUMS
from ...format.metadata import MetadataHeader, attr_values, decode_data, pack_section, stored_data
from ...storage.protocol import ByteSource
from ...types import BytesLike
from .format import CHECKSUM, CONTAINER, store_header, unpack_store_header

# Enough for header and metadata of nearly every store, in one read.
FRONT_NBYTES = 4096


def pack_front(options: Mapping[str, Any], attrs: Mapping[str, Any]) -> bytes:
    """Return the header and metadata section of a store.

    `options` are defaults for appending: codec, preset, quality and subsampling; `attrs` are given
    by the user.
    """
    metadata = {"container": CONTAINER, **options, "attrs": attr_values(attrs)}
    # Not compressed, so that the bytes do not depend on the zlib version; the section never grows.
    section = pack_section(
        metadata, checksum=CHECKSUM, codec="None", level=0, reserve=lambda nbytes: nbytes
    )
    return store_header().pack() + section


class Front:
    """Header and metadata of a store; the metadata are decoded on first use.

    `head` are the first bytes of the file, if they have been read: `FRONT_NBYTES`, or all of a
    smaller file.
    """

    def __init__(self, source: ByteSource, head: BytesLike | None = None) -> None:
        self._source = source
        self.head = bytes(source.read_at(0, FRONT_NBYTES) if head is None else head)
        self.header = unpack_store_header(self.head)
        self._metadata: dict[str, Any] | None = None

    @property
    def end(self) -> int:
        """Absolute offset after the metadata."""
        return self.header.size + self._metadata_header().section_size

    def _metadata_header(self) -> MetadataHeader:
        return MetadataHeader.unpack(self.head, self.header.size, last_checksum=CHECKSUMS[-1].id)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the file."""
        if self._metadata is None:
            self._metadata = self._read_metadata()
        return self._metadata

    def _read_metadata(self) -> dict[str, Any]:
        offset = self.header.size
        meta = self._metadata_header()
        # No digest covers room after the data, and every byte of a store must be covered.
        if meta.max_meta_size != meta.meta_comp_size:
            raise FormatError(
                f"metadata header: max_meta_size {meta.max_meta_size} is not meta_comp_size "
                f"{meta.meta_comp_size}",
                offset=offset + 16,
                field="max_meta_size",
            )
        section = self.head[offset : offset + meta.section_size]
        if len(section) < meta.section_size:
            if offset + meta.section_size > self._source.size():
                raise TruncatedError("metadata: they end after the end of the file", offset=offset)
            section = bytes(self._source.read_at(offset, meta.section_size))
        value = decode_data(stored_data(meta, section), meta.meta_codec, meta.meta_size)
        if not isinstance(value, dict) or value.get("container") != CONTAINER:
            raise FormatError("metadata: not those of a frame store", offset=offset)
        return value
