"""Writing recordings: streams with tags, what their records look like, and the records.

A program makes a `Writer` with `create`, adds streams, defines the blocks of their records, and
writes::

    with create("run.vrs", tags={"project_name": "demo"}) as recording:
        imu = recording.stream("imu", flavor="demo/imu")
        imu.define("data", ImuData)
        imu.write("data", 0.5, {"accelerometer": [0, 0, 9.81]})

Tags and definitions are written before the first record. What comes later, be it a new stream, a
definition or a tag, is written as a tags record before the next record of the stream. Records go to
the file in the order of the calls, whatever their times are; readers sort them. What was flushed
survives the end of the program at any moment, and can be read without an index. Format:
docs/formats/vrs.md.
"""

import os
import re
import secrets
import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from threading import Lock
from types import MappingProxyType, TracebackType
from typing import Literal, Self

from ...types import BytesLike
from ..format.description import (
    FLAVOR_TAG,
    NAME_TAG,
    SERIAL_NUMBER_TAG,
    TAGS_VERSION,
    Description,
    pack_description,
    pack_tags_record,
)
from ..format.format import (
    DESCRIPTION_TYPE_ID,
    INDEX_TYPE_ID,
    TIMESTAMP_MIN,
    UNDEFINED_TYPE_ID,
    Compression,
    RecordType,
    StreamId,
)
from ..format.payload import check_preset, encode_payload
from ..format.typenames import TYPE_NAMES, type_name
from .recordfile import RecordFile
from .streamwriter import StreamWriter, Tags

_CLOSED = "the recording is closed"
_RANDOM_BITS = 30
# The reference opens no file with more (1.4.0, IndexRecord.cpp).
_MAX_STREAMS = 5000
_TYPE_SUFFIX = re.compile(r"( data)?( class)?$")
_RESERVED = INDEX_TYPE_ID, DESCRIPTION_TYPE_ID, UNDEFINED_TYPE_ID


def create(
    path: str | os.PathLike[str],
    *,
    tags: Mapping[str, str] | None = None,
    compression: str = "zfaster",
    index: Literal["end", "front"] = "end",
    index_compression: str = "zmedium",
    index_room: int = 4096,
    chunk_nbytes: int | None = None,
    overwrite: bool = False,
) -> "Writer":
    """Make a new recording.

    Parameters
    ----------
    path : str or PathLike
        The file; with `chunk_nbytes` the first of them.
    tags : mapping of str to str, optional
        Tags of the file. They may be changed until the first record.
    compression : str, optional
        Preset for payloads of 250 bytes or more: ``"none"``, ``"fast"`` and ``"tight"`` (LZ4), or
        ``"zfaster"``, ``"zfast"``, ``"zlight"``, ``"zmedium"``, ``"zheavy"``, ``"zhigh"``,
        ``"ztight"``, ``"zmax"`` (Zstandard). Streams may have another.
    index : {"end", "front"}, optional
        In front the index is found first by whoever reads a stream of bytes; if there is no room
        for it, it goes to the end.
    index_compression : str, optional
        A Zstandard preset for the index, or ``"none"``.
    index_room : int, optional
        For how many records an index in front has room; compressed, some five times as many fit.
    chunk_nbytes : int, optional
        Split the recording into files of less than so many bytes: `path` holds tags and index,
        ``path_1``, ``path_2`` and so on the records. `index` does not matter then.
    overwrite : bool, optional
        Remove a recording that is there first, its chunks included.

    Returns
    -------
    Writer
        To be closed. The file is there at once, with a header.

    Raises
    ------
    FileExistsError
        There is a file of this name, or one that would be taken for a chunk of it.
    TypeError, ValueError
        A tag is no text, or an option is impossible; no file is made.
    OSError
        The file cannot be made.
    """
    if index not in ("end", "front"):
        raise ValueError(f"index {index!r}: 'end' or 'front'")
    codec, level = check_preset(index_compression)
    if codec == Compression.LZ4:
        raise ValueError(f"index_compression {index_compression!r}: 'none' or one of Zstandard")
    check_preset(compression)
    if chunk_nbytes is not None and chunk_nbytes < 1:
        raise ValueError(f"chunk_nbytes {chunk_nbytes}: expected 1 or more")
    if not 0 <= index_room <= (1 << 27):
        raise ValueError(f"index_room {index_room}: expected 0 to {1 << 27} records")
    file_tags = Tags()
    file_tags.update(tags or {})
    file = RecordFile(
        os.fspath(path),
        new_creation_id(),
        index=index,
        level=None if codec == Compression.NONE else level,
        room=index_room,
        chunk_nbytes=chunk_nbytes,
        overwrite=overwrite,
    )
    return Writer(file, file_tags, compression)


