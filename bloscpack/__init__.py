"""The small, safe, fast single file for arrays, on the Bloscpack format."""

import importlib
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    raise ImportError(
        "bloscpack runs on Linux and macOS, not on Windows: it needs locks, positional reads and "
        "durable renames, which Windows lacks; it runs in the Windows Subsystem for Linux (WSL)"
    )

from . import append, args, exceptions
from .args import BloscArgs, BloscpackArgs, MetadataArgs
from .array.array import Array, load
from .array.concat import ManyArrays, open_many
from .array.parts import PartsJob, parts
from .array.writer import Writer
from .damage.report import Damage, Report
from .filetypes.convert import Conversion, convert
from .filetypes.open import open  # noqa: A004
from .filetypes.verify import recover, verify
from .integrations.save import save
from .original.api import (
    pack_bytes_file,
    pack_bytes_to_bytes,
    pack_bytes_to_file,
    pack_file,
    pack_file_to_file,
    pack_ndarray_file,
    pack_ndarray_str,
    pack_ndarray_to_bytes,
    pack_ndarray_to_file,
    unpack_bytes_file,
    unpack_bytes_from_bytes,
    unpack_bytes_from_file,
    unpack_file,
    unpack_file_from_file,
    unpack_ndarray_file,
    unpack_ndarray_from_bytes,
    unpack_ndarray_from_file,
    unpack_ndarray_str,
)
from .version import __version__

if TYPE_CHECKING:
    from . import abstract_io as abstract_io
    from . import benzina, frames, gulp, vrs
    from . import defaults as defaults
    from . import file_io as file_io
    from . import numpy_io as numpy_io
    from .integrations.kerchunk import kerchunk_references
    from .integrations.zarr import as_zarr as as_zarr

__all__ = [
    "Array",
    "BloscArgs",
    "BloscpackArgs",
    "Conversion",
    "Damage",
    "ManyArrays",
    "MetadataArgs",
    "PartsJob",
    "Report",
    "Writer",
    "__version__",
    "append",
    "args",
    "benzina",
    "convert",
    "exceptions",
    "frames",
    "gulp",
    "kerchunk_references",
    "load",
    "open",
    "open_many",
    "pack_bytes_file",
    "pack_bytes_to_bytes",
    "pack_bytes_to_file",
    "pack_file",
    "pack_file_to_file",
    "pack_ndarray_file",
    "pack_ndarray_str",
    "pack_ndarray_to_bytes",
    "pack_ndarray_to_file",
    "parts",
    "recover",
    "save",
    "unpack_bytes_file",
    "unpack_bytes_from_bytes",
    "unpack_bytes_from_file",
    "unpack_file",
    "unpack_file_from_file",
    "unpack_ndarray_file",
    "unpack_ndarray_from_bytes",
    "unpack_ndarray_from_file",
    "unpack_ndarray_str",
    "verify",
    "vrs",
]


def __getattr__(name: str) -> Any:
    """Import on first use the parts that most programs do not need."""
    if name in ("benzina", "frames", "gulp", "vrs"):
        return importlib.import_module(f".{name}", __name__)
    # Attributes of the package after `import bloscpack`, as in 0.16.
    if name in ("abstract_io", "defaults", "file_io", "numpy_io"):
        return importlib.import_module(f".{name}", __name__)
    # `as_zarr` needs a library that may be missing, so it is not in __all__.
    if name in ("as_zarr", "kerchunk_references"):
        library = name.removeprefix("as_").removesuffix("_references")
        return getattr(importlib.import_module(f".integrations.{library}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, without the modules that define them."""
    names = {*__all__, "abstract_io", "defaults", "file_io", "numpy_io"}
    names |= {"integrations"} & globals().keys()
    if find_spec("zarr") is not None:  # `help` imports every listed name
        names.add("as_zarr")
    return sorted(names | {name for name in globals() if name.startswith("__")})
