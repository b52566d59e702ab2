"""Files, tracks and samples with Benzina's own names, for existing scripts.

Names, arguments and results are those of Benzina 0.0.5, the last version that reads ``.bzna`` files
(utils/file.py), implemented on our reader: bounds-checked, and for all valid tables and file sizes.
Shapes are (W, H), as there. Differences: a closed file reopens itself on use, a missing track
raises `NotFoundError`, and tracks are found only if their names begin with ``bzna_``.
"""

import operator
import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Self, TypeAlias, overload

from ...plugin import BytesLike, ByteSource, FormatError, NotFoundError, errors_at, open_source
from ..mp4.bmff import Window, children
from ..mp4.format import unpack_text
from ..mp4.movie import Movie, unpack_movie
from ..mp4.track import DatasetTrack

Path: TypeAlias = str | os.PathLike[str]


class Trak(NamedTuple):
    """Label and shape of a track."""

    label: bytes
    shape: tuple[int, int]
    """(W, H), the integer parts of the numbers in the track header; (0, 0) for metadata."""


class _Handle:
    """A file shared by several `File` objects, opened on use."""

    def __init__(self, where: Any) -> None:
        self.where = where
        self.is_path = isinstance(where, str | os.PathLike)
        self.source: ByteSource | None = None if self.is_path else open_source(where)

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.is_path:
            raise TypeError("cannot pickle a file object: open the file by path")
        return _Handle, (self.where,)

    @property
    def name(self) -> str | None:
        if self.is_path:
            return os.fsdecode(self.where)
        return None if self.source is None else self.source.name

    def open(self) -> ByteSource:
        """Return the file, opening it if it is closed."""
        if self.source is None:
            self.source = open_source(self.where)
        return self.source

    def close(self) -> None:
        """Close the file if it was opened by path."""
        if self.is_path and self.source is not None:
            self.source.close()
            self.source = None


class _Part(ByteSource):
    """The part of a file after an offset, as a source of its own."""

    def __init__(self, handle: _Handle, offset: int) -> None:
        self.name: str | None = handle.name
        self._handle = handle
        self._offset = offset

    def size(self) -> int:
        """Return the current number of bytes."""
        return max(0, self._handle.open().size() - self._offset)

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return `nbytes` from `offset`, fewer only at the end of the file."""
        return self._handle.open().read_at(self._offset + offset, nbytes)


class File:
    """A Benzina mp4, in a file of its own or within another; Benzina's class.

    Parameters
    ----------
    disk_file : str, PathLike or binary file
        A path is opened by `open`, by entering the context manager, or on use; a file object is
        read at once.
    offset : int
        Offset of the mp4 in the file.

    Raises
    ------
    FormatError, UnsupportedError
        The file has no mp4 there, or its boxes are damaged.
    OSError
        The file cannot be read.

    Notes
    -----
    Can be pickled if it was opened by path.
    """

    def __init__(self, disk_file: Any, offset: int = 0) -> None:
        self._handle = disk_file if isinstance(disk_file, _Handle) else _Handle(disk_file)
        self._offset = offset
        self._nbytes: int | None = None
        self._position = 0
        self._movie: Movie | None = None
        if not self.closed:
            self.open()

    def __reduce__(self) -> tuple[Any, ...]:
        return _subfile, (self._handle, self._offset, self._nbytes)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._handle.source is None

    @property
    def name(self) -> str | None:
        """The path."""
        return self._handle.name

    path = name

    @property
    def offset(self) -> int:
        """Offset of the mp4 in the file."""
        return self._offset

    @property
    def movie(self) -> Movie:
        """The box structure of the mp4, relative to its first byte; opens the file if necessary."""
        if self._movie is None:
            self._movie = self._read_movie()
        return self._movie

    def open(self) -> None:
        """Open the file and read the box structure, unless this has been done."""
        self._handle.open()
        self.movie  # noqa: B018 - reads it

    def _read_movie(self) -> Movie:
        part = _Part(self._handle, self._offset)
        nbytes = part.size()
        with errors_at(self.name):
            if self._nbytes is not None:
                return unpack_movie(Window(part.read_at), min(self._nbytes, nbytes))
            if not self._offset:
                return unpack_movie(Window(part.read_at), nbytes)
            # Inside another file, other data may follow the mp4.
            for box in children(Window(part.read_at), 0, nbytes, {b"moov"}, to_end=True):
                return unpack_movie(Window(part.read_at), box.end)
            raise FormatError(f"no box 'moov' after offset {self._offset}")

    def close(self) -> None:
        """Close a file that was opened by path, for all objects that share it."""
        self._handle.close()

    def seek(self, offset: int) -> None:
        """Set the position of the next `read`, from the first byte of the file."""
        self._position = offset

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer at the end of the file."""
        source = self._handle.open()
        left = max(0, source.size() - self._position)
        data = bytes(source.read_at(self._position, min(size, left) if size >= 0 else left))
        self._position += len(data)
        return data

    def trak(self, label: str | bytes) -> Trak | None:
        """Return label and shape of a track; None if the file does not have it."""
        table = self.movie.tracks.get(_text(label))
        if table is None:
            return None
        return Trak(table.name.encode(), (table.header.width >> 16, table.header.height >> 16))

    def subfile(self, offset: int) -> "File":
        """Return the mp4 that begins at an offset of this file."""
        return File(self._handle, offset)

    def stored_track(self, label: str | bytes) -> DatasetTrack:
        """Return a track; its positions are relative to the first byte of the mp4."""
        table = self.movie.tracks.get(_text(label))
        if table is None:
            raise NotFoundError(
                f"no track {_text(label)!r:.80}; the file has "
                f"{', '.join(self.movie.tracks) or 'none'}"
            ).at(path=self.name)
        part = _Part(self._handle, self._offset)
        nbytes = part.size() if self._nbytes is None else self._nbytes
        return DatasetTrack(part, nbytes, table)


