"""One stream of a recording that is being written: its tags, definitions and records."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from math import isfinite
from operator import index
from types import MappingProxyType
from typing import Any, Literal, Protocol

from ...plugin import BytesLike
from ..format.compression import MIN_COMPRESSED_NBYTES, stored_payload
from ..format.description import NAME_TAG, StreamTags, check_tag
from ..format.format import RECORD_HEADER_SIZE, Compression, RecordType, StreamId, find_record_type
from .declaration import as_bytes
from .encoding import BlockDeclaration, RecordEncoder
from .recordfile import MAX_RECORD_NBYTES

_MAX_VERSION = 0xFFFFFFFF

RecordTypeName = Literal["data", "configuration", "state"]


class RecordSink(Protocol):
    """Interface of the recording to its streams."""

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """Lock that is held while tags change and while records are appended."""

    def _check_open(self) -> None:
        """Raise ValueError if the recording is closed."""

    def append(
        self,
        stream: "StreamWriter",
        record_type: RecordType,
        version: int,
        timestamp: float,
        parts: Sequence[BytesLike],
        nbytes: int,
        compression: int,
        uncompressed_size: int,
    ) -> None:
        """Append a record."""


class Tags(MutableMapping[str, str]):
    """Tags as a mapping of str to str; `before_change` is called before each change."""

    def __init__(self, before_change: Callable[[], None] | None = None) -> None:
        self._tags: dict[str, str] = {}
        self.before_change = before_change

    def __getitem__(self, name: str) -> str:
        return self._tags[name]

    def __setitem__(self, name: str, value: str) -> None:
        check_tag(name, value)
        if self.before_change is not None and self._tags.get(name) != value:
            self.before_change()
        self._tags[name] = value

    def __delitem__(self, name: str) -> None:
        if name in self._tags and self.before_change is not None:
            self.before_change()
        del self._tags[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tags)

    def __len__(self) -> int:
        return len(self._tags)

    def __repr__(self) -> str:
        return f"Tags({self._tags!r})"


class StreamWriter:
    """A stream of a recording that is being written. Made by `Writer.stream`.

    Attributes
    ----------
    id : str
        Id such as ``"1202-1"``.
    stream_id : StreamId
        The id as numbers.
    tags : Tags
        Tags of the stream, which may be changed at any time.
    compression : str
        Preset for payloads.
    is_changed : bool
        Whether there are tags that are not in the file yet.
    """

    def __init__(self, sink: RecordSink, stream_id: StreamId, compression: str) -> None:
        self.stream_id = stream_id
        self.id = str(stream_id)
        self.compression = compression
        self._sink = sink
        self._vrs_tags = Tags(self._note_change)
        self.tags = Tags(self._note_change)
        # Keys: the record type as the caller gives it, and the version.
        self._encoders: dict[tuple[object, int], RecordEncoder] = {}
        self.is_changed = True

    @property
    def vrs_tags(self) -> Mapping[str, str]:
        """Name, flavor, serial number, and the definitions of the records."""
        return MappingProxyType(self._vrs_tags._tags)

    def _note_change(self) -> None:
        self._sink._check_open()
        self.is_changed = True

    def stream_tags(self) -> StreamTags:
        """Return a copy of all tags."""
        return StreamTags(dict(self.tags), dict(self._vrs_tags))

    def define(
        self,
        record_type: RecordTypeName | RecordType,
        *blocks: BlockDeclaration,
        version: int = 1,
    ) -> None:
        """Define the blocks of the records of a type and version.

        Parameters
        ----------
        record_type : {"data", "configuration", "state"} or RecordType
        *blocks
            `Layout` classes or `DataLayout` for metadata, `Image`, `Audio`, `Custom`; none for
            records without a payload.
        version : int, optional
            Version of the definition; a stream may have several for a record type.

        Raises
        ------
        ValueError
            The type and version have another definition already; readers could not find the end of
            a block; or the recording is closed.
        TypeError
            A block is of another type.
        """
        kind = find_record_type(record_type)
        if not isinstance(version, int) or not 0 <= version <= _MAX_VERSION:
            raise ValueError(f"version {version!r}: expected 0 to {_MAX_VERSION}")
        encoder = RecordEncoder(kind, version, blocks)
        prefix = f":{kind.name.capitalize()}:{version}"
        with self._sink.lock:
            known = {
                name: text
                for name, text in self._vrs_tags.items()
                if name[2:] == prefix or name[2:].startswith(prefix + ":")
            }
            if known and known != encoder.tags:
                raise ValueError(
                    f"stream {self.id}: {kind.name.lower()} records of version {version} are"
                    " defined already; give another version"
                )
            self._vrs_tags.update(encoder.tags)
            for key in (kind, kind.name.lower()):
                self._encoders[key, version] = encoder

    def write(
        self,
        record_type: RecordTypeName | RecordType,
        timestamp: float,
        *values: Any,
        version: int = 1,
    ) -> None:
        """Write a record.

        Parameters
        ----------
        record_type : {"data", "configuration", "state"} or RecordType
        timestamp : float
            In seconds; records may be written in any order of time.
        *values
            One per block of the definition: a dict or a `Layout` for metadata, an array or bytes
            for the others. They are read before the call returns, and not referenced after it.
        version : int, optional
            Version of the definition.

        Raises
        ------
        TypeError, ValueError
            The type and version have no definition, a value does not fit, the time is not a finite
            number, the record has 4 GiB or more, or the recording is closed. Nothing is written.
        OSError
            The file cannot be written, and does not have the record.
        """
        encoder = self._encoders.get((record_type, version))
        if encoder is None:
            raise ValueError(
                f"stream {self.id}: no {record_type!r} records of version {version!r} are defined"
            )
        self._write(encoder.record_type, timestamp, encoder.encode(values), version)

    def write_payload(
        self,
        record_type: RecordTypeName | RecordType,
        timestamp: float,
        payload: BytesLike,
        *,
        version: int = 1,
    ) -> None:
        """Write a record whose payload is given as bytes, regardless of definitions.

        Parameters and errors are as for `write`.
        """
        self._write(
            find_record_type(record_type), timestamp, [as_bytes(payload, "payload")], version
        )

    def write_stored(
        self,
        record_type: RecordTypeName | RecordType,
        timestamp: float,
        stored: BytesLike,
        compression: int,
        nbytes: int,
        *,
        version: int = 1,
    ) -> None:
        """Write a record whose payload is in its stored form, as copied from another recording.

        Other parameters and errors are as for `write`.

        Parameters
        ----------
        stored : bytes-like
            The bytes behind the record header, compressed or not.
        compression : Compression
            Compression of `stored`.
        nbytes : int
            Size of the payload when decoded.
        """
        kind, view = find_record_type(record_type), as_bytes(stored, "payload")
        if nbytes < 0:
            raise ValueError(f"nbytes {nbytes}: expected 0 or more")
        if Compression(compression) == Compression.NONE and nbytes != view.nbytes:
            raise ValueError(f"uncompressed payload: {view.nbytes} bytes, expected {nbytes}")
        self._put(kind, timestamp, version, [view], view.nbytes, compression, nbytes)

    def _write(
        self, kind: RecordType, timestamp: float, parts: list[BytesLike], version: int
    ) -> None:
        nbytes = sum(map(len, parts))
        if nbytes < MIN_COMPRESSED_NBYTES or self.compression == "none":
            self._put(kind, timestamp, version, parts, nbytes)
        else:
            whole = parts[0] if len(parts) == 1 else b"".join(parts)
            self._put(kind, timestamp, version, *stored_payload(whole, self.compression))

    def _put(
        self,
        kind: RecordType,
        timestamp: float,
        version: int,
        parts: Sequence[BytesLike],
        nbytes: int,
        compression: int = Compression.NONE,
        uncompressed_nbytes: int = 0,
    ) -> None:
        try:
            is_time = isfinite(timestamp)
        except OverflowError:  # an int that no float can hold
            is_time = False
        if not 0 <= index(version) <= _MAX_VERSION:
            raise ValueError(f"version {version!r}: expected 0 to {_MAX_VERSION}")
        if not is_time:
            raise ValueError(f"timestamp {timestamp!r:.40}: expected a finite number of seconds")
        largest = max(nbytes + RECORD_HEADER_SIZE, uncompressed_nbytes)
        if largest > MAX_RECORD_NBYTES:
            raise ValueError(f"a record of {largest} bytes: expected less than 4 GiB")
        self._sink.append(
            self, kind, version, timestamp, parts, nbytes, compression, uncompressed_nbytes
        )

    def __repr__(self) -> str:
        return f"<StreamWriter {self.id} {self._vrs_tags.get(NAME_TAG, '')!r}>"
