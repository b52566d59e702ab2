"""Calling a function for every clip on a cluster; Dask is imported on use."""

from collections.abc import Callable, Iterable
from typing import Any

from ..frames.protocol import Clip


def map_clips(
    source: Any,
    function: Callable[[Clip], Any],
    *,
    ids: Iterable[str] | None = None,
    batch: int | None = None,
    compute: bool = True,
) -> Any:
    """Call a function for every clip of a source in Dask tasks.

    Parameters, results and errors are those of `bloscpack.integrations.dask.map_clips`.

    Raises
    ------
    ImportError
        Dask is not installed.
    """
    from .dask import map_clips as run

    return run(source, function, ids=ids, batch=batch, compute=compute)