def _subfile(handle: _Handle, offset: int, nbytes: int | None) -> File:
    """Return the mp4 at an offset, with its size if that is known."""
    if nbytes is None:
        return File(handle, offset)
    file = File.__new__(File)
    file._handle, file._offset, file._nbytes = handle, offset, nbytes
    file._position, file._movie = 0, None
    return file


def _text(label: str | bytes) -> str:
    text = label if isinstance(label, str) else unpack_text(label)
    return text.removesuffix("\0")


class Track:
    """A track of a file; Benzina's class.

    Parameters
    ----------
    f : File, str or PathLike
        A path is opened as in `File`.
    label : str or bytes
        Name of the track, such as ``"bzna_input"``.

    Raises
    ------
    NotFoundError
        The file does not have the track; raised on first use, or at once for an open file.
    FormatError, OSError
        As for `File`.
    """

    def __init__(self, f: "File | Path", label: str | bytes) -> None:
        self._owns_file = not isinstance(f, File)
        self._file = f if isinstance(f, File) else File(f)
        self._label = label
        self._known: DatasetTrack | None = None
        if not self._file.closed:
            self.open()

    def __reduce__(self) -> tuple[Any, ...]:
        where = self._file._handle.where if self._owns_file else self._file
        return Track, (where, self._label)

    @property
    def stored(self) -> DatasetTrack:
        """The track of our reader; positions are relative to the first byte of the mp4."""
        if self._known is None:
            self._known = self._file.stored_track(self._label)
        return self._known

    def __len__(self) -> int:
        return len(self.stored)

    @overload
    def __getitem__(self, index: int) -> "Sample": ...
    @overload
    def __getitem__(self, index: slice) -> "list[Sample]": ...
    def __getitem__(self, index: int | slice) -> "Sample | list[Sample]":
        """Return a sample, or a list of them for a slice; nothing is read yet.

        Raises
        ------
        IndexError
            The index is out of range.
        """
        if isinstance(index, slice):
            return [Sample(self, each) for each in range(*index.indices(len(self)))]
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of a track of {len(self)}")
        return Sample(self, number % len(self))

    def __iter__(self) -> Iterator["Sample"]:
        return (Sample(self, index) for index in range(len(self)))

    def __enter__(self) -> Self:
        if self._owns_file:
            self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._owns_file:
            self.close()

    def open(self) -> None:
        """Open the file and find the track."""
        self._file.open()
        self.stored  # noqa: B018 - finds it

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def file(self) -> File:
        """The file."""
        return self._file

    @property
    def label(self) -> str | bytes:
        """The name, as passed."""
        return self._label

    @property
    def shape(self) -> tuple[int, int]:
        """(W, H), the integer parts of the numbers in the track header."""
        header = self.stored.table.header
        return header.width >> 16, header.height >> 16

    def sample_location(self, index: int) -> tuple[int, int]:
        """Return absolute offset and size of a sample in bytes.

        Raises
        ------
        IndexError
            The index is out of range.
        FormatError
            The tables of the track contradict each other.
        """
        offset, nbytes = self.stored[index]
        return self._file.offset + offset, nbytes

    def sample_bytes(self, index: int) -> bytes:
        """Return the bytes of a sample.

        Raises
        ------
        IndexError
            The index is out of range.
        TruncatedError, FormatError
            The file ends before the sample does; the tables contradict each other.
        """
        return self.stored.read(index)

    def sample_as_file(self, index: int) -> File:
        """Return a sample as a file; nothing is read yet."""
        offset, nbytes = self.sample_location(index)
        return _subfile(self._file._handle, offset, nbytes)

    def video_configuration_location(self) -> tuple[int, int] | None:
        """Return absolute offset and size of the decoder configuration in bytes.

        This is the payload of the box ``hvcC``, ``avcC`` or ``av1C`` in the first sample entry;
        None if the entry has none of these.
        """
        table = self.stored.table
        if not table.config_kind:
            return None
        return self._file.offset + table.config.offset, table.config.nbytes


class Sample:
    """A sample of a track; Benzina's class."""

    def __init__(self, track: Track, index: int) -> None:
        self._track = track
        self._index = index

    def __bytes__(self) -> bytes:
        return self._track.sample_bytes(self._index)

    @property
    def value(self) -> bytes:
        """The bytes of the sample; each access reads them."""
        return bytes(self)

    @property
    def location(self) -> tuple[int, int]:
        """Absolute offset and size in bytes."""
        return self._track.sample_location(self._index)

    def as_file(self) -> File:
        """Return the sample as a file; a sample of ``bzna_input`` is an mp4 of its own."""
        return self._track.sample_as_file(self._index)
