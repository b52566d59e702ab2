"""Reader plugin of napari: arrays and clips as layers that are read when they are shown.

napari finds it through the entry point ``napari.manifest``, whose manifest is ``napari.yaml``.
Nothing of napari is imported: its plugins return plain tuples.
"""

import os
from collections.abc import Callable
from typing import Any

from ..exceptions import UnsupportedError, WrongKindError
from ..notice import notice
from .pictures import Picture, check_drawable, open_pictures

__all__ = ["get_reader", "read"]

MAX_LAYERS = 64
Layer = tuple[Any, dict[str, Any], str]


def get_reader(path: str | list[str]) -> Callable[[str | list[str]], list[Layer]] | None:
    """Return `read` for a file or a folder that we read, and None for anything else.

    Parameters
    ----------
    path : str or list of str
        The file, or several that napari opens as one stack, which are refused.

    Returns
    -------
    function or None
        The function that reads it.
    """
    if not isinstance(path, str | os.PathLike):
        return None
    try:
        opened, _ = open_pictures(path)
    except (WrongKindError, FileNotFoundError):
        return None
    except (OSError, ValueError):  # `read` raises it again, and napari shows it
        return read
    opened.close()
    return read


def read(path: str | list[str]) -> list[Layer]:
    """Return one layer per array or clip; frames and slices are decoded when napari shows them.

    Parameters
    ----------
    path : str
        A file of arrays or clips, or a folder of clips.

    Returns
    -------
    list of (data, options, "image")
        Layers of an open file, which is closed when napari drops the last of them. There are at
        most 64, with a warning if the file has more.

    Raises
    ------
    BloscpackError, OSError
        The file is damaged, or has nothing that napari can draw.
    """
    opened, found = open_pictures(path)
    layers: list[Layer] = []
    refused: UnsupportedError | None = None
    for picture in found:
        if len(layers) == MAX_LAYERS:
            notice("%s: napari gets the first %d arrays or clips only", path, MAX_LAYERS)
            break
        try:
            layers.append(_layer(picture))
        except UnsupportedError as err:
            refused = err
    if not layers:
        opened.close()
        message = "it has no arrays or clips" if refused is None else str(refused)
        raise UnsupportedError(f"nothing to show: {message}").at(path=str(path))
    return layers


def _layer(picture: Picture) -> Layer:
    check_drawable(picture)
    is_rgb, data = picture.is_rgb, picture.data
    if len(data.shape) - is_rgb < 2 or 0 in data.shape:
        raise UnsupportedError(
            f"{picture.name!r:.80}: napari draws two axes or more, and the shape is {data.shape}"
        )
    options: dict[str, Any] = {
        "name": picture.name,
        "metadata": picture.meta,
        "rgb": is_rgb,
        "multiscale": False,
    }
    axes = picture.axes[:-1] if is_rgb else picture.axes
    if picture.is_clip and len(data.shape) - is_rgb == 3:
        axes = ("frame", "y", "x")
    if axes:
        options["axis_labels"] = axes
    return data, options, "image"
