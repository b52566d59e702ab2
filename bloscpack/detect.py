"""Opening a file by what it is."""

from typing import Any

from .array import Array
from .container.reader import Verify


def open(  # noqa: A001 - the name users of h5py, zarr and gzip look for
    path: Any, mode: str = "r", *, verify: Verify = True, nthreads: int | None = None
) -> Array:
    """Open a Bloscpack file as an array that is read as it is indexed.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file. One without array metadata is an array of its bytes (uint8).
    mode : {"r"}, default "r"
        Reading.
    verify : bool or "always", default True
        Compare the checksum of each chunk once, the first time it is read; at every read
        ("always"); or never (False).
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.

    Returns
    -------
    Array
        To be closed, or used as a context manager.

    Raises
    ------
    NotBloscpackError
        The file is of another kind.
    FormatError, UnsupportedError
        It is damaged, or of an unknown version.
    OSError
        It cannot be opened.
    ValueError
        `mode` is not "r".

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.save("ramp.blp", np.arange(1000000))
    >>> with bp.open("ramp.blp") as a:
    ...     a[-3:]
    array([999997, 999998, 999999])
    """
    if mode != "r":
        raise ValueError(f"mode must be 'r', not {mode!r}")
    return Array(path, verify=verify, nthreads=nthreads)
