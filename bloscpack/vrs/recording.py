"""Open VRS file: records in time order, streams and tags."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, overload

from ..plugin import (
    ClosedOnExit,
    FileChangedError,
    IntArray,
    NotFoundError,
    ProgressOption,
    as_progress,
    closed_on_error,
    importing,
    notice,
)
from .export.contentchecksum import content_checksum
from .format.format import FileHeader
from .format.recordindex import RecordTable
from .read.content import INDEX_MODES, Content, read_content
from .read.filesource import ChunkedSource, open_recording_source
from .read.openreport import Report
from .read.record import Record
from .sequence import RecordSequence, Selection
from .stream import Stream, Streams


def open(  # noqa: A001
    path: Any,
    mode: Literal["r"] = "r",
    *,
    index: str = "auto",
    resync: bool = True,
    nthreads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> "Recording":
    """Open a VRS recording.

    Parameters
    ----------
    path : str, PathLike, list of these, buffer or binary file
        The file or its URL. Numbered neighbours (``X_1``, ``X_2``) that continue a local file are
        read with it; those of a URL are not. A list names every file of a chunked recording.
    mode : {"r"}
        Recordings are not changed in place; `create` makes new ones.
    index : {"auto", "rebuild", "strict"}
        How to find the records. ``"auto"``: by the index, or by the record headers if the index is
        missing or contradicts them. ``"rebuild"``: always by the record headers. ``"strict"``: only
        by the index; a missing or wrong index is an error.
    resync : bool
        Whether a search for record headers continues after damaged bytes or stops there.
    nthreads : int, optional
        Number of threads that decode frames and columns; a call may override it.
    storage_options : mapping, optional
        For a URL: options of its fsspec file system (keys, ``endpoint_url``, ``headers``).

    Returns
    -------
    Recording
        Its `report` lists what was repaired or lost.

    Raises
    ------
    FormatError
        The bytes are not a VRS file; or the index lists records, but none can be reached; or
        ``index="strict"`` and the index is missing or wrong.
    UnsupportedError
        The file is of a newer version of the format.
    OSError
        The file cannot be read.

    Warns
    -----
    BloscpackWarning
        Some records cannot be reached, or some bytes do not belong to a record.

    Notes
    -----
    Opening reads the whole index, or every record header without an index. From a URL, it takes
    one request for the first 64 KiB and one for the index at the end and the bytes before it.
    """
    if mode != "r":
        raise ValueError(f"mode must be 'r', not {mode!r}: vrs.create makes a new recording")
    if index not in INDEX_MODES:
        raise ValueError(f"index must be one of {', '.join(INDEX_MODES)}, not {index!r}")
    recording = open_quietly(
        path, index=index, resync=resync, nthreads=nthreads, storage_options=storage_options
    )
    if loss := recording.report._loss:
        notice(
            "%s: %s; only the records that were found are read, and recording.report lists "
            "the rest",
            recording.name or "recording",
            loss,
        )
    return recording


def open_quietly(
    path: Any,
    *,
    index: str = "auto",
    resync: bool = True,
    nthreads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> "Recording":
    """Open a recording as `open` does, without a warning: the caller reports what is lost."""
    source = open_recording_source(path, storage_options)
    with closed_on_error(source, source.name):
        content = read_content(source, index=index, resync=resync)
    content.nthreads = nthreads
    options = {"index": index, "resync": resync, "nthreads": nthreads}
    place = source.place()
    if place is not None:
        content.origin = _reopen, (place, options, _identity_of(content))
    return Recording(content, nthreads)


class Recording(RecordSequence, ClosedOnExit):
    """Records of a VRS file in time order, returned by `open`.

    Records of equal time are ordered by type id, instance id and position in the file.

    Attributes
    ----------
    name : str or None
        Path as given to `open`; None for bytes.
    nthreads : int or None
        As given to `open`.

    Notes
    -----
    Reads are positional: threads and forked children may share a recording. A recording pickles as
    its path and options.
    """

    _kind = "recording"

    def __init__(self, content: Content, nthreads: int | None) -> None:
        self._content = content
        self._decoders = content.keep_decoders()
        self.name = content.source.name
        self.nthreads = nthreads

    def __repr__(self) -> str:
        return f"<bloscpack.vrs.Recording {self.name!r} of {len(self)} records>"

    def _repr_html_(self) -> str:
        """Return a table of streams for notebooks."""
        with importing:
            from .notebook import recording_card
        return recording_card(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Recording, (self._content, self.nthreads)

    def __len__(self) -> int:
        return len(self._content.table)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Selection: ...
    @overload
    def __getitem__(self, index: str) -> Stream: ...
    def __getitem__(self, index: int | slice | str) -> Record | Selection | Stream:
        """Return the record at an int, a `Selection` for a slice, or the stream of an id.

        Raises
        ------
        IndexError, NotFoundError
            No such record or stream exists.
        FormatError, CodecError
            The record is damaged; the message names it.
        """
        if type(index) is int and 0 <= index < len(self._content.all_rows):
            return self._content[index]  # records of a recording are all rows, in order
        if isinstance(index, str):
            return self.streams[index]
        return super().__getitem__(index)

    @property
    def rows(self) -> IntArray:
        """Indexes of all records: ``arange(len(self))``, int64."""
        return self._content.all_rows

    @property
    def header(self) -> FileHeader:
        """File header."""
        return self._content.header

    @property
    def table(self) -> RecordTable:
        """Time, offset, size, type and stream of every record, as arrays."""
        return self._content.table

    @property
    def index_kind(self) -> str:
        """How the records were found: ``"classic end"``, ``"split zstd"``, ... or ``"scanned"``."""
        return self._content.index_kind

    @property
    def report(self) -> Report:
        """Report of what was repaired or lost when the file was opened."""
        return self._content.report

    @property
    def source(self) -> ChunkedSource:
        """Bytes of the file; all chunks as one source."""
        return self._content.source

    @property
    def file_tags(self) -> dict[str, str]:
        """Tags of the file, set by the user who recorded it; a copy."""
        return dict(self._content.description.file_tags)

    @property
    def streams(self) -> Streams:
        """Streams by id, such as ``"1201-1"``."""
        return Streams(self._content)

    def find_streams(
        self, type_id: int | None = None, tag: str | None = None, value: str | None = None
    ) -> list[Stream]:
        """Return the streams that match a type, a tag and the value of a tag.

        Parameters
        ----------
        type_id : int, optional
            Any type by default.
        tag, value : str, optional
            Name and value of a user tag. `value` alone matches any tag with this value.
        """
        return list(self._iter_found(type_id, tag, value))

    def find_stream(
        self, type_id: int | None = None, tag: str | None = None, value: str | None = None
    ) -> Stream:
        """Return the first stream that `find_streams` finds.

        Raises
        ------
        NotFoundError
            No stream matches.
        """
        for stream in self._iter_found(type_id, tag, value):
            return stream
        wanted = {"type": type_id, "tag": tag, "value": value}
        text = ", ".join(f"{name} {given!r:.80}" for name, given in wanted.items() if given)
        raise NotFoundError(f"no stream of {text or 'any kind'}").at(path=self.name)

    def _iter_found(
        self, type_id: int | None, tag: str | None, value: str | None
    ) -> Iterator[Stream]:
        for stream in self.streams.values():
            tags = stream.tags
            if (
                (type_id is None or stream.type_id == type_id)
                and (tag is None or tag in tags)
                and (
                    value is None or (value in tags.values() if tag is None else tags[tag] == value)
                )
            ):
                yield stream

    def checksum(self, *, progress: ProgressOption = None) -> str:
        """Return the checksum of all tags and records, 16 hex digits.

        The reference's ``vrs checksum`` prints the same. Compression, index and chunks of a copy do
        not change it.

        Parameters
        ----------
        progress : callable, optional
            Called at intervals with the stored bytes of the finished records and of all records.

        Raises
        ------
        FormatError, CodecError
            A record is damaged.
        """
        return content_checksum(self._content, as_progress(progress))

    def close(self) -> None:
        """Close the file; idempotent. Records that were read before stay usable."""
        self._content.source.close()


def _identity_of(content: Content) -> tuple[int, int, int]:
    """Return the values that differ if another recording has replaced this one."""
    return content.header.creation_id, content.source.size(), len(content.table)


def _reopen(place: Any, options: dict[str, Any], identity: tuple[int, int, int]) -> Content:
    """Reopen a pickled recording and return its content."""
    recording = open_quietly(place, **options)  # the first opening already warned
    if _identity_of(recording._content) != identity:
        recording.close()
        raise FileChangedError("the file is not the one that was opened; open it again").at(
            path=recording.name
        )
    return recording._content
