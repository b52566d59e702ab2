"""Streams of a recording: identity, tags and records of one device."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..plugin import importing
from .column.columns import Column, read_field
from .column.imageplace import image_index
from .format.description import FLAVOR_TAG, NAME_TAG, SERIAL_NUMBER_TAG
from .format.format import RECORD_TYPE_NAMES, RecordType, StreamId, find_record_type
from .format.typenames import type_name
from .read.content import Content
from .read.recordset import RecordSet, tagged_versions
from .sequence import FloatArray, Selection, TypeName, find_stream, stream_text
from .streamclips import StreamClip


class Stream:
    """Records of one device, returned by a recording; a lazy view that holds no data.

    Attributes
    ----------
    id : str
        Type and instance id, such as ``"1201-1"``.
    type_id, instance_id : int
        The two parts of `id`.
    """

    __slots__ = ("_content", "_decoders", "_ordinal", "id", "instance_id", "type_id")

    def __init__(self, content: Content, ordinal: int) -> None:
        self._content = content
        self._decoders = content.keep_decoders()
        self._ordinal = ordinal
        stream_id: StreamId = content.table.streams[ordinal]
        self.id = str(stream_id)
        self.type_id, self.instance_id = stream_id

    def __reduce__(self) -> tuple[Any, ...]:
        return Stream, (self._content, self._ordinal)

    def __repr__(self) -> str:
        return f"<stream {self.id} {self.name!r} of {self._content.source.name!r}>"

    def _repr_html_(self) -> str:
        """Return a table and a picture for notebooks."""
        with importing:
            from .notebook import stream_card
        return stream_card(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self._content is other._content and self._ordinal == other._ordinal

    def __hash__(self) -> int:
        return hash((id(self._content), self._ordinal))

    @property
    def tags(self) -> dict[str, str]:
        """User tags of the stream; a copy."""
        return dict(self._content.tags_of(self._ordinal).user)

    @property
    def vrs_tags(self) -> dict[str, str]:
        """VRS tags: name, flavor, serial number and record formats; a copy."""
        return dict(self._content.tags_of(self._ordinal).vrs)

    def _vrs_tag(self, name: str) -> str:
        return self._content.tags_of(self._ordinal).vrs.get(name, "")

    @property
    def name(self) -> str:
        """Name of the device type when it was recorded, or the type's current name."""
        return self._vrs_tag(NAME_TAG) or type_name(self.type_id)

    @property
    def flavor(self) -> str:
        """Kind of device within its type; may be empty."""
        return self._vrs_tag(FLAVOR_TAG)

    @property
    def serial_number(self) -> str:
        """Unique identifier of the stream; copies of the recording keep it."""
        return self._vrs_tag(SERIAL_NUMBER_TAG)

    @property
    def records(self) -> Selection:
        """All records of the stream."""
        return Selection(self._content, self._content.rows_of_stream(self._ordinal))

    def _of_type(self, record_type: int) -> Selection:
        return Selection(self._content, self._content.rows_of(self._ordinal, record_type))

    @property
    def data(self) -> Selection:
        """Data records."""
        return self._of_type(RecordType.DATA)

    @property
    def configurations(self) -> Selection:
        """Configuration records."""
        return self._of_type(RecordType.CONFIGURATION)

    @property
    def states(self) -> Selection:
        """State records."""
        return self._of_type(RecordType.STATE)

    @property
    def counts(self) -> dict[str, int]:
        """Number of records by type."""
        return {
            name: len(self._content.rows_of(self._ordinal, kind))
            for kind, name in RECORD_TYPE_NAMES.items()
        }

    @property
    def time_range(self) -> tuple[float, float] | None:
        """Times of the first and last record in seconds; None without records."""
        return self.records.time_range

    @property
    def timestamps(self) -> FloatArray:
        """Time of each data record in seconds, float64 (N,)."""
        return self.data.timestamps

    def field(
        self,
        name: str,
        record_type: TypeName = "data",
        *,
        block: int | None = None,
        version: int | None = None,
        nthreads: int | None = None,
    ) -> Column:
        """Return one field of all records of a type; see `columns.read_field`."""
        return read_field(
            self._record_set(record_type), name, block=block, version=version, nthreads=nthreads
        )

    def versions(self, record_type: TypeName = "data") -> NDArray[np.uint32]:
        """Return the format version of each record of a type, uint32 (N,)."""
        records = self._record_set(record_type)
        records.load()
        return records.headers.versions.copy()

    @property
    def has_images(self) -> bool:
        """Whether the stream has data records, and a format of them has images.

        Raises
        ------
        FormatError
            A format is damaged.
        """
        records = self._record_set("data")
        contents = (records.decoder(version).contents for version in tagged_versions(records))
        return len(records) > 0 and any(image_index(each, None) is not None for each in contents)

    @property
    def frames(self) -> StreamClip:
        """First image of each data record, as a lazy array of frames.

        Raises
        ------
        NotFoundError
            The stream has no images.
        """
        return self.clip()

    def clip(self, block: int | None = None) -> StreamClip:
        """Return the images of the data records as a lazy array of frames.

        Parameters
        ----------
        block : int, optional
            Index of the image block in the record format; by default, the first image block.

        Raises
        ------
        NotFoundError
            The stream has no images, or none in this block.
        """
        return StreamClip(self._content, self._ordinal, block)

    def _record_set(self, record_type: TypeName) -> RecordSet:
        return RecordSet(self._content, self._ordinal, find_record_type(record_type))


class Streams(Mapping[str, Stream]):
    """Streams of a recording by id, sorted by type and instance."""

    __slots__ = ("_content", "_decoders")

    def __init__(self, content: Content) -> None:
        self._content = content
        self._decoders = content.keep_decoders()

    def __reduce__(self) -> tuple[Any, ...]:
        return Streams, (self._content,)

    def __len__(self) -> int:
        return len(self._content.table.streams)

    def __iter__(self) -> Iterator[str]:
        return map(str, self._content.table.streams)

    def __getitem__(self, key: str) -> Stream:
        """Return a stream.

        Raises
        ------
        NotFoundError
            No stream has this id.
        """
        return Stream(self._content, find_stream(self._content, stream_text(key)))

    def __repr__(self) -> str:
        return f"<{len(self)} streams of {self._content.source.name!r}>"
