"""PyAV as its versions differ: rational numbers, options, errors and side effects.

Whatever reads or writes videos gets these from here, so that a new version of PyAV is a change of
this module. `tests/media/test_pyav.py` compares it with the installed version; CI runs that with
the lowest and with the newest one.
"""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, BinaryIO

import numpy as np

from ..exceptions import FormatError, UnsupportedError
from ..format.filekind import HEAD_NBYTES, is_transport_stream
from ..parallel.imports import import_av

# FFmpeg's names of containers.
MATROSKA, MOV = "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2"
MXF, IVF, Y4M = "mxf", "ivf", "yuv4mpegpipe"
# AVFMT_NOTIMESTAMPS in avformat.h.
_NO_TIMES = 0x80
# A display matrix has 16.16 fixed point numbers: ISO/IEC 14496-12, tkhd.
_MATRIX_NBYTES = 9 * 4


def is_available() -> bool:
    """Return whether PyAV is installed, so that videos can be read."""
    try:
        import_av()
    except ImportError:
        return False
    return True


def exact(number: Any) -> Fraction:
    """Return a rational number of PyAV, or 0 where it is not known.

    Until PyAV 18 it is a `Fraction` or None, since then an `AVRational`, whose denominator may be
    0 and whose own arithmetic rounds.
    """
    return Fraction(number.numerator, number.denominator) if number else Fraction(0)


def frame_rate_of(stream: Any) -> Fraction:
    """Return the average frames per second of a video stream, or 0 where they are not known."""
    if not has_times(stream):
        return exact(stream.codec_context.framerate)
    return exact(stream.average_rate) or exact(stream.guessed_rate)


def has_times(stream: Any) -> bool:
    """Return whether a file stores times; FFmpeg makes some up for a stream without a container."""
    return not int(stream.container.format.flags) & _NO_TIMES


def open_container(file: BinaryIO, name: str, nbytes: int) -> Any:
    """Open a video in the first bytes of a file object, as PyAV could take a name for a URL.

    Raises
    ------
    FormatError
        It is not a video.
    """
    av = import_av()
    # A playlist may name other files and addresses. Do not open any of them.
    # As `options`, it would be set for each stream, too: before version 17, PyAV then crashes on
    # formats whose streams are found while they are read, such as MPEG program streams.
    options = {"protocol_whitelist": "none"}
    # FFmpeg recognises this format in long files only.
    file.seek(0)
    form = "mpegts" if is_transport_stream(file.read(HEAD_NBYTES)) else None
    try:
        return av.open(_Reader(file, nbytes), format=form, container_options=options)
    except (av.error.FFmpegError, ValueError) as err:
        raise FormatError(f"{name}: not a video that can be read: {ffmpeg_message(err)}") from err


def best_stream(container: Any, name: str) -> Any:
    """Return the video stream of a container that FFmpeg would choose; close it if there is none.

    Raises
    ------
    FormatError
        There is none that can be decoded.
    """
    stream = container.streams.best("video")
    if stream is None or stream.codec_context is None:
        container.close()
        raise FormatError(f"{name}: no video stream that can be decoded")
    return stream


def chapters_of(container: Any) -> list[dict[str, Any]]:
    """Return the chapters of a container, which PyAV 15 does not list."""
    return getattr(container, "chapters", list)()


def display_matrix(frame: Any) -> tuple[int, ...]:
    """Return the nine numbers of the display matrix of a PyAV frame, or () without one."""
    data = frame.side_data.get("DISPLAYMATRIX")
    if data is None or len(bytes(data)) != _MATRIX_NBYTES:
        return ()
    return tuple(np.frombuffer(bytes(data), np.int32).tolist())


def side_data_names(frame: Any) -> set[str]:
    """Return the names of what a frame has beside its pixels; PyAV 19 lists them, before values."""
    return {getattr(each, "type", each).name for each in frame.side_data}


def converted(frame: Any, form: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the pixels of a PyAV frame in another format.

    Raises
    ------
    UnsupportedError
        FFmpeg has no conversion, as for some colour matrices.
    """
    try:
        found: np.ndarray[Any, np.dtype[np.uint8]] = frame.to_ndarray(format=form)
    except (import_av().error.FFmpegError, ValueError) as err:
        what = f"pixels of {frame.format.name} with the colour matrix {int(frame.colorspace)}"
        raise UnsupportedError(f"{what} cannot become {form}: {ffmpeg_message(err)}") from err
    return found


@functools.cache
def reformat_options() -> dict[str, int]:
    """Return options of `VideoReformatter.reformat` for one thread, which PyAV knows since 17."""
    reformat = import_av().video.reformatter.VideoReformatter.reformat
    return {"threads": 1} if "threads" in (reformat.__doc__ or "") else {}


@contextmanager
def restore_scheduling() -> Iterator[None]:
    """Restore the scheduling policy of the calling thread after the block.

    As root, SVT-AV1 turns the calling thread into a real-time one. That thread, and all threads and
    processes it starts later, would keep others off their processors.
    """
    if not hasattr(os, "sched_getscheduler"):
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        if os.sched_getscheduler(0) != policy:
            os.sched_setscheduler(0, policy, parameters)


def ffmpeg_message(err: Exception) -> str:
    """Return the message of a PyAV error, without its number."""
    return str(getattr(err, "strerror", None) or err)


class _Reader:
    """The first bytes of a file for PyAV. Seeking to where nothing is never raises an exception."""

    def __init__(self, file: BinaryIO, nbytes: int) -> None:
        self._file = file
        self._nbytes = nbytes
        file.seek(0)
        self.tell = file.tell

    def read(self, nbytes: int) -> bytes:
        """Return at most this number of bytes."""
        return self._file.read(max(0, min(nbytes, self._nbytes - self._file.tell())))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position and return it, or -1 if it is before the start."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._file.tell(), os.SEEK_END: self._nbytes}[whence]
        if base + offset < 0:
            return -1
        # A damaged file may name offsets that no file has.
        self._file.seek(min(base + offset, self._nbytes))
        return base + offset
