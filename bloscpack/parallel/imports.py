"""Optional libraries, imported where they are used, so that a fork meanwhile does no harm.

Python guards each module that is being imported with a lock. A child that is forked while another
thread imports has that lock, held by a thread that it does not have: its first import of the module
never ends. Hence what is imported on use is imported inside `importing`, for which forks wait.
Imports by the program itself, or by a library when it is used, are not covered.
"""

# Handlers of forks run in the reverse order of their registration, and logging has one that takes
# a lock, which libraries want while they are imported: ours has to come before it.
import logging  # noqa: F401
import os
from threading import RLock
from typing import Any

importing = RLock()
"""Context of imports on use. Never at the top of a module, where locks of imports are held."""

os.register_at_fork(
    before=importing.acquire,
    after_in_parent=importing.release,
    after_in_child=importing.release,
)


def import_av() -> Any:
    """Return PyAV.

    Raises
    ------
    ImportError
        It is missing.
    """
    try:
        with importing:
            import av
    except ImportError as err:
        raise ImportError(
            'videos, and pictures coded as theirs, need PyAV: install av, or "bloscpack[video]"',
            name="av",
        ) from err
    return av


def import_pillow() -> Any:
    """Return Pillow's module ``Image``, with the usual formats loaded.

    Raises
    ------
    ImportError
        Pillow is missing.
    """
    try:
        with importing:
            from PIL import Image

            Image.preinit()  # else the first image that is opened would import them
    except ImportError as err:
        raise ImportError(
            'PNG and other images need Pillow: install it, or "bloscpack[image]"', name="PIL"
        ) from err
    return Image


def import_simplejpeg() -> Any:
    """Return simplejpeg.

    Raises
    ------
    ImportError
        It is missing.
    """
    try:
        with importing:
            import simplejpeg
    except ImportError as err:
        raise ImportError(
            'JPEG images need simplejpeg: install it, or "bloscpack[image]"', name="simplejpeg"
        ) from err
    return simplejpeg
