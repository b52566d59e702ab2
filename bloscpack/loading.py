"""A whole array from a file, in one call."""

from typing import Any, TypeVar, overload

from .array import Array
from .ndarray import AnyArray

Out = TypeVar("Out")


@overload
def load(
    path: Any,
    *,
    out: None = None,
    nthreads: int | None = None,
    on_error: str = "raise",
    fill_value: Any = 0,
) -> AnyArray: ...
@overload
def load(
    path: Any,
    *,
    out: Out,
    nthreads: int | None = None,
    on_error: str = "raise",
    fill_value: Any = 0,
) -> Out: ...
def load(
    path: Any,
    *,
    out: Any = None,
    nthreads: int | None = None,
    on_error: str = "raise",
    fill_value: Any = 0,
) -> Any:
    """Read a whole array, every chunk verified.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        A Bloscpack file. One without array metadata gives its bytes as uint8.
    out, on_error, fill_value
        As for `Array.read`.
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.

    Returns
    -------
    ndarray
        New and writable, in the order it was saved; or `out`.

    Raises
    ------
    FormatError, CodecError
        The file is damaged, or of another kind.
    ValueError, TypeError
        `out`, `on_error` or `fill_value` does not fit.
    """
    with Array(path, nthreads=nthreads) as array:
        return array.read((), out=out, on_error=on_error, fill_value=fill_value)
