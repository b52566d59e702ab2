"""Reads of damaged bytes, and the faults that a judge finds in their outcomes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bloscpack.exceptions import CodecError, FormatError, UnsupportedError

READ_ERRORS = (FormatError, CodecError, UnsupportedError)
# Outcome of a read that raised a documented error. It is not None, which some reads return.
NOTHING: Any = object()


class Outcomes:
    """Base of the judges: collects the faults found in one damaged file."""

    errors: tuple[type[Exception], ...] = READ_ERRORS  # documented ones
    refused: Any = NOTHING

    def __init__(self) -> None:
        self.faults: list[str] = []

    def fault(self, what: str) -> None:
        self.faults.append(what)

    @contextmanager
    def expecting(self, what: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
        """Catch `errors`, and record any other error as a fault."""
        try:
            yield
        except errors:
            pass
        except Exception as err:
            self.fault(f"{what}: {type(err).__name__}: {str(err)[:200]}")

    def outcome(
        self, what: str, errors: tuple[type[Exception], ...], read: Callable[[], Any]
    ) -> Any:
        """Return the result of `read`, or `refused` if it raised an error."""
        with self.expecting(what, errors):
            return read()
        return self.refused

    def attempt(
        self, what: str, read: Callable[[], Any], *, allowed: tuple[type[Exception], ...] = ()
    ) -> Any:
        """Return the outcome of `read`, which may raise a documented error or one of `allowed`."""
        return self.outcome(what, (*self.errors, *allowed), read)
