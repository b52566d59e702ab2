"""A whole array from a file, in one call."""

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from .array import Array
from .layout import AnyArray

Out = TypeVar("Out")


@overload
def load(
    path: Any,
    *,
    out: None = None,
    nthreads: int | None = None,
    on_error: str = "raise",
    fill_value: Any = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> AnyArray: ...
@overload
def load(
    path: Any,
    *,
    out: Out,
    nthreads: int | None = None,
    on_error: str = "raise",
    fill_value: Any = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Out: ...
def load(
    path: Any,
    *,
    out: Any = None,
    nthreads: int | None = None,
    on_error: str = "raise",
    fill_value: Any = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Read a whole array, every chunk verified.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        A Bloscpack file, or a URL of one. One without array metadata gives its bytes as uint8.
    out, on_error, fill_value
        As for `Array.read`.
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.
    storage_options : mapping, optional
        For a URL: what fsspec's file system for it takes (keys, ``endpoint_url``, ``headers``).

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
    OSError
        It cannot be read; `RemoteError` if a server cannot be reached.
    """
    with Array(path, nthreads=nthreads, storage_options=storage_options) as array:
        return array.read((), out=out, on_error=on_error, fill_value=fill_value)
