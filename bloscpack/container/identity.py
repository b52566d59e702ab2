"""Identity of an open file, so that another process opens the same state of it.

A handle is pickled as the place of its file and the identity of its content. The process that
reopens it compares the identity. A file that was replaced, changed, truncated or appended to is
refused, because facts taken from the handle, such as the number of rows, may be outdated.
"""

from os import urandom
from struct import pack

from xxhash import xxh3_128_digest, xxh3_128_hexdigest

from ..exceptions import FileChangedError
from ..storage.file import FileSource
from ..storage.memory import MemorySource
from ..storage.overlay import OverlaySource
from ..storage.protocol import ByteSource
from ..storage.remote.prefetch import is_remote
from ..storage.remote.source import RemotePlace
from .front import HEAD_NBYTES
from .reader import Container


def place_of(source: ByteSource, front_nbytes: int = 0) -> str | bytes | RemotePlace:
    """Return the path, URL or bytes that open `source` in another process.

    A front of up to 4 KiB is included with a URL, so that opening takes no request.

    Raises
    ------
    TypeError
        It is a file object, which another process cannot open.
    """
    if isinstance(source, OverlaySource):  # a file that a writer is changing
        source = source.base
    if isinstance(source, FileSource):
        return source.path
    if is_remote(source):
        return source.place(HEAD_NBYTES if front_nbytes <= HEAD_NBYTES else 0)
    if isinstance(source, MemorySource):
        return source.content()
    raise TypeError(
        "an array read from a file object cannot be pickled or copied: open it by its path, "
        "or from its bytes"
    )


def identity_of(container: Container) -> bytes:
    """Return a digest that identifies the state of a file when it was opened.

    With a trailer, it is a digest of everything the trailer covers, and equal for all copies of the
    file. Without one, size and modification time represent the chunks. Bytes in memory are pickled
    themselves and have an empty identity.
    """
    source = container.source
    stamp = (0, 0)
    if isinstance(source, FileSource):
        stamp = source.stamp
    elif is_remote(source):
        return xxh3_128_digest(f"{source.size()} {source.tag}".encode())
    elif not isinstance(source, OverlaySource):
        return b""
    trailer = container.trailer
    if trailer is not None:
        return xxh3_128_digest(trailer.head_digest + trailer.pages)
    header = container.header
    fields = pack(
        "<8q",
        *stamp,
        header.format_version,
        header.checksum.id,
        header.typesize,
        header.chunk_size,
        header.last_chunk,
        header.nchunks,
    )
    return xxh3_128_digest(fields + container.stored_metadata)


def token_of(container: Container) -> tuple[str, str]:
    """Return a cache key: strings that are equal only for the same content at the same place.

    For a source without a place, such as a file object, the key is different each time.
    """
    try:
        place = place_of(container.source)
    except TypeError:
        return "", urandom(16).hex()
    if isinstance(place, bytes):
        return "", xxh3_128_hexdigest(place)
    if isinstance(place, RemotePlace):
        place = place.url
    return place, identity_of(container).hex()


def check_identity(container: Container, identity: bytes) -> None:
    """Check that `container` has the given identity.

    Raises
    ------
    FileChangedError
        It has another one.
    """
    if identity_of(container) != identity:
        raise changed(container.name)


def changed(name: str | None) -> FileChangedError:
    """Return the error for a file that has changed."""
    return FileChangedError("the file has changed since the handle was created; reopen it").at(
        path=name
    )
