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

from . import exceptions
from .parallel.imports import importing
from .version import __version__

if TYPE_CHECKING:
    from . import abstract_io as abstract_io
    from . import args, benzina, frames, gulp, vrs
    from . import defaults as defaults
    from . import file_io as file_io
    from . import integrations as integrations
    from . import numpy_io as numpy_io
    from .archive.reader import Archive
    from .archive.save import save, savez
    from .array.array import Array
    from .array.concat import ManyArrays, open_many
    from .array.parts import PartsJob, parts
    from .array.writer import Writer
    from .damage.report import Damage, Report
    from .filetypes.compact import compact
    from .filetypes.convert import convert
    from .filetypes.copyjob import Conversion
    from .filetypes.open import load, open  # noqa: A004
    from .filetypes.recover import recover
    from .filetypes.verify import verify
    from .filetypes.versions import Version, versions
    from .integrations.kerchunk import kerchunk_references
    from .integrations.zarr import as_zarr as as_zarr
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
    from .original.args import BloscArgs, BloscpackArgs, MetadataArgs

    append: Any  # a module that can be called

__all__ = [
    "Archive",
    "Array",
    "BloscArgs",
    "BloscpackArgs",
    "Conversion",
    "Damage",
    "ManyArrays",
    "MetadataArgs",
    "PartsJob",
    "Report",
    "Version",
    "Writer",
    "__version__",
    "append",
    "args",
    "benzina",
    "compact",
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
    "savez",
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
    "versions",
    "vrs",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: a program then loads only the modules that it needs."""
    modules = {"append", "args", "benzina", "frames", "gulp", "integrations", "vrs"}
    # Attributes of the package after `import bloscpack`, as in 0.16.
    modules |= {"abstract_io", "defaults", "file_io", "numpy_io"}
    homes = {
        "archive.reader": ("Archive",),
        "archive.save": ("save", "savez"),
        "array.array": ("Array",),
        "array.concat": ("ManyArrays", "open_many"),
        "array.parts": ("PartsJob", "parts"),
        "array.writer": ("Writer",),
        "damage.report": ("Damage", "Report"),
        "filetypes.compact": ("compact",),
        "filetypes.convert": ("convert",),
        "filetypes.copyjob": ("Conversion",),
        "filetypes.open": ("load", "open"),
        "filetypes.recover": ("recover",),
        "filetypes.verify": ("verify",),
        "filetypes.versions": ("Version", "versions"),
        "integrations.kerchunk": ("kerchunk_references",),
        "integrations.zarr": ("as_zarr",),  # not in __all__, as zarr may be missing
        "original.args": ("BloscArgs", "BloscpackArgs", "MetadataArgs"),
        "original.api": [each for each in __all__ if each.startswith(("pack_", "unpack_"))],
    }
    module = name if name in modules else next((m for m in homes if name in homes[m]), None)
    if module is None:
        known = {
            **dict.fromkeys(("File", "memmap", "open_array", "open_group", "read"), "open"),
            **dict.fromkeys(("array", "create_array", "create_dataset", "dump", "write"), "save"),
            **dict.fromkeys(("create", "empty", "full", "zeros"), "Writer"),
            "savez_compressed": "savez",
        }
        advice = f": use bloscpack.{known[name]}" if name in known else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")
    # A fork waits for `importing`, so that the child does not inherit the lock of a half-imported
    # module.
    with importing:
        found = importlib.import_module(f".{module}", __name__)
        value = found if module == name else getattr(found, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, without the modules that define them."""
    names = {*__all__, "abstract_io", "defaults", "file_io", "integrations", "numpy_io"}
    if find_spec("zarr") is not None:  # `help` gets the value of every name listed here
        names.add("as_zarr")
    return sorted(names | {name for name in globals() if name.startswith("__")})
