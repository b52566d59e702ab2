"""The names of ``gulpio2.utils``: images, videos, and files in folders.

Names and results are those of GulpIO2. Videos are decoded by PyAV in this process; no program is
run. File names are taken literally, including ``[``, ``?`` and ``*``.
"""

import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..plugin import (
    BloscpackError,
    BytesLike,
    CodecError,
    FormatError,
    UnsupportedError,
    as_array,
    disk,
    image,
    import_pillow,
    is_available,
    notice,
    read_video,
    text_list,
)
from .chunk.ids import existing_ids
from .gulperrors import DuplicateIdException, FrameError

__all__ = [
    "DuplicateIdException",
    "FFMPEGNotFound",
    "ImageNotFound",
    "burst_frames_to_shm",
    "burst_video_into_frames",
    "check_ffmpeg_exists",
    "find_images_in_folder",
    "get_single_video_path",
    "img_to_jpeg_bytes",
    "jpeg_bytes_to_img",
    "remove_entries_with_duplicate_ids",
    "resize_by_short_edge",
    "resize_images",
    "temp_dir_for_bursting",
]

Path = str | os.PathLike[str]
Frame = np.ndarray[Any, np.dtype[Any]]

# Read at each call, because programs set it to change the quality.
_JPEG_WRITE_QUALITY = 90

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the default of GulpIO2
# Quality of frames in temporary files: without visible loss.
_BURST_QUALITY = 100
# Conversions of Pillow's modes; other modes are left unchanged.
_CONVERSIONS = {
    "1": "L",
    "P": "RGB",
    "PA": "RGB",
    "RGBA": "RGB",
    "RGBa": "RGB",
    "RGBX": "RGB",
    "CMYK": "RGB",
    "YCbCr": "RGB",
    "LAB": "RGB",
    "HSV": "RGB",
    "LA": "L",
    "La": "L",
}


class FFMPEGNotFound(ImportError):  # noqa: N818 - GulpIO2's name
    """Videos cannot be read because PyAV is not installed."""


class ImageNotFound(OSError):  # noqa: N818 - GulpIO2's name
    """A file is missing, or is not a readable image."""


def img_to_jpeg_bytes(img: Any) -> bytes:
    """Encode a frame as GulpIO2 does: quality 90, without chroma subsampling.

    Parameters
    ----------
    img : ndarray
        uint8 or bool, ``(H, W)``, ``(H, W, 1)`` or ``(H, W, 3)``.

    Raises
    ------
    ValueError
        JPEG cannot represent such an array.
    """
    pixels = np.asarray(as_array(img))
    if pixels.ndim not in (2, 3):
        raise ValueError(f"Unsupported img shape: {pixels.shape}")
    return image.encode_jpeg(pixels, quality=_JPEG_WRITE_QUALITY)


def jpeg_bytes_to_img(jpeg_bytes: BytesLike) -> Frame:
    """Decode a JPEG to the same pixels as GulpIO2.

    Returns
    -------
    ndarray
        uint8: ``(H, W)`` for gray, ``(H, W, 3)`` for colour, ``(H, W, 4)`` for CMYK; new memory.

    Raises
    ------
    FrameError
        The bytes are not a JPEG, or it is damaged.
    """
    if bytes(jpeg_bytes[:2]) != b"\xff\xd8":
        raise FrameError(f"no JPEG: it starts with {bytes(jpeg_bytes[:4])!r}", codec="jpeg")
    try:
        return image.decode(jpeg_bytes)
    except (FormatError, CodecError, UnsupportedError) as err:
        raise FrameError(str(err.args[0]), codec="jpeg") from err


def check_ffmpeg_exists() -> bool:
    """Return whether videos can be read: whether PyAV, which bundles FFmpeg, is installed."""
    return is_available()


@contextmanager
def temp_dir_for_bursting(shm_dir_path: Path = SHARED_MEMORY) -> Iterator[str]:
    """Create a folder with a new name in `shm_dir_path`, and remove it at the end of the block.

    If the default folder does not exist, the system's folder for temporary files is used.
    """
    parent: Path | None = shm_dir_path
    if shm_dir_path == SHARED_MEMORY and not os.path.isdir(shm_dir_path):
        parent = None
    if parent is not None:
        os.makedirs(parent, exist_ok=True)
    folder = disk.make_temporary_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def burst_frames_to_shm(
    vid_path: Path, temp_burst_dir: Path, frame_rate: float | None = None
) -> None:
    """Write the frames of a video as ``0000000001.jpg`` and so on.

    Parameters
    ----------
    vid_path : str or PathLike
        The video.
    temp_burst_dir : str or PathLike
        An existing folder.
    frame_rate : float, optional
        Frames per second, selected as by ``ffmpeg -r``; every frame by default.

    Warns
    -----
    RuntimeWarning
        The video cannot be opened or is damaged; the decodable frames are written.

    Raises
    ------
    FFMPEGNotFound
        PyAV is not installed.
    OSError
        A frame cannot be written.
    """
    if not check_ffmpeg_exists():
        raise FFMPEGNotFound('videos need PyAV: install av, or "bloscpack[video]"', name="av")
    name = ""
    try:
        with read_video(vid_path, frame_rate=frame_rate or None) as video:
            for number, frame in enumerate(video, 1):
                name = os.path.join(temp_burst_dir, f"{number:010d}.jpg")
                data = image.encode_jpeg(frame, quality=_BURST_QUALITY, fast=False)
                with disk.naming(name), open(name, "wb") as file:
                    file.write(data)
        problem = video.report.describe()
    except (BloscpackError, OSError) as err:
        if name and isinstance(err, OSError) and err.filename == name:
            raise  # for example, the folder is full: not a fault of the video
        problem = str(err)
    if problem:
        warnings.warn(problem, RuntimeWarning, stacklevel=2)


