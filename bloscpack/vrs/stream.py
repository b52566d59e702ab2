"""A stream of a recording: what is known of a device, and its records."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """The records of one device.

    Made by a recording; holds nothing but where to look.

    Attributes
    ----------
    id : str
        Type and instance, as ``"1201-1"``.
    type_id, instance_id : int
        Both.
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self._content is other._content and self._ordinal == other._ordinal

    def __hash__(self) -> int:
        return hash((id(self._content), self._ordinal))

    @property
    def tags(self) -> dict[str, str]:
        """What the user said of it; a copy."""
        return dict(self._content.tags_of(self._ordinal).user)

    @property
    def vrs_tags(self) -> dict[str, str]:
        """Its name, flavor and serial number, and what its records look like; a copy."""
        return dict(self._content.tags_of(self._ordinal).vrs)

    def _vrs_tag(self, name: str) -> str:
        return self._content.tags_of(self._ordinal).vrs.get(name, "")

    @property
    def name(self) -> str:
        """The name that its type had when it was recorded; else the one it has now."""
        return self._vrs_tag(NAME_TAG) or type_name(self.type_id)

    @property
    def flavor(self) -> str:
        """What kind of such a device it is; may be empty."""
        return self._vrs_tag(FLAVOR_TAG)

    @property
    def serial_number(self) -> str:
        """What tells the stream from all others, and stays in copies of it."""
        return self._vrs_tag(SERIAL_NUMBER_TAG)

    @property
    def records(self) -> Selection:
        """All its records."""
        rows = self._content.rows_of_stream(self._ordinal)
        return Selection(self._content, rows)

    def _of_type(self, record_type: int) -> Selection:
        rows = self._content.rows_of(self._ordinal, record_type)
        return Selection(self._content, rows)

    @property
    def data(self) -> Selection:
        """Its data records."""
        return self._of_type(RecordType.DATA)

    @property
    def configurations(self) -> Selection:
        """Its configuration records."""
        return self._of_type(RecordType.CONFIGURATION)

    @property
    def states(self) -> Selection:
        """Its state records."""
        return self._of_type(RecordType.STATE)

    @property
    def counts(self) -> dict[str, int]:
        """How many records of each type it has."""
        return {
            name: len(self._content.rows_of(self._ordinal, kind))
            for kind, name in RECORD_TYPE_NAMES.items()
        }

    @property
    def time_range(self) -> tuple[float, float] | None:
        """The first and the last time of its records in seconds; None without records."""
        return self.records.time_range

    @property
    def timestamps(self) -> FloatArray:
        """The time of each data record in seconds, float64 (N,)."""
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
        """Read one field of all records of a type; see `columns.read_field`."""
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
        """Whether the formats of its data records have images, and there are such records.

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
        """The images of its data records, the first of each, as a lazy array of frames.

        Raises
        ------
        NotFoundError
            There are none.
        """
        return self.clip()

    def clip(self, block: int | None = None) -> StreamClip:
        """Return the images of its data records as a lazy array of frames.

        Parameters
        ----------
        block : int, optional
            Which block of the record format; by default the first image.

        Raises
        ------
        NotFoundError
            The stream has no images, or none in this block.
        """
        return StreamClip(self._content, self._ordinal, block)

    def _record_set(self, record_type: TypeName) -> RecordSet:
        return RecordSet(self._content, self._ordinal, find_record_type(record_type))


class Streams(Mapping[str, Stream]):
    """The streams of a recording by id, sorted by type and instance."""

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
            There is none of this id.
        """
        ordinal = find_stream(self._content, stream_text(key))
        return Stream(self._content, ordinal)

    def __repr__(self) -> str:
        return f"<{len(self)} streams of {self._content.source.name!r}>"
