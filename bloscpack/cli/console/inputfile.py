"""Inputs of a command: a file, a URL, or ``-`` for standard input."""

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ...container.reader import Container
from ...exceptions import FileNotFound, WrongKindError
from ...filetypes.identify import identify, open_member, refuse_other_folder
from ...filetypes.table import FILETYPES, FileType
from ...format.filekind import HEAD_NBYTES, kind_of, not_a_file, wrong_kind
from ...storage.file import Place
from ...storage.folder.filelist import ListedFolder, expanded, is_pattern
from ...storage.protocol import ByteSource
from ...storage.url import is_url
from .options import STDIO
from .status import UsageError


def each_input(names: Iterable[str]) -> list[Place]:
    """Return the place of each name, and for a pattern those of the files that match it, sorted.

    The name of an array or a clip behind ``::/`` belongs to each of them.
    """
    found: list[Place] = []
    for place in map(Place.of, names):
        paths = [place.path]
        if is_pattern(place.path):
            with suppress(FileNotFoundError):  # an error of this one only, when it is opened
                paths = expanded(place.path)
        found += [Place(each, place.inner) for each in paths]
    return found


def one_input(name: str) -> Place:
    """Return the place of the only file that a pattern matches, or that of another name."""
    return only(each_input([name]), name)


def only(places: Sequence[Place], name: str) -> Place:
    """Return the only one of the places that `name` stands for."""
    if len(places) > 1:
        raise UsageError(f"'{name}' matches {len(places)} files; expected one")
    return places[0]


def check_input(place: Place, what: str) -> None:
    """Check that an input exists."""
    where = place.path
    # Path("") is the working folder.
    if where != STDIO and not is_url(where) and not (where and Path(where).exists()):
        raise FileNotFound(f"{what} '{place}' does not exist!")


def readable(place: Place) -> Place:
    """Return what the API opens: the place, that of a seekable stream, or the bytes of a pipe."""
    if place.inner or is_url(place.path):
        return place
    if place.path == STDIO:
        stream = _stdin()
        return Place(stream if stream.seekable() else stream.read())
    mode = Path(place.path).stat().st_mode
    # For a folder, `open_source` raises an error that names the call that reads it.
    is_opened = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return place if is_opened else Place(Path(place.path).read_bytes())


def open_input(place: Place, kinds: Sequence[str] = ()) -> tuple[FileType, Any]:
    """Open a file or folder of any type that this package reads, or of the types named `kinds`.

    A file with damaged first bytes is recognised by its last ones. FileNotFound if it does not
    exist. WrongKindError if it is of another type, or empty.
    """
    check_input(place, "file")
    filetype, source = identify(readable(place))
    wanted = [each for each in FILETYPES if each.name in kinds]
    if not any(each.is_folder for each in wanted):
        refuse_other_folder(filetype, source)
    if filetype is None or (kinds and filetype not in wanted and not _looks_like(source, wanted)):
        raise refused(place, source, wanted)
    return filetype, source


def _looks_like(source: Any, wanted: Sequence[FileType]) -> bool:
    """Return whether a file is of a type by its first bytes, though it is opened as an array."""
    if isinstance(source, ListedFolder):
        return False
    return kind_of(source.read_at(0, HEAD_NBYTES), source.name) in [each.kind for each in wanted]


def open_item(place: Place, kinds: Sequence[str] = ()) -> tuple[FileType, Any, str]:
    """Open a file or folder of any type, and return the name of the clip in it behind ``::/``.

    An array of an archive is opened itself. Errors as for `open_input`.
    """
    inner = place.inner
    filetype, source = open_input(place.whole, kinds)
    if not inner or filetype.open_frames is not None:
        return filetype, source, inner
    member, source = open_member(filetype, source, inner)
    if member is None:
        raise refused(place, source)
    return member, source, ""


def open_whole(place: Place, done: str, kinds: Sequence[str] = ()) -> tuple[FileType, Any]:
    """Open a file or folder of any type, or an array of an archive; ValueError for a clip.

    `done` is the participle of what is to be done, for the message.
    """
    filetype, source, inner = open_item(place, kinds)
    if inner:
        source.close()
        where = place.whole.shown
        raise ValueError(f"a clip cannot be {done} alone: name its file, '{where}'")
    return filetype, source


def open_bloscpack(place: Place) -> ByteSource:
    """Open a Bloscpack file; errors as for `open_input`."""
    filetype, source = open_input(place)
    if not filetype.is_bloscpack:
        raise refused(place, source)
    return source  # type: ignore[no-any-return]


def open_container(place: Place) -> Container:
    """Open the container in a Bloscpack file; errors as for `open_input`."""
    return Container.open(open_bloscpack(place))


def refused(place: Place, source: Any, wanted: Sequence[FileType] = ()) -> WrongKindError:
    """Close a file that is not of a type, by default a Bloscpack file; return the error for it."""
    what = wanted[0].kind.name if wanted else "a Bloscpack file"
    error: WrongKindError
    with closing(source):
        if isinstance(source, ListedFolder):
            error = not_a_file(source.names)
        else:
            error = wrong_kind(source.read_at(0, HEAD_NBYTES), what, source.name)
    return error.at(path=place.shown)


@contextmanager
def open_stream(name: str) -> Iterator[IO[bytes]]:
    """Open plain content for sequential reading."""
    if name == STDIO:
        yield _stdin()
    else:
        with Path(name).open("rb") as stream:
            yield stream


def _stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")
    return sys.stdin.buffer
