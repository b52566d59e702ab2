"""Serializers of the index of a chunk: JSON text or pickle. An index is replaced as a whole."""

import os
from abc import ABC, abstractmethod
from typing import Any

from ...plugin import FileSink, committed, errors_at, json_values
from .format import check_meta_nbytes, dump_meta, load_meta
from .pickledindex import dump_pickle, load_pickle

Path = str | os.PathLike[str]


class AbstractSerializer(ABC):
    """Reads and writes the index of a chunk."""

    @abstractmethod
    def load(self, file_name: Path) -> Any:
        """Return the content of the file `file_name`."""

    @abstractmethod
    def dump(self, thing: Any, file_name: Path) -> None:
        """Write `thing` to the file `file_name`."""

    def check(self, meta_data: Any) -> None:  # noqa: B027 - those of programs need not have it
        """Raise the error that `dump` would raise for these metadata, usually a TypeError."""


class JSONSerializer(AbstractSerializer):
    """Index as JSON text, as in every standard Gulp directory."""

    def load(self, file_name: Path) -> Any:
        """Return the content of a file; objects become OrderedDicts.

        Raises
        ------
        FormatError
            The file is not JSON; a ValueError.
        """
        return _read(file_name, load_meta)

    def dump(self, thing: Any, file_name: Path) -> None:
        """Write a value; after a crash the file is the old or the new one.

        Raises
        ------
        TypeError
            `thing` is not JSON-serializable; the file is unchanged.
        """
        _replace(file_name, dump_meta(thing).encode("ascii"))

    def check(self, meta_data: Any) -> None:
        """Raise a TypeError if these metadata, or two keys as text, are not those of JSON."""
        dump_meta(json_values(meta_data, "meta_data"))


class PickleSerializer(AbstractSerializer):
    """Index as a pickle; only indices are accepted when reading."""

    def load(self, file_name: Path) -> Any:
        """Return the content of a file.

        Raises
        ------
        FormatError
            It is damaged, or builds anything but plain values and the two types of an index.
        """
        return _read(file_name, load_pickle)

    def dump(self, thing: Any, file_name: Path) -> None:
        """Write a value; after a crash the file is the old or the new one.

        Raises
        ------
        TypeError
            `thing` is more than plain values; the file is unchanged.
        """
        _replace(file_name, dump_pickle(thing))

    def check(self, meta_data: Any) -> None:
        """Raise a TypeError if these metadata are more than plain values."""
        dump_pickle(meta_data)


json_serializer = JSONSerializer()
pickle_serializer = PickleSerializer()


def folder_of(path: Path) -> str:
    """Return the directory of a data file or an index, which `bloscpack.verify` takes."""
    return os.path.dirname(os.fsdecode(path)) or os.curdir


def _read(file_name: Path, load: Any) -> Any:
    with errors_at(file_name, folder_of(file_name)), open(file_name, "rb") as stream:
        check_meta_nbytes(os.fstat(stream.fileno()).st_size)
        return load(stream.read())


def _replace(file_name: Path, data: bytes) -> None:
    """Write a file that appears whole and durable, in place of an old one."""
    with committed(FileSink(os.fsdecode(file_name))) as sink:
        sink.write(data)
