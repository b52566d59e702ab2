"""Fork-safe imports of optional libraries, made on first use.

Python holds a lock on each module while it imports it. If a process forks while one of its threads
imports, the child inherits the lock but not the thread that would release it, so its own first
import of that module hangs. Lazy imports therefore run inside `importing`, and forks wait for that
lock. Imports made by the program itself, or by a library when it is used, are not covered.
"""

# Fork handlers run in reverse order of registration. The handler of `logging` takes a lock that
# libraries need while they are imported, so `logging` has to register before us.
import logging  # noqa: F401
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

importing = RLock()
"""Context of lazy imports. Never use it at module level, where import locks are already held."""

os.register_at_fork(
    before=importing.acquire,
    after_in_parent=importing.release,
    after_in_child=importing.release,
)


@contextmanager
def optional_library(package: str, extra: str, need: str = "") -> Iterator[None]:
    """Name the package to install, and the extra of ours with it, if an import in the body fails.

    `need` is what needs the library, in place of the words of Python.
    """
    try:
        yield
    except ImportError as err:
        advice = f"{err}: pip install {package} (or 'bloscpack[{extra}]')"
        if need:
            advice = f'{need}: install {package}, or "bloscpack[{extra}]"'
        raise ImportError(advice, name=err.name) from err


@contextmanager
def compiled_kernels() -> Iterator[None]:
    """Say how to build the kernels if an import of one in the body fails."""
    try:
        yield
    except ImportError as err:
        raise ImportError(
            f"a compiled kernel is missing or does not load ({err}); build it with "
            "'pip install .' and run Python in another folder, or with 'python setup.py build_ext "
            "--inplace' in a source tree"
        ) from err


def import_av() -> Any:
    """Return PyAV."""
    need = "videos, and images in video codecs, need PyAV"
    with importing, optional_library("av", "video", need):
        import av
    return av


def import_pillow() -> Any:
    """Return Pillow's ``Image`` module, with the common formats loaded."""
    with importing, optional_library("it", "image", "PNG and other images need Pillow"):
        from PIL import Image

        Image.preinit()  # otherwise the first image that is opened imports them
    return Image


def import_simplejpeg() -> Any:
    """Return simplejpeg; fast, as each image that is decoded asks for it."""
    try:
        with importing:
            import simplejpeg
    except ImportError as err:
        raise ImportError(
            'JPEG images need simplejpeg: install it, or "bloscpack[image]"', name="simplejpeg"
        ) from err
    return simplejpeg
