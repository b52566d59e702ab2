"""Writer of recordings: streams, their tags and definitions, and records.

A program creates a `Writer` with `create`, adds streams, defines the blocks of their records, and
writes::

    with create("run.vrs", tags={"project_name": "demo"}) as recording:
        imu = recording.stream("imu", flavor="demo/imu")
        imu.define("data", ImuData)
        imu.write("data", 0.5, {"accelerometer": [0, 0, 9.81]})

Tags and definitions are written before the first record. A stream, definition or tag that is added
later is written as a tags record before the next record of the stream. Records go to the file in
the order of the calls, in any order of time; readers sort them. Flushed records survive the end of
the program at any point, and can be read without an index. Format: docs/formats/vrs.md.
"""

import os
import re
import secrets
import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import Literal

from ...plugin import (
    BytesLike,
    ClosedOnExit,
    check_absent,
    check_regular,
    disk,
    refuse_url_as_target,
)
from ..format.compression import check_preset, stored_payload
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
    MAX_INSTANCE_ID,
    TIMESTAMP_MIN,
    UNDEFINED_TYPE_ID,
    Compression,
    RecordType,
    StreamId,
)
from ..format.typenames import TYPE_NAMES, type_name
from ..read.content import files_of
from .recordfile import RecordFile
from .streamwriter import StreamWriter, Tags

_CLOSED = "the recording is closed"
_RANDOM_BITS = 30
# The reference refuses files with more (1.4.0, IndexRecord.cpp).
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
    """Create a recording.

    Parameters
    ----------
    path : str or PathLike
        Path of the file; with `chunk_nbytes`, of the first file.
    tags : mapping of str to str, optional
        Tags of the file. They may be changed until the first record.
    compression : str, optional
        Preset for payloads of 250 bytes or more: ``"none"``, ``"fast"`` and ``"tight"`` (LZ4), or
        ``"zfaster"``, ``"zfast"``, ``"zlight"``, ``"zmedium"``, ``"zheavy"``, ``"zhigh"``,
        ``"ztight"``, ``"zmax"`` (Zstandard). A stream may have its own.
    index : {"end", "front"}, optional
        Position of the index. A reader of a stream of bytes finds an index in front first; an
        index that does not fit there goes to the end.
    index_compression : str, optional
        A Zstandard preset for the index, or ``"none"``.
    index_room : int, optional
        Records that an index in front reserves space for; compressed, about five times as many fit.
    chunk_nbytes : int, optional
        Split the recording into files of less than this many bytes: `path` holds tags and index,
        ``path_1``, ``path_2`` and so on hold the records. `index` has no effect then.
    overwrite : bool, optional
        Replace an existing file, or a recording and its chunks.

    Returns
    -------
    Writer
        The new recording, to be closed. The file exists at once, with a header.

    Raises
    ------
    FileExistsError
        The file exists, or one that readers would take for a chunk of the new recording.
    TypeError, ValueError
        A tag is not a str, or an option is out of range; no file is created.
    UnsupportedError
        The path is a URL.
    OSError
        The file cannot be created.
    """
    refuse_url_as_target(path, "a recording")
    if index not in ("end", "front"):
        raise ValueError(f"index {index!r}: expected 'end' or 'front'")
    codec, level = check_preset(index_compression)
    if codec == Compression.LZ4:
        raise ValueError(
            f"index_compression {index_compression!r}: expected 'none' or a Zstandard preset"
        )
    check_preset(compression)
    if chunk_nbytes is not None and chunk_nbytes < 1:
        raise ValueError(f"chunk_nbytes {chunk_nbytes}: expected 1 or more")
    if not 0 <= index_room <= (1 << 27):
        raise ValueError(f"index_room {index_room}: expected 0 to {1 << 27} records")
    file_tags = Tags()
    file_tags.update(tags or {})
    target = disk.target_of(path)
    check_absent(path, overwrite=overwrite)
    check_regular(target, target)
    file = RecordFile(
        target,
        new_creation_id(),
        index=index,
        level=None if codec == Compression.NONE else level,
        room=index_room,
        chunk_nbytes=chunk_nbytes,
        replaced=files_of(target) if overwrite else (),
    )
    return Writer(file, file_tags, compression)


