"""Identity of an open file, so that it is reopened in the same state or in a later one.

A handle is pickled as the place of its file and the identity of its content. The process that
reopens it compares the identity. A file that was replaced, changed, truncated or appended to is
refused, because facts taken from the handle, such as the number of rows, may be outdated.
Refreshing a handle accepts a file that was appended to, but not one with other content.
"""

from collections.abc import Callable
from os import urandom
from struct import pack
from typing import Any, TypeVar

from xxhash import xxh3_128_digest, xxh3_128_hexdigest

from ..exceptions import BloscpackError, FileChangedError
from ..storage.protocol import ByteSource, closed_on_error
from ..storage.remote.source import path_of
from .front import HEAD_NBYTES, Verify
from .reader import Container

Handle = TypeVar("Handle", bound=Any)


def place_of(source: ByteSource, front_nbytes: int = 0) -> Any:
    """Return the place that opens `source` in another process.

    A front of up to 4 KiB is included with a URL, so that opening takes no request.

    Raises
    ------
    TypeError
        It is a file object, which another process cannot open.
    """
    place = source.place(HEAD_NBYTES if front_nbytes <= HEAD_NBYTES else 0)
    if place is None:
        raise TypeError(
            "an array read from a file object cannot be pickled or copied: open it by its path, "
            "or from its bytes"
        )
    return place


def identity_of(container: Container) -> bytes:
    """Return a digest that identifies the state of a file when it was opened.

    With a trailer, it is a digest of everything the trailer covers, and equal for all copies of the
    file; of a log, a digest of the commit that is read. Without either, size and modification time
    represent the chunks. If the storage reports a version, that is used, as the trailer may not
    have been read.
    """
    source = container.source
    version = source.identity().encode()
    commit = container.front.commit
    if commit is not None:
        return xxh3_128_digest(version + commit.pack())
    if version:
        return xxh3_128_digest(version)
    trailer = container.front.trailer
    if trailer is not None and not source.has_latency:
        return xxh3_128_digest(trailer.head_digest + trailer.pages)
    header = container.header
    fields = pack(
        "<8q",
        *source.stamp,
        header.format_version,
        header.checksum.id,
        header.typesize,
        header.chunk_size,
        header.last_chunk,
        header.nchunks,
    )
    return xxh3_128_digest(fields + container.front.stored_metadata)


def token_of(container: Container) -> tuple[str, str]:
    """Return a cache key: strings that are equal only for the same content at the same place.

    For a source without a path or URL, such as a file object, or behind a server that reports no
    version, the key is different each time.
    """
    source = container.source
    place = source.place()
    if isinstance(place, bytes):
        return "", xxh3_128_hexdigest(place)
    path = path_of(place)
    if path is None or (source.has_latency and not source.identity()):
        return "", urandom(16).hex()
    return path, identity_of(container).hex()


def reopened(
    kind: Callable[..., Handle],
    identify: Callable[[Handle], bytes],
    place: Any,
    identity: bytes,
    verify: Verify,
    nthreads: int | None,
    number: int,
    version: int,
) -> Handle:
    """Return a pickled array or archive at the version `number`; it was opened at `version`.

    Raises
    ------
    FileChangedError
        The file has changed since it was pickled, and does not keep this version.
    """
    try:
        handle = kind(place, verify=verify, nthreads=nthreads, version=number)
    except BloscpackError as err:
        # It could be opened when it was pickled, so it must have changed.
        raise _changed(err.path) from err
    handle._version = version
    if identify(handle) == identity:
        return handle
    handle.close()
    raise _changed(handle.name)


def _changed(name: str | None) -> FileChangedError:
    return FileChangedError("the file has changed since the handle was created; reopen it").at(
        path=name
    )


def refreshed(container: Container) -> Container | None:
    """Return the current state of the file of `container`; None if it has not changed.

    Raises
    ------
    FileChangedError
        It is not a later state of the same file: it has other content, or less, and is not a log.
    OSError
        The file does not exist any more.
    """
    file = container.source
    replacement = file.replacement()
    is_replaced = replacement is not None
    commit = container.front.commit
    again = replacement or (file.duplicate() if commit is None else file.reopened())
    if again is None:
        return None
    later = Container.open(again, verify=container.verify)
    with closed_on_error(later, file.name):
        is_same = (
            not is_replaced
            and later.front.commit == commit
            and later.header == container.header
            and later.front.stored_metadata == container.front.stored_metadata
        )
        if is_same:
            later.close()
            return None
        if commit is None or is_replaced:
            _check_continued(container, later, is_replaced)
    # The earlier container is not closed, as other threads may be reading from it. Its file is
    # closed with the last reference.
    return later


def _check_continued(before: Container, after: Container, is_replaced: bool) -> None:
    """Check that `after` begins with the content of `before`.

    If the file was replaced, the first, the middle and the last chunk are compared.
    """
    if not is_replaced:
        is_continued = before.front.is_continued(after.front)
    else:
        is_continued = before.front.has_start_of(after.front) and _starts_alike(before, after)
    if not is_continued:
        raise FileChangedError("the file is not the one that was opened, or holds less; reopen it")


def _starts_alike(before: Container, after: Container) -> bool:
    last = before.nchunks - 1
    if any(
        before.fetch(index).data != after.fetch(index).data
        for index in {0, last // 2}
        if index < min(last, before.front.nstable)
    ):
        return False
    content = before.read_chunk(last)
    return after.read_chunk(last)[: len(content)] == content
