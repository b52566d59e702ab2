"""Opening a file that may turn out to be damaged, or of another kind: then it is closed again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from .exceptions import BloscpackError


class Closeable(Protocol):
    """What was opened."""

    def close(self) -> None:
        """Close it."""
        ...


@contextmanager
def closed_on_error(opened: Closeable, name: str | None = None) -> Iterator[None]:
    """Close what was just opened if the block raises; errors of ours learn the name of the file."""
    try:
        yield
    except BaseException as err:
        if isinstance(err, BloscpackError):
            err.path = err.path or name
        opened.close()
        raise