class Writer(ClosedOnExit):
    """A recording that is being written, returned by `create`.

    A context manager closes it at the end, even after an error, and keeps the records written.

    Attributes
    ----------
    path : str
        Path of the first file.
    tags : Tags
        Tags of the file, which cannot be changed after the first record.
    streams : mapping of str to StreamWriter
        By stream id such as ``"1202-1"``, in the order they were added.

    Notes
    -----
    Safe to use from many threads: values are encoded and compressed in parallel, and records are
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
        self._file.check_process()

    @property
    def closed(self) -> bool:
        """Whether the recording was closed or aborted."""
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
            Kind of device: a type id, or its name, such as ``"imu"`` or ``"RGB Camera Class"``.
        flavor : str, optional
            Variant of that device: a text such as ``"my_team/device"``.
        name : str, optional
            Name of the stream, by default that of the type.
        tags : mapping of str to str, optional
            Tags of the stream; more may be set later.
        vrs_tags : mapping of str to str, optional
            VRS tags copied from a stream of another recording: name, flavor, serial number and
            definitions. No tag is generated then, a serial number neither.
        instance_id : int, optional
            By default the next free one of the type, counted from 1.
        compression : str, optional
            Preset, by default that of the recording.

        Raises
        ------
        ValueError
            The type is unknown, the stream exists already, the recording has too many streams, or
            it is closed.
        TypeError
            A tag is not a str.
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
            stream._vrs_tags.update(made)
            stream.tags.update(tags or {})
            self._streams[stream.id] = stream
        return stream

    def _free_id(self, type_id: int, instance_id: int | None) -> StreamId:
        if len(self._streams) >= _MAX_STREAMS:
            raise ValueError(f"a recording has at most {_MAX_STREAMS} streams")
        if instance_id is None:
            taken = [s.stream_id[1] for s in self._streams.values() if s.stream_id[0] == type_id]
            instance_id = max(taken, default=0) + 1
        if not 0 <= instance_id <= MAX_INSTANCE_ID:
            raise ValueError(f"instance id {instance_id}: expected 0 to 65535")
        stream_id = StreamId(type_id, instance_id)
        if str(stream_id) in self._streams:
            raise ValueError(f"stream {stream_id} exists already")
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
        """Append a record that `StreamWriter` has checked."""
        # Before the lock, which a fork may have copied while it was held.
        self._file.check_process()
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
        """Write the description, or a tags record if the tags of a stream changed since then."""
        self._check_open()
        if not self._file.is_started:
            streams = {each.stream_id: each.stream_tags() for each in self._streams.values()}
            description = Description(streams, dict(self.tags))
            self._file.start(pack_description(description), len(streams))
            for each in self._streams.values():
                each.is_changed = False
        if stream.is_changed:
            tags = stored_payload(pack_tags_record(stream.stream_tags()), stream.compression)
            self._file.append(stream.stream_id, RecordType.TAGS, TAGS_VERSION, TIMESTAMP_MIN, *tags)
            stream.is_changed = False

    def _write_all_tags(self) -> None:
        if not self._file.is_started and not self._streams:
            self._file.start(pack_description(Description({}, dict(self.tags))), 0)
        for stream in self._streams.values():
            self._write_tags(stream)

    def flush(self) -> None:
        """Write buffered records to the file; they survive the end of the program, not of power.

        Raises
        ------
        OSError
            They cannot be written; nothing is lost, and the call may be retried.
        ValueError
            The recording is closed.
        LockedError
            This process was forked from the one that writes the recording.
        """
        self._file.check_process()
        with self.lock:
            self._check_open()
            self._write_all_tags()
            self._file.write_out()

    def close(self) -> None:
        """Write the index, and make the recording durable; idempotent.

        Raises
        ------
        OSError
            Something cannot be written. The recording stays open, to be closed again or aborted.
            If it is neither, the records flushed so far can be read.

        Notes
        -----
        A process that was forked from the writer's only lets go of the files, as does `abort`.
        """
        if self._is_let_go():
            return
        with self.lock:
            if self._is_closed:
                return
            self._write_all_tags()
            self._file.close([stream.stream_id for stream in self._streams.values()])
            self._is_closed = True

    def abort(self) -> None:
        """Remove all files of the recording; has no effect after `close`."""
        if self._is_let_go():
            return
        with self.lock:
            if not self._is_closed:
                self._is_closed = True
                self._file.abort()

    def _is_let_go(self) -> bool:
        """Close the files of a forked copy of the writer; return whether this is one."""
        if not self._file.is_forked:
            return False
        if not self._is_closed:
            self._is_closed = True
            self._file.leave()
        return True

    def __del__(self) -> None:
        # If __init__ failed, the attributes may be missing.
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
    """Return an id for a new file: the time in ns, with 30 random low bits."""
    return time.time_ns() >> _RANDOM_BITS << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)


def find_type_id(of: int | str) -> int:
    """Return the type id for a type id or the name of a type.

    Names are as the reference shows them, with or without "Data" and "Class", in any case. Ids that
    the format reserves are refused.
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
        raise ValueError(f"type id {of}: not an id for streams of users")
    return of
