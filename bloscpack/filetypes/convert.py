"""Conversion of clips between frame stores, Gulp directories, Benzina datasets and picture folders.

A VRS recording is copied into a frame store, and back, with all records and tags: see vrs/store/.

Frames are read through the protocol of sources. JPEG and PNG images are copied byte for byte, and
arrays without loss. A Gulp directory holds only JPEG, so arrays are encoded for it, if a quality is
given. Samples of a Benzina dataset are copied byte for byte to another one; other pictures are
encoded for it, without loss unless a crf is given. The new file or folder is written under a
temporary name, compared with the source frame by frame, and renamed. After an error it is removed.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..exceptions import FormatError
from ..format.filekind import RECORDING, is_gulp
from ..storage import disk
from ..storage.filelist import ListedFolder, is_pattern
from ..storage.journal import replacing
from ..storage.protocol import ByteSource
from ..storage.update import temporary_path
from ..storage.url import refuse_options
from ..types import Progress
from .identify import identify
from .open import frames_of, open_frames
from .table import FileType

if TYPE_CHECKING:
    from ..frames.protocol import Clip, FrameSource
    from ..types import AnyArray
    from .clipcopy import Tally, Writer


_KINDS = "frames", "gulp", "vrs", "benzina", "images"
_FOLDERS = "gulp", "images"


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of a conversion.

    Attributes
    ----------
    kind : {"frames", "gulp", "vrs", "benzina", "images"}
        Type of the new file or folder: frame store, Gulp directory, VRS recording, Benzina dataset
        or folder of pictures.
    clips, frames : int
        Number of clips and frames. For a VRS recording, `frames` counts its records, and `clips`
        the clips of the store, or the streams of a restored recording.
    images : int
        Frames that are JPEG or PNG images, or samples of a dataset, copied byte for byte.
    lossless : bool
        Whether every frame is unchanged; False if frames were encoded with a quality or a crf.
    """

    kind: str
    clips: int
    frames: int
    images: int
    lossless: bool = True


