"""Warnings about what is not an error, but should be known: data left out, a trailer ignored."""

import sys
import warnings

from .exceptions import BloscpackWarning

_PACKAGE = __name__.partition(".")[0]
# What stands between our own functions: context managers, decorators, threads.
_BETWEEN = frozenset((_PACKAGE, "concurrent", "contextlib", "functools", "threading"))


def notice(text: str, *values: object) -> None:
    """Warn with a `BloscpackWarning` that points at the line outside of this package.

    Parameters
    ----------
    text : str
        A template for the ``%`` operator.
    *values
        What to put into it.
    """
    ours = frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        if frame.f_back is None:  # a thread of ours: nobody called it
            frame = ours
            break
        frame = frame.f_back
    warnings.warn_explicit(
        BloscpackWarning(text % values),
        None,  # that of the message
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def warn_unclosed(what: str, name: str, outcome: str, source: object) -> None:
    """Warn of an object that was dropped without `close`; for its ``__del__``.

    Parameters
    ----------
    what : str
        What kind of object it was.
    name : str
        Of its file.
    outcome : str
        What became of the file.
    source : object
        The object: ``tracemalloc`` knows where it was made.
    """
    message = f"{name}: the {what} was never closed; {outcome}"
    warnings.warn(message, ResourceWarning, stacklevel=3, source=source)
