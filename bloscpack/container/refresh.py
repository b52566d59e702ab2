"""Refreshing an open file after a writer has appended to it."""

from ..exceptions import FileChangedError
from ..storage.file import FileSource
from ..storage.overlay import OverlaySource
from ..storage.protocol import closed_on_error
from ..storage.remote.prefetch import is_remote
from .live import extends
from .reader import Container


def refreshed(container: Container) -> Container | None:
    """Return the current state of the file of `container`; None if it has not changed.

    Raises
    ------
    FileChangedError
        It is not a later state of the same file: it has other content, or less.
    OSError
        The file does not exist any more.
    """
    file = container.source.base if isinstance(container.source, OverlaySource) else None
    file = container.source if file is None else file
    if is_remote(file):
        file.check_current()
    if not isinstance(file, FileSource):
        return None
    is_replaced = file.is_replaced()
    again = FileSource(file.path) if is_replaced else file.duplicate()
    again.name = file.name
    later = Container(again, verify=container.verify)
    with closed_on_error(later, file.name):
        is_same = (
            not is_replaced
            and later.header == container.header
            and later.stored_metadata == container.stored_metadata
        )
        if is_same:
            later.close()
            return None
        _check_continued(container, later, is_replaced)
    # The earlier container is not closed, as other threads may be reading from it. Its file is
    # closed with the last reference.
    return later


def _check_continued(before: Container, after: Container, is_replaced: bool) -> None:
    """Check that `after` begins with the content of `before`.

    If the file was replaced, the first, the middle and the last chunk are compared.
    """
    if not is_replaced:
        is_continued = extends(after, before)
    else:
        one, two = before.header, after.header
        is_continued = (
            one[:5] == two[:5]
            and before.chunk_size == after.chunk_size
            and before.nbytes <= after.nbytes
            and _starts_alike(before, after)
        )
    if not is_continued:
        raise FileChangedError("the file is not the one that was opened, or holds less; reopen it")


def _starts_alike(before: Container, after: Container) -> bool:
    last = before.nchunks - 1
    if any(
        before.fetch(index).data != after.fetch(index).data for index in {0, last // 2} - {last}
    ):
        return False
    content = before.read_chunk(last)
    return after.read_chunk(last)[: len(content)] == content
