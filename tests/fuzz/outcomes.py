"""Reads of damaged bytes, and the faults that a judge finds in their outcomes."""

from collections.abc import Callable
from typing import Any

from bloscpack.exceptions import CodecError, FormatError, UnsupportedError

READ_ERRORS = (FormatError, CodecError, UnsupportedError)
# Outcome of a read that raised a documented error. It is not None, which some reads return.
NOTHING: Any = object()


def faulty(stands_for: Any) -> Callable[..., Any]:
    """Return a function that returns a value, or raises it."""

    def call(*_: object, **__: object) -> Any:
        if isinstance(stands_for, BaseException):
            raise stands_for
        return stands_for

    return call


class Outcomes:
    """Base of the judges: collects the faults found in one damaged file."""

    errors: tuple[type[Exception], ...] = READ_ERRORS  # documented ones
    refused: Any = NOTHING

    def __init__(self) -> None:
        self.faults: list[str] = []

    def fault(self, what: str) -> None:
        self.faults.append(what)

    def outcome(
        self, what: str, errors: tuple[type[Exception], ...], read: Callable[[], Any]
    ) -> Any:
        """Return the result of `read`, or `refused` if it raised an error.

        Errors other than `errors` are recorded as faults.
        """
        try:
            return read()
        except errors:
            pass
        except Exception as err:
            self.fault(f"{what}: {type(err).__name__}: {str(err)[:200]}")
        return self.refused

    def attempt(
        self, what: str, read: Callable[[], Any], *, allowed: tuple[type[Exception], ...] = ()
    ) -> Any:
        """Return the outcome of `read`, which may raise a documented error or one of `allowed`."""
        return self.outcome(what, (*self.errors, *allowed), read)
