"""Records of one stream and type, with offsets and header fields as arrays.

Columns and clips are read through these. A record's header is read on first use and compared with
the index; the fields that reading needs are cached with the recording.
"""

import numpy as np
from numpy.typing import NDArray

from ...plugin import IntArray
from ..format.format import RECORD_HEADER_DTYPE, RECORD_HEADER_SIZE, RecordType
from ..format.recordformat import ContentBlock, ContentType, defined_formats
from ..layout.datalayout import DataLayout
from .content import Content
from .decoding import StreamDecoder
from .extents import read_rows
from .record import Record


class HeaderColumns:
    """Cached header fields of records, as plain arrays of shape (N,).

    `versions`, `compressions` and `nbytes`, of the decoded payloads, are valid where `known` is
    True. `offsets` and `stored` are positions and sizes of the stored payloads.
    """

    __slots__ = ("compressions", "known", "nbytes", "offsets", "stored", "versions")

    def __init__(self, content: Content, rows: IntArray) -> None:
        table = content.table
        self.offsets = table.offset[rows] + RECORD_HEADER_SIZE
        self.stored = table.size[rows].astype(np.int64) - RECORD_HEADER_SIZE
        self.versions: NDArray[np.uint32] = np.zeros(len(rows), np.uint32)
        self.compressions: NDArray[np.uint8] = np.zeros(len(rows), np.uint8)
        self.nbytes = self.stored.copy()
        self.known: NDArray[np.bool_] = np.zeros(len(rows), np.bool_)


class RecordSet:
    """All records of one stream and type.

    `rows` has the `record_index` of each record; `load` reads `headers`. Safe from many threads,
    which may read a header twice.
    """

    def __init__(self, content: Content, ordinal: int, record_type: int) -> None:
        self.content = content
        # A clip or column may outlive its recording: this reference keeps the compiled layouts.
        self._decoders = content.keep_decoders()
        self.ordinal = ordinal
        self.record_type = RecordType(record_type)
        self.rows = content.rows_of(ordinal, record_type)
        key = HeaderColumns, ordinal, int(record_type)
        found = content.cache.get(key)
        if not isinstance(found, HeaderColumns):
            found = content.cache[key] = HeaderColumns(content, self.rows)
        self.headers = found

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<{len(self)} {self.label} of {self.content.source.name!r}>"

    @property
    def label(self) -> str:
        """Type and stream of these records, for messages."""
        stream_id = self.content.table.streams[self.ordinal]
        return f"{self.record_type.name.lower()} records of stream {stream_id}"

    def decoder(self, version: int) -> StreamDecoder:
        """Return the decoder of a format version."""
        return self.content.decoder((self.ordinal, int(self.record_type), version))

    def record(self, index: int) -> Record:
        """Return the record at position `index` of this set."""
        return self.content[int(self.rows[index])]

    def load(self, indices: IntArray | None = None, *, nthreads: int | None = None) -> None:
        """Read the headers of some records, by default of all, that were not read before."""
        columns = self.headers
        if indices is None:
            missing = np.flatnonzero(~columns.known)
        else:
            missing = np.unique(indices[~columns.known[indices]])
        if not len(missing):
            return
        places = columns.offsets[missing] - RECORD_HEADER_SIZE
        found = read_rows(self.content.source, places, RECORD_HEADER_SIZE, nthreads=nthreads)
        headers = found.view(RECORD_HEADER_DTYPE).reshape(-1)
        self.content.reader.check_headers(headers, self.rows[missing])
        compressions = headers["compression"]
        columns.versions[missing] = headers["format_version"]
        columns.compressions[missing] = compressions
        columns.nbytes[missing] = np.where(
            compressions != 0, headers["uncompressed_size"], columns.stored[missing]
        )
        columns.known[missing] = True  # last: other threads read the columns where it is set

    def where(self, index: int) -> tuple[str, str | None]:
        """Return the label of a record and the path, the arguments of ``err.at``."""
        return self.content.reader.where(self.rows[index])


def tagged_versions(records: RecordSet) -> list[int]:
    """Return the format versions that the tags of the stream define, ascending."""
    tags = records.content.tags_of(records.ordinal).vrs
    return list(defined_formats(tags, records.record_type))


def least_nbytes(content: ContentBlock, layout: DataLayout | None) -> int | None:
    """Return the size of a block that the tags alone fix; of metadata, without the variable part.

    None if the metadata before the block or the size of the payload may determine the size.
    """
    if content.content_type == ContentType.DATA_LAYOUT:
        return None if layout is None or layout.undecodable else layout.prefix_nbytes
    if content.content_type == ContentType.IMAGE:
        return content.nbytes if content.image.raw_nbytes is not None else None
    if content.content_type in (ContentType.CUSTOM, ContentType.EMPTY):
        return content.nbytes
    return None
