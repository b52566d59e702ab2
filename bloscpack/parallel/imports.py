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
from threading import RLock
from typing import Any

importing = RLock()
"""Context of lazy imports. Never use it at module level, where import locks are already held."""

os.register_at_fork(
    before=importing.acquire,
    after_in_parent=importing.release,
    after_in_child=importing.release,
)


def import_av() -> Any:
    """Return PyAV."""
    try:
        with importing:
            import av
    except ImportError as err:
        raise ImportError(
            'videos, and images in video codecs, need PyAV: install av, or "bloscpack[video]"',
            name="av",
        ) from err
    return av


def import_pillow() -> Any:
    """Return Pillow's ``Image`` module, with the common formats loaded."""
    try:
        with importing:
            from PIL import Image

            Image.preinit()  # otherwise the first image that is opened imports them
    except ImportError as err:
        raise ImportError(
            'PNG and other images need Pillow: install it, or "bloscpack[image]"', name="PIL"
        ) from err
    return Image


def import_simplejpeg() -> Any:
    """Return simplejpeg."""
    try:
        with importing:
            import simplejpeg
    except ImportError as err:
        raise ImportError(
            'JPEG images need simplejpeg: install it, or "bloscpack[image]"', name="simplejpeg"
        ) from err
    return simplejpeg