class Writer:
    """A recording that is being written. Made by `create`.

    As a context manager it is closed at the end, even after an error: what was recorded is kept.

    Attributes
    ----------
    path : str
        The first file.
    tags : Tags
        Tags of the file, which cannot be changed once the first record is written.
    streams : mapping of str to StreamWriter
        By stream id such as ``"1202-1"``, in the order they were added.

    Notes
    -----
    Safe to use from many threads: values are encoded and compressed side by side, and records
    appended one after the other.
    """

    def __init__(self, file: RecordFile, tags: Tags, compression: str) -> None:
        self._file = file
        self.lock = Lock()
        self._compression = compression
        self._streams: dict[str, StreamWriter] = {}
        self._is_closed = False
        self.path = file.paths[0]
        self.tags = tags
        self.tags.before_change = self._check_not_started
        self.streams: Mapping[str, StreamWriter] = MappingProxyType(self._streams)

    def _check_not_started(self) -> None:
        self._check_open()
        if self._file.is_started:
            raise ValueError("tags of a file cannot be changed after its first record")

    def _check_open(self) -> None:
        """Raise ValueError if the recording is closed."""
        if self._is_closed:
            raise ValueError(_CLOSED)

    @property
    def closed(self) -> bool:
        """Whether it was closed or aborted."""
        return self._is_closed

    def stream(
        self,
        of: int | str,
        *,
        flavor: str = "",
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
        vrs_tags: Mapping[str, str] | None = None,
        instance_id: int | None = None,
        compression: str | None = None,
    ) -> "StreamWriter":
        """Add a stream.

        Parameters
        ----------
        of : int or str
            What kind of device it is: a type id, or its name, such as ``"imu"`` or
            ``"RGB Camera Class"``.
        flavor : str, optional
            Which of that kind: a text such as ``"my_team/device"``.
        name : str, optional
            By default the name of the type.
        tags : mapping of str to str, optional
            Tags of the stream; more may be set later.
        vrs_tags : mapping of str to str, optional
            Tags of another recording's stream: name, flavor, serial number, and what the records
            look like. Nothing is made up then, no serial number either.
        instance_id : int, optional
            By default the next one of the type, from 1 on.
        compression : str, optional
            Preset, by default that of the recording.

        Raises
        ------
        ValueError
            There is no such type, the stream is there already, there are too many, or the recording
            is closed.
        TypeError
            A tag is no text.
        """
        self._check_open()
        type_id = find_type_id(of)
        compression = self._compression if compression is None else compression
        check_preset(compression)
        if vrs_tags is None:
            vrs_tags = {NAME_TAG: type_name(type_id), SERIAL_NUMBER_TAG: str(uuid.uuid4())}
        given = {NAME_TAG: name, FLAVOR_TAG: flavor or None}
        made = dict(vrs_tags) | {tag: text for tag, text in given.items() if text is not None}
        with self.lock:
            stream_id = self._free_id(type_id, instance_id)
            stream = StreamWriter(self, stream_id, compression)
            stream._add_vrs_tags(made)
            stream.tags.update(tags or {})
            self._streams[stream.id] = stream
        return stream

    def _free_id(self, type_id: int, instance_id: int | None) -> StreamId:
        if len(self._streams) >= _MAX_STREAMS:
            raise ValueError(f"a recording has at most {_MAX_STREAMS} streams")
        if instance_id is None:
            taken = [s.stream_id[1] for s in self._streams.values() if s.stream_id[0] == type_id]
            instance_id = max(taken, default=0) + 1
        if not 0 <= instance_id <= 0xFFFF:
            raise ValueError(f"instance id {instance_id}: expected 0 to 65535")
        stream_id = StreamId(type_id, instance_id)
        if str(stream_id) in self._streams:
            raise ValueError(f"stream {stream_id} is there already")
        return stream_id

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
        """Add a record, for `StreamWriter`, which has checked it."""
        with self.lock:
            if stream.is_changed or not self._file.is_started:
                self._write_tags(stream)
            elif self._is_closed:
                raise ValueError(_CLOSED)
            self._file.append(
                stream.stream_id,
                record_type,
                version,
                timestamp,
                parts,
                nbytes,
                compression,
                uncompressed_size,
            )

    def _write_tags(self, stream: "StreamWriter") -> None:
        """Write the description, or if that is done the tags of a stream that changed since."""
        self._check_open()
        if not self._file.is_started:
            streams = {each.stream_id: each.stream_tags() for each in self._streams.values()}
            description = Description(streams, dict(self.tags))
            self._file.start(pack_description(description), len(streams))
            for each in self._streams.values():
                each.is_changed = False
        if stream.is_changed:
            payload = pack_tags_record(stream.stream_tags())
            compression, stored = encode_payload(payload, stream.compression)
            self._file.append(
                stream.stream_id,
                RecordType.TAGS,
                TAGS_VERSION,
                TIMESTAMP_MIN,
                [stored],
                len(stored),
                compression,
                len(payload) if compression else 0,
            )
            stream.is_changed = False

    def _write_all_tags(self) -> None:
        if not self._file.is_started and not self._streams:
            self._file.start(pack_description(Description({}, dict(self.tags))), 0)
        for stream in self._streams.values():
            self._write_tags(stream)

    def flush(self) -> None:
        """Hand all records to the system: they survive the end of the program, not of the machine.

        Raises
        ------
        OSError
            They cannot be written; nothing is lost, and it may be tried again.
        ValueError
            The recording is closed.
        """
        with self.lock:
            self._check_open()
            self._write_all_tags()
            self._file.write_out()

    def close(self) -> None:
        """Write the index, and make the recording durable; idempotent.

        Raises
        ------
        OSError
            Something cannot be written. The recording stays open, to be closed again or aborted;
            left as it is, what was flushed can be read.
        """
        with self.lock:
            if self._is_closed:
                return
            self._write_all_tags()
            self._file.close([stream.stream_id for stream in self._streams.values()])
            self._is_closed = True

    def abort(self) -> None:
        """Remove all files of the recording; after `close` nothing is done."""
        with self.lock:
            if not self._is_closed:
                self._is_closed = True
                self._file.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Of an object whose making failed there may be no attributes.
        if not getattr(self, "_is_closed", True):
            warnings.warn(f"recording {self.path!r} was never closed", ResourceWarning, 2)
            self._is_closed = True
            self._file.leave()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return (
            f"<Writer of {self.path!r}: {len(self._streams)} streams,"
            f" {self._file.nrecords} records, {state}>"
        )


def new_creation_id() -> int:
    """Return an id for a new file: the time in ns, the low bits random."""
    return time.time_ns() >> _RANDOM_BITS << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)


def find_type_id(of: int | str) -> int:
    """Return the type id that `of` is or names.

    Parameters
    ----------
    of : int or str
        A name as the reference shows it, or without "Data" and "Class"; case does not matter.

    Raises
    ------
    ValueError
        There is no such type, or the id is not for streams of users.
    """
    if isinstance(of, str):
        wanted = of.lower()
        for type_id, name in TYPE_NAMES.items():
            if wanted in (name.lower(), _TYPE_SUFFIX.sub("", name.lower())):
                of = type_id
                break
        else:
            raise ValueError(f"type {of!r}: no type of stream has this name")
    if not 0 <= of <= 0xFFFF or of in _RESERVED:
        raise ValueError(f"type id {of}: not the id of a type of stream")
    return of
