"""Which file a handle is for, so that another process opens the same one and no other.

A handle travels as the place of its file and the identity of what was opened there. The one who
opens it again compares: a file that was replaced, changed, cut or appended to meanwhile is refused,
because what was learned from the handle (its shape, its number of rows) may not hold any more.
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
    """Return what opens `source` in another process: a path, a URL, or the bytes themselves.

    A front of `front_nbytes` goes with a URL if it is short, so that opening needs no request.

    Raises
    ------
    TypeError
        It is a file object, which belongs to its process.
    """
    if isinstance(source, OverlaySource):  # of a file that a writer is at
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
    """Return what tells this state of a file from others, as it was when it was opened.

    With a trailer that is the digest of all it vouches for, whenever and wherever the file was
    copied; without one, size and time of modification have to speak for the chunks. Bytes in memory
    travel themselves and need none: theirs is empty.
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
    """Return text that is the same for the same content at the same place only, for caches.

    Of what has no place, a file object or one that is appended to, it is never the same.
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
    """Check that `container` is what `identity` was taken from.

    Raises
    ------
    FileChangedError
        It is not.
    """
    if identity_of(container) != identity:
        raise changed(container.name)


def changed(name: str | None) -> FileChangedError:
    """Return the error to raise for a file that is another one by now."""
    error = FileChangedError("the file has changed since the handle was made; open it anew")
    error.path = name
    return error