def burst_video_into_frames(
    vid_path: Path, temp_burst_dir: Path, frame_rate: float | None = None
) -> list[str]:
    """Write the frames of a video as JPEG files and return their paths in order.

    See `burst_frames_to_shm`. Our own adapters decode into memory instead.
    """
    burst_frames_to_shm(vid_path, temp_burst_dir, frame_rate=frame_rate)
    return find_images_in_folder(temp_burst_dir, formats=["jpg"])


def resize_images(imgs: Iterable[Path], img_size: int = -1) -> Iterator[Frame]:
    """Yield the pixels of image files.

    Parameters
    ----------
    imgs : iterable of str or PathLike
        The files.
    img_size : int, optional
        Pixels of the shorter edge, see `resize_by_short_edge`; less than 1: no change.

    Yields
    ------
    ndarray
        uint8, ``(H, W)`` or ``(H, W, 3)``; palettes and other colour models become RGB, and alpha
        is dropped. Gray of 16 or 32 bits keeps its dtype.

    Raises
    ------
    ImageNotFound
        A file is missing or not an image.
    """
    for path in imgs:
        yield resize_by_short_edge(_open_image(path), img_size)


def resize_by_short_edge(img: Any, size: int) -> Frame:
    """Resize an image (bilinear) so that its shorter edge has `size` pixels.

    Parameters
    ----------
    img : str, PathLike, PIL.Image.Image or ndarray
        A file, a Pillow image, or pixels.
    size : int
        Pixels of the shorter edge; the other is ``int(size * ratio)``. If less than 1, no change.

    Returns
    -------
    ndarray
        See `resize_images`.

    Raises
    ------
    ImageNotFound
        The file is missing or not an image.
    """
    pillow = import_pillow()
    if isinstance(img, np.ndarray):
        if size < 1:
            return img
        img = pillow.fromarray(img)
    elif isinstance(img, str | os.PathLike):
        img = _open_image(img)
    img = _convert(img)
    if size >= 1:
        width, height = img.width, img.height
        if height < width:
            shape = int(size * (width / float(height))), size
        else:
            shape = size, int(size * (height / float(width)))
        img = img.resize(shape, pillow.Resampling.BILINEAR)
    return np.asarray(img)


def _open_image(path: Path) -> Any:
    """Return a decoded Pillow image, with its file closed."""
    pillow = import_pillow()
    try:
        opened = pillow.open(path)
        # Programs replace `open` in their tests with objects that have no `load`.
        load: Callable[[], Any] | None = getattr(opened, "load", None)
        if load is not None:
            load()
    except MemoryError:
        raise
    except Exception as err:  # Pillow's decoders raise many types
        what = err.strerror if isinstance(err, OSError) and err.strerror else str(err)
        raise ImageNotFound(f"{os.fspath(path)}: not an image that can be read: {what}") from err
    return opened


def _convert(img: Any) -> Any:
    """Convert a Pillow image to a mode that JPEG supports, if there is one."""
    mode = _CONVERSIONS.get(img.mode)
    return img if mode is None else img.convert(mode)


def remove_entries_with_duplicate_ids(
    output_directory: Path, meta_dict: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the entries whose ids are new, each id once; the number dropped is logged.

    Parameters
    ----------
    output_directory : str or PathLike
        A Gulp directory.
    meta_dict : sequence of dict
        Entries with an ``"id"``.

    Raises
    ------
    DuplicateIdException
        No entry is left.
    """
    existing = existing_ids(output_directory)
    entries = _remove_duplicates_in_metadict(meta_dict)
    new = [entry for entry in entries if str(entry["id"]) not in existing]
    if new and (count := len(entries) - len(new)):
        here = next(entry["id"] for entry in entries if str(entry["id"]) in existing)
        notice(
            "%d ids are in the gulp directory already and left out; the first is %s", count, here
        )
    if not new:
        raise DuplicateIdException(f"{output_directory}: every id is there already")
    return new


def _remove_duplicates_in_metadict(meta_dict: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    first: dict[str, dict[str, Any]] = {}
    repeated = [
        entry["id"] for entry in meta_dict if first.setdefault(str(entry["id"]), entry) is not entry
    ]
    if repeated:
        notice(
            "%d entries have the id of an earlier one and are left out; the first is %s",
            len(repeated),
            repeated[0],
        )
    return list(first.values())


def find_images_in_folder(folder: Path, formats: Sequence[str] = ("jpg",)) -> list[str]:
    """Return the sorted paths of the files with one of the suffixes, without hidden files.

    A missing folder has none.
    """
    return sorted(_find_files(folder, text_list("formats", formats)))


def get_single_video_path(folder_name: Path, format_: str = "mp4") -> str:
    """Return the path of the only video in a folder.

    Raises
    ------
    AssertionError
        The folder has no such video, or more than one.
    """
    found = _find_files(folder_name, [format_])
    if len(found) != 1:
        raise AssertionError(
            f"{os.fspath(folder_name)}: {len(found)} files end in .{format_}, not one"
        )
    return found[0]


def _find_files(folder: Path, formats: Sequence[str]) -> list[str]:
    suffixes = tuple(f".{format_}" for format_ in formats)
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        os.path.join(folder, name)
        for name in names
        if name.endswith(suffixes) and not name.startswith(".")
    ]
