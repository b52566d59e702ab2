"""Base class of clips that can be looked at: as a contact sheet, a video, and in a notebook."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..parallel.imports import importing
from .indexing import IndexedClip
from .protocol import Clip, FrameSelection, frame_indices

if TYPE_CHECKING:
    from ..display.contactsheet import Sheet


class ShownClip(IndexedClip):
    """Methods of clips that show their frames; see `frames.protocol.Clip` for the others."""

    __slots__ = ()

    def sheet(
        self: Any,
        selection: FrameSelection = None,
        *,
        columns: int | None = None,
        width: int | None = None,
    ) -> "Sheet":
        """Return one picture of many frames, which notebooks show.

        Parameters
        ----------
        selection : int, slice, sequence of int or mask, optional
            Frames to show; by default at most 48, evenly spread.
        columns : int, optional
            Frames per row, by default at most 8.
        width : int, optional
            Width of the picture in pixels. By default, frames are as wide as they are, but 32 to
            240 pixels.

        Returns
        -------
        Sheet
            ``sheet.pixels`` is an array, uint8 ``(H, W, 3)``, and ``sheet.save(path)`` writes a
            PNG. Frames that are not of 8 bits are scaled from their smallest to their largest
            value; ``sheet.notes`` says so.

        Raises
        ------
        ValueError
            The frames cannot be shown, or the picture would be too large.
        IndexError, TypeError
            The selection is out of range or invalid.
        FormatError, CodecError
            A frame is damaged; the message names it.

        Examples
        --------
        >>> import bloscpack as bp, numpy as np
        >>> with bp.frames.create("clips.blp") as store:
        ...     store.append("walk", np.zeros((16, 40, 60, 3), "u1"))
        >>> with bp.frames.open("clips.blp") as store:
        ...     sheet = store["walk"].sheet(slice(0, None, 4))
        >>> sheet.shape, sheet.frames, sheet.pixels.shape
        ((1, 4), [0, 4, 8, 12], (48, 260, 3))
        """
        with importing:
            from ..display.contactsheet import clip_sheet, spread

        numbers: Sequence[int] = spread(len(self))
        if selection is not None:
            numbers = frame_indices(selection, len(self)).indices.tolist()
        return clip_sheet(self, numbers, columns=columns, width=width)

    def to_mp4(
        self: Clip,
        path: str | os.PathLike[str],
        *,
        fps: float | None = None,
        crf: float = 18,
        overwrite: bool = False,
    ) -> None:
        """Write the frames as an MP4 video, H.264, to be watched.

        Parameters
        ----------
        path : str or PathLike
            The new file, which exists as a whole or not at all.
        fps : float, optional
            Frames per second; by default ``fps`` in the metadata of the clip, or 25.
        crf : float, default 18
            Quality, from 0 (best) to 51.
        overwrite : bool, default False
            Replace an existing file.

        Raises
        ------
        FileExistsError
            The file exists.
        ValueError
            The frames cannot be shown, or differ in shape.
        FormatError, CodecError
            A frame is damaged; there is no file then.
        ImportError
            PyAV is missing, which ``bloscpack[video]`` installs.

        Notes
        -----
        H.264 loses detail, and frames that are not of 8 bits are scaled as by `sheet`; then all
        frames are read twice. ``bloscpack.convert`` copies frames without loss.
        """
        with importing:
            from ..media.videowriter import save_video
        save_video(self, path, "mp4", fps=fps, crf=crf, overwrite=overwrite)

    def to_gif(
        self: Clip,
        path: str | os.PathLike[str],
        *,
        fps: float | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the frames as an animated GIF; parameters and errors as for `to_mp4`.

        Pillow writes it, which ``bloscpack[image]`` installs.
        """
        with importing:
            from ..media.videowriter import save_video
        save_video(self, path, "gif", fps=fps, overwrite=overwrite)

    def player(self) -> Any:
        """Return a widget for notebooks that plays the clip.

        It plays, steps and searches frames by mouse and keys. Each frame is read when it is shown.

        Returns
        -------
        anywidget.AnyWidget
            JupyterLab, VS Code and other notebooks show it, as long as the file is open.

        Raises
        ------
        ImportError
            anywidget is missing, which ``bloscpack[notebook]`` installs.

        Notes
        -----
        The rate is ``fps`` in the metadata of the clip, or 25. Frames that are not of 8 bits are
        scaled to the range of 8 frames, and sides of more than 1024 pixels are reduced. Errors are
        shown in the widget.
        """
        with importing:
            from ..display.widget import player
        return player(self)

    def _repr_html_(self) -> str:
        """Return a table and a contact sheet for notebooks."""
        with importing:
            from ..display.notebook import clip_card
        return clip_card(self)
