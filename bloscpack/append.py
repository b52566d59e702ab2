"""Appending to a file: a function for labelled arrays, and the module of bloscpack 0.16.

``bloscpack.append(path, dataset)`` is that of `integrations.xarraychanges`; ``bloscpack.append`` is
also the module of 0.16 with three functions, which append bytes.
"""

import sys
from types import ModuleType
from typing import Any

from .original.append import _rewrite_metadata_fp as _rewrite_metadata_fp
from .original.append import _seek_to_metadata as _seek_to_metadata
from .original.append import append, append_fp, append_stream
from .parallel.imports import importing
from .types import Path

__all__ = ["append", "append_fp", "append_stream"]


class _CallableModule(ModuleType):
    def __call__(self, path: Path, data: Any, dim: str | None = None) -> None:
        """Append variables of xarray to those of a file; see ``Dataset.blp.append``."""
        with importing:  # on use: xarray is optional, and takes long to load
            from .integrations.xarraychanges import append

        append(path, data, dim)


sys.modules[__name__].__class__ = _CallableModule
