"""The records of one stream and one type, as arrays: where each is, and what its header says.

Columns and clips are read from these. A header is read when its record is wanted first, compared
with what the index says of the record, and what reading needs of it is kept with the recording.
"""

import numpy as np
from numpy.typing import NDArray

from ...exceptions import BloscpackError
from ...types import IntArray
from ..format.format import RECORD_HEADER_DTYPE, RECORD_HEADER_SIZE, RecordType
from ..format.recordformat import ContentBlock, ContentType, defined_formats
from ..layout.datalayout import DataLayout
from .content import Content
from .decoding import StreamDecoder
from .extents import read_rows
from .record import Record


class HeaderColumns:
    """What is kept of the headers of some records: plain arrays, shape (N,).

    Attributes
    ----------
    offsets : ndarray of int64
        Where the stored payloads begin in the file.
    stored : ndarray of int64
        How many bytes they have there.
    versions : ndarray of uint32
        Format versions; this and the following where `known`.
    compressions : ndarray of uint8
        As stored: see `Compression`.
    nbytes : ndarray of int64
        Sizes of the decoded payloads.
    known : ndarray of bool
        Which headers were read.
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

    Parameters
    ----------
    content : Content
        The recording.
    ordinal : int
        Of the stream.
    record_type : int
        A `RecordType`.

    Attributes
    ----------
    content, ordinal, record_type
        As the parameters.
    rows : ndarray of int64, shape (N,)
        Which records of the recording these are.
    headers : HeaderColumns
        Of these; `load` reads them.

    Notes
    -----
    Safe from many threads, which may read a header twice.
    """

    def __init__(self, content: Content, ordinal: int, record_type: int) -> None:
        self.content = content
        # A clip or column may outlive the recording it is from: layouts are compiled once.
        self._decoders = content.keep_decoders()
        self.ordinal = ordinal
        self.record_type = RecordType(record_type)
        self.rows = content.rows_of(ordinal, record_type)
        key = HeaderColumns, ordinal, int(record_type)
        found = content.kept.get(key)
        if not isinstance(found, HeaderColumns):
            found = content.kept[key] = HeaderColumns(content, self.rows)
        self.headers = found

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<{len(self)} {self.label} of {self.content.source.name!r}>"

    @property
    def label(self) -> str:
        """What these records are, for messages."""
        stream_id = self.content.table.streams[self.ordinal]
        return f"{self.record_type.name.lower()} records of stream {stream_id}"

    def decoder(self, version: int) -> StreamDecoder:
        """Return what decodes the records of a format version."""
        return self.content.decoder((self.ordinal, int(self.record_type), version))

    def record(self, index: int) -> Record:
        """Return one of the records."""
        return self.content[int(self.rows[index])]

    def load(self, indices: IntArray | None = None, *, nthreads: int | None = None) -> None:
        """Read the headers of some of the records, by default of all, unless that was done.

        Raises
        ------
        FormatError
            One is not what the index says; `TruncatedError` if the file ends before it does.
        """
        kept = self.headers
        if indices is None:
            missing = np.flatnonzero(~kept.known)
        else:
            missing = np.unique(indices[~kept.known[indices]])
        if not len(missing):
            return
        places = kept.offsets[missing] - RECORD_HEADER_SIZE
        found = read_rows(self.content.source, places, RECORD_HEADER_SIZE, nthreads=nthreads)
        headers = found.view(RECORD_HEADER_DTYPE).reshape(-1)
        self.content.reader.check_headers(headers, self.rows[missing])
        compressions = headers["compression"]
        kept.versions[missing] = headers["format_version"]
        kept.compressions[missing] = compressions
        kept.nbytes[missing] = np.where(
            compressions != 0, headers["uncompressed_size"], kept.stored[missing]
        )
        kept.known[missing] = True

    def at_record(self, err: BloscpackError, index: int) -> BloscpackError:
        """Return an error that says which record it is about."""
        if err.path is None:
            stream_id = self.content.table.streams[self.ordinal]
            err.args = (f"record {self.rows[index]} of stream {stream_id}: {err.args[0]}",)
            err.path = self.content.source.name
        return err


def tagged_versions(records: RecordSet) -> list[int]:
    """Return the format versions that the tags of the stream define, in order."""
    tags = records.content.tags_of(records.ordinal).vrs
    return list(defined_formats(tags, records.record_type))


def least_nbytes(content: ContentBlock, layout: DataLayout | None) -> int | None:
    """Return the size of a block, of metadata without its variable part, as the tags tell it.

    None where the metadata before it, or what is left of the payload, may tell another one.
    """
    if content.content_type == ContentType.DATA_LAYOUT:
        return None if layout is None or layout.undecodable else layout.prefix_nbytes
    if content.content_type == ContentType.IMAGE:
        return content.nbytes if content.image.raw_nbytes is not None else None
    if content.content_type in (ContentType.CUSTOM, ContentType.EMPTY):
        return content.nbytes
    return None