def convert(
    src: Any,
    dst: str | os.PathLike[str],
    *,
    to: str | None = None,
    verify: bool = True,
    progress: Progress | None = None,
    quality: int | None = None,
    preset: str | None = None,
    videos_per_chunk: int = 100,
    verbatim: bool = False,
    crf: float | None = None,
    codec: str | None = None,
    tile: int | None = None,
    overwrite: bool = False,
    allow_empty: bool = False,
    nthreads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Conversion:
    """Convert clips of frames, or a VRS recording, to a new file or folder of another type.

    Parameters
    ----------
    src : path or URL, sequence of these, or source of clips
        A source of clips, anything that `bloscpack.frames.open` opens, or a folder of pictures,
        each file a clip. Several paths are frame stores, or the files of one VRS recording.
    dst : str or PathLike
        The new file or folder. It appears only when it is complete.
    to : {"frames", "gulp", "vrs", "benzina", "images"}, optional
        Type of the copy. By default a Benzina dataset if the name of `dst` ends in ".bzna"; a VRS
        recording if it ends in ".vrs" and `src` is a store that holds one; for another store a
        Gulp directory, unless the name ends in ".blp"; a frame store for everything else.
    verify : bool, default True
        Compare every frame and all metadata with the source before `dst` appears: images by their
        bytes, arrays by their pixels, recordings by `vrs.Recording.checksum`. For pictures encoded
        with loss, only size, name and target are compared.
    progress : callable, optional
        Called with (clips done, clips in all), or records for recordings; comparing counts as much
        as copying.
    quality : int, optional
        JPEG quality, 1 to 100, for clips that a Gulp directory can only hold as JPEG: uint8 of one
        or three channels. Detail is lost. Without a quality such clips raise an error.
    preset : {"fast", "small"}, optional
        Compression of arrays in a frame store, see `bloscpack.frames.create`: "fast" by default,
        "small" for recordings.
    videos_per_chunk : int, default 100
        Clips in each pair of files of a Gulp directory.
    verbatim : bool, default False
        Also store the bytes of a VRS recording outside of its records, so that its files can be
        restored byte for byte. Conversions of such a store always give the same bytes.
    crf : float, optional
        Quality of lossy pictures in a Benzina dataset, from 0 (best) to 51 or 63; see
        `benzina.Writer`. Without it every pixel is kept, in "hevc" or "h264".
    codec : {"hevc", "h264", "av1"}, optional
        Codec of a Benzina dataset, "hevc" by default.
    tile : int, optional
        Edge length in pixels of the square tiles of a Benzina dataset, 512 by default. Frames are
        whole numbers of tiles.
    overwrite : bool, default False
        Replace an existing file `dst`. A folder is replaced only if it is empty.
    allow_empty : bool, default False
        Convert a source without clips, which otherwise raises an error. A VRS recording may consist
        of tags alone.
    nthreads : int, optional
        Threads that encode and decode; by default one per processor, at most 8.
    storage_options : mapping, optional
        Options of fsspec's file system, for a source behind a URL.

    Returns
    -------
    Conversion
        Type and counts of the copy.

    Raises
    ------
    FileExistsError
        The file or folder `dst` exists.
    ValueError
        A Gulp directory, dataset or folder cannot hold a clip, which the message names. Or there is
        nothing to convert, or a parameter is invalid.
    WrongKindError
        The source is of another type; the message names the function that reads it.
    FormatError, CodecError
        The source is damaged, or the copy differs from it.
    LockedError
        A writer has the file open that is to be replaced.
    OSError
        The source cannot be read, or the destination cannot be written.

    Notes
    -----
    Ids and their order do not change. Metadata of a Gulp item that are not a single object are
    stored whole under "gulp.meta_data", beside the fields of the first entry, and restored from
    there. The file label2idx.json becomes the attribute "label2idx". A Gulp directory cannot store
    other attributes of a frame store, nor the dtype and shape of clips without frames.

    In a Benzina dataset each frame is a sample. Its name is the "name" in the metadata of its clip,
    or the id, with a number if the clip has several frames. Its target is "target" or "label" of
    the metadata; other metadata are not stored. Images are rotated by their EXIF orientation. In a
    frame store made of a dataset, the metadata of each clip have its name and target, and an
    attribute of the store has the splits. Frames are stored as decoded pixels, without loss, as a
    store holds no coded pictures but JPEG and PNG. For a folder of pictures, the top folders are
    the targets (see `benzina.pack`). A folder that is written has ``samples.json`` with ids and
    metadata.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> with bp.frames.create("clips.blp") as store:
    ...     store.append("walk", np.zeros((3, 8, 8, 3), "u1"), {"label": 1})
    >>> bp.convert("clips.blp", "gulped", quality=95)
    Conversion(kind='gulp', clips=1, frames=3, images=0, lossless=False)
    >>> bp.convert("gulped", "again.blp")
    Conversion(kind='frames', clips=1, frames=3, images=3, lossless=True)
    """
    from .clipcopy import GulpWriter, StoreWriter, Tally  # on use, as Gulp directories are

    given = {"crf": crf, "codec": codec, "tile": tile}
    coding: Any = {name: value for name, value in given.items() if value is not None}
    target = os.path.realpath(dst)
    options = _Options(target, os.fspath(dst), verify, progress, overwrite, allow_empty, nthreads)
    with ExitStack() as stack:
        filetype, src = _identified(src, storage_options)
        if isinstance(src, ByteSource):
            stack.callback(src.close)
            storage_options = None  # it was opened with them
        if to != "gulp" and filetype is not None and filetype.kind is RECORDING:
            if to == "vrs" or quality is not None:
                raise ValueError(
                    "a recording is converted to a frame store; vrs.copy makes another recording "
                    "of it"
                )
            return _store_recording(src, storage_options, options, preset, verbatim=verbatim)
        if verbatim:
            raise ValueError("verbatim is for a VRS recording that is converted to a frame store")
        source = _opened(filetype, src, stack, nthreads, storage_options)
        options.check_found(len(source), source.name)
        kind = _kind(to, source, target)
        if kind == "vrs":
            return _restore_recording(source, options)
        if kind != "gulp" and quality is not None:
            raise ValueError(
                "quality is for a Gulp directory; a frame store keeps arrays unchanged, and a "
                "Benzina dataset takes crf"
            )
        if kind != "benzina" and coding:
            raise ValueError("crf, codec and tile are for a Benzina dataset")
        _check_target(kind, target, os.fspath(dst), overwrite=overwrite)
        temporary = stack.enter_context(_vanishing(temporary_path(target)))
        if kind in ("benzina", "images"):
            tally, lossless = _write_pictures(kind, source, temporary, options, coding)
        else:
            tally = Tally(progress, len(source) * (2 if verify else 1))
            writer: Writer = (
                GulpWriter(source, quality, videos_per_chunk, nthreads)
                if kind == "gulp"
                else StoreWriter(source, preset or "fast", nthreads)
            )
            writer.write(temporary, tally)
            if verify and (len(source) or kind != "gulp"):  # an empty folder has no type to open
                with open_frames(temporary) as written:
                    _compare(source, written, writer, tally)
            lossless = writer.lossless
        with replacing(target) if kind == "frames" else ExitStack():
            disk.replace(temporary, target)
            disk.sync_folder(os.path.dirname(target))
        return Conversion(kind, len(source), tally.frames, tally.images, lossless)


def _identified(src: Any, storage_options: Mapping[str, Any] | None) -> tuple[FileType | None, Any]:
    """Return the type and the open source of a file or folder; a list has the type of its first."""
    if isinstance(src, list | tuple) and src:
        filetype, first = identify(src[0], storage_options, folders=True)
        first.close()
        return filetype, src
    is_source = hasattr(src, "keys") and hasattr(src, "read")
    if is_source or isinstance(src, list | tuple) or is_pattern(src):
        return None, src
    return identify(src, storage_options, folders=True)


def _opened(
    filetype: FileType | None,
    src: Any,
    stack: ExitStack,
    nthreads: int | None,
    storage_options: Mapping[str, Any] | None,
) -> "FrameSource":
    """Return a source of clips; close it with the `stack` if it was opened here."""
    if hasattr(src, "keys") and hasattr(src, "read"):
        refuse_options(src, storage_options)
        source: FrameSource = src
        return source
    if isinstance(src, ListedFolder) and not src.has_latency and not is_gulp(src.names):
        from .picturefolder import FolderSource

        folder = FolderSource(src.name)
        if len(folder):
            return folder
    if isinstance(src, list | tuple | str | os.PathLike):
        return stack.enter_context(
            open_frames(src, nthreads=nthreads, storage_options=storage_options)
        )
    return stack.enter_context(frames_of(filetype, src, nthreads=nthreads))


def _write_pictures(
    kind: str, source: "FrameSource", path: str, options: "_Options", coding: Any
) -> tuple["Tally", bool]:
    """Write a dataset or a folder of pictures; compare it; return whether it is lossless."""
    from .clipcopy import Tally
    from .datasetcopy import dataset_writer
    from .picturecopy import PictureWriter

    writer = (
        dataset_writer(source, coding, options.nthreads)
        if kind == "benzina"
        else PictureWriter(source, options.nthreads)
    )
    tally = Tally(options.progress, writer.total * (2 if options.verify else 1))
    writer.write(path, tally)
    if options.verify:
        what = writer.difference(path, tally)
        if what is not None:
            raise _different(source, what)
    return tally, writer.lossless


def _kind(to: str | None, source: "FrameSource", target: str) -> str:
    """Return the type of the copy."""
    if to in _KINDS:
        return str(to)
    if to is not None:
        raise ValueError(f"to must be one of {', '.join(_KINDS)}, not {to!r}")
    if target.endswith(".bzna"):
        return "benzina"
    from ..frames.store.framestore import FrameStore

    if target.endswith(".vrs") and _holds_recording(source):
        return "vrs"
    if isinstance(source, FrameStore) and not target.endswith(".blp"):
        return "gulp"
    return "frames"


def _holds_recording(source: "FrameSource") -> bool:
    from ..vrs.store import is_recording_store

    return is_recording_store(source)


@dataclass(frozen=True, slots=True)
class _Options:
    """Destination of a conversion, and its options."""

    target: str
    name: str
    verify: bool
    progress: Progress | None
    overwrite: bool
    allow_empty: bool
    nthreads: int | None

    def check_found(self, count: int, source: str | None) -> None:
        """Raise if a source has nothing to convert."""
        if not count and not self.allow_empty:
            where = f"{source}: " if source else ""
            raise ValueError(
                f"{where}no clips to convert; --allow-empty (allow_empty=True) makes an empty copy"
            )


def _store_recording(
    src: Any,
    storage_options: Mapping[str, Any] | None,
    options: _Options,
    preset: str | None,
    *,
    verbatim: bool,
) -> Conversion:
    """Convert a recording to a frame store."""
    from ..vrs.recording import open as open_recording
    from ..vrs.store import PRESET, store_recording

    _check_target("frames", options.target, options.name, overwrite=options.overwrite)
    with (
        open_recording(src, storage_options=storage_options) as recording,
        _vanishing(temporary_path(options.target)) as temporary,
    ):
        made = store_recording(
            recording,
            temporary,
            preset=preset or PRESET,
            verbatim=verbatim,
            verify=options.verify,
            nthreads=options.nthreads,
            progress=options.progress,
        )
        with replacing(options.target):
            disk.replace(temporary, options.target)
            disk.sync_folder(os.path.dirname(options.target))
        return Conversion("frames", made.clips, made.records, made.images)


def _restore_recording(source: "FrameSource", options: _Options) -> Conversion:
    """Restore a recording from a frame store."""
    from ..frames.store.framestore import FrameStore
    from ..vrs.read.filesource import chunk_path
    from ..vrs.store import restore_recording

    if not isinstance(source, FrameStore) or not _holds_recording(source):
        raise ValueError('to="vrs" needs a frame store that was converted from a VRS recording')
    target = options.target
    _check_target("vrs", target, options.name, overwrite=options.overwrite)
    temporary = temporary_path(target)
    with ExitStack() as stack:

        def paths(number: int) -> str:
            return stack.enter_context(_vanishing(chunk_path(temporary, number)))

        made = restore_recording(
            source,
            paths,
            verify=options.verify,
            nthreads=options.nthreads,
            progress=options.progress,
        )
        names = [chunk_path(target, number) for number in range(len(made.paths))]
        for name in names[1:]:
            _check_target("vrs", name, name, overwrite=False)
        # Only the first file makes a recording of the others, so it is renamed last.
        for path, name in reversed(list(zip(made.paths, names, strict=True))):
            disk.replace(path, name)
        disk.sync_folder(os.path.dirname(target))
        return Conversion("vrs", made.clips, made.records, made.images)


def _check_target(kind: str, target: str, name: str, *, overwrite: bool) -> None:
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
    is_folder = os.path.isdir(target)
    if is_folder and (kind not in _FOLDERS or os.listdir(target)):
        raise FileExistsError(f"{name!r} is a folder with files in it: name another, or remove it")
    if os.path.lexists(target) and not is_folder and (kind in _FOLDERS or not overwrite):
        raise FileExistsError(f"{name!r} exists already")


@contextmanager
def _vanishing(path: str) -> Iterator[str]:
    """Yield a path; remove the file or folder there after the block."""
    try:
        yield path
    finally:
        if os.path.isdir(path):
            from shutil import rmtree  # on use: it takes milliseconds to load

            rmtree(path)
        elif os.path.lexists(path):
            disk.unlink(path)


def _compare(
    source: "FrameSource", written: "FrameSource", writer: "Writer", tally: "Tally"
) -> None:
    """Compare the copy with its source.

    Raises
    ------
    FormatError
        They differ.
    """
    if list(written.keys()) != list(source.keys()):
        raise _different(source, "the ids of the clips")
    for id_ in source:
        clip, copy = source[id_], written[id_]
        if not writer.has_meta(clip, copy):
            raise _different(source, f"clip {id_!r:.80}: the metadata")
        position = 0
        for frames in writer.expected(clip):
            chosen = slice(position, position + len(frames))
            for k, same in enumerate(_same_frames(frames, copy, chosen)):
                if not same:
                    raise _different(
                        source, f"clip {id_!r:.80}: the pixels of frame {position + k}"
                    )
            position += len(frames)
        if len(copy) != position:
            raise _different(source, f"clip {id_!r:.80}: the frames")
        tally.add_clip()


def _same_frames(frames: "AnyArray | list[bytes]", copy: "Clip", chosen: slice) -> Iterator[bool]:
    """Yield for each frame whether the copy has an equal one."""
    if isinstance(frames, list):
        images = copy.read_images(chosen) or []
        yield from (one == two for one, two in zip(frames, images, strict=False))
        return
    copied = copy.read(chosen)
    for one, two in zip(frames, copied, strict=False):
        is_alike = one.shape == two.shape and one.dtype == two.dtype
        # Compared as bytes, as NaN is not equal to NaN.
        yield is_alike and one.tobytes() == two.tobytes()


def _different(source: "FrameSource", what: str) -> FormatError:
    return FormatError(f"the copy differs from its source and was removed: {what}").at(
        path=source.name
    )
