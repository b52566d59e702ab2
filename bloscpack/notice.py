"""Warnings for users: data left out or filled, a trailer ignored, an object never closed."""

import sys
import warnings

from .exceptions import BloscpackWarning

_PACKAGE = __name__.partition(".")[0]
# Modules whose frames appear between our own: context managers, decorators, threads.
_BETWEEN = frozenset((_PACKAGE, "concurrent", "contextlib", "functools", "threading"))


def notice(text: str, *values: object) -> None:
    """Issue a `BloscpackWarning` that points at the caller's line outside this package.

    Parameters
    ----------
    text : str
        Message template for the ``%`` operator.
    *values
        Values of the template.
    """
    ours = frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        if frame.f_back is None:  # our own thread, without a caller outside
            frame = ours
            break
        frame = frame.f_back
    warnings.warn_explicit(
        BloscpackWarning(text % values),
        None,  # the category of the message
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def warn_unclosed(what: str, name: str, outcome: str, source: object) -> None:
    """Issue a ResourceWarning for an object dropped without `close`; called by its ``__del__``.

    Parameters
    ----------
    what : str
        Kind of the object.
    name : str
        Name of its file.
    outcome : str
        Resulting state of the file.
    source : object
        The object; ``tracemalloc`` shows where it was created.
    """
    message = f"{name}: the {what} was never closed; {outcome}"
    warnings.warn(message, ResourceWarning, stacklevel=3, source=source)
