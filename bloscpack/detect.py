"""Opening a file by what it is."""

from typing import Any

from .array import Array
from .container.reader import Verify


def open(  # noqa: A001 - the name users of h5py, zarr and gzip look for
    path: Any, mode: str = "r", *, verify: Verify = True, nthreads: int | None = None
) -> Array:
    """Open a Bloscpack file as an array that is read as it is indexed, and may be appended to.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file. One without array metadata is an array of its bytes (uint8).
    mode : {"r", "a"}, default "r"
        Reading, or reading and appending; the latter needs a path, and one handle at a time may.
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
    LockedError
        Another writer has it open (mode "a").
    OSError
        It cannot be opened.
    ValueError
        `mode` is neither, or the file is of a kind that nothing can be appended to (mode "a").

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.save("ramp.blp", np.arange(1000000))
    >>> with bp.open("ramp.blp") as a:
    ...     a[-3:]
    array([999997, 999998, 999999])
    """
    if mode not in ("r", "a"):
        raise ValueError(f"mode must be 'r' or 'a', not {mode!r}")
    return Array(path, mode, verify=verify, nthreads=nthreads)
