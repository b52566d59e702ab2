"""Copying clips of frames: from any source to a store, a Gulp directory, a dataset or pictures.

A VRS recording is copied as a whole, all records and tags, into a frame store and out of it again:
see recordstore/.

Frames go through the protocol of sources. JPEG and PNG images are copied as they are, arrays
losslessly; only into a Gulp directory, which holds nothing else, arrays are encoded as JPEG, and
only if a quality is given. Samples of a Benzina dataset are copied as they are to another one;
other pictures are encoded for one, without loss unless a crf is given. The new file or folder is
made under a temporary name, compared with the source frame by frame, and then gets its name; after
an error nothing is left of it.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..exceptions import FormatError
from ..storage import disk
from ..storage.journal import replacing
from ..storage.update import temporary_path
from ..storage.url import refuse_options
from .open import is_recording, open_frames

if TYPE_CHECKING:
    from ..frames.protocol import Clip, FrameSource
    from ..types import AnyArray
    from .clipcopy import Tally, Writer

Progress = Callable[[int, int], None]

_KINDS = "frames", "gulp", "vrs", "benzina", "images"
_FOLDERS = "gulp", "images"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was copied.

    Attributes
    ----------
    kind : {"frames", "gulp", "vrs", "benzina", "images"}
        Whether a frame store, a Gulp directory, a VRS recording, a Benzina dataset or a folder of
        pictures was made.
    clips, frames : int
        How many; of a VRS recording, `frames` are its records, and `clips` those of the store, or
        the streams of the recording that was made.
    images : int
        How many of the frames are JPEG or PNG images, or samples of a dataset, copied byte for
        byte.
    lossless : bool
        Whether every frame is what it was; False if some were encoded with a quality or a crf.
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
    """Copy clips of frames, or a VRS recording, to a new file or folder of another kind.

    Parameters
    ----------
    src : path or URL, sequence of these, or source of clips
        What `bloscpack.frames.open` opens, or such a source; or a folder of pictures, each file a
        clip. Several paths are frame stores, or the files of one VRS recording.
    dst : str or PathLike
        The new file or folder. It appears whole or not at all.
    to : {"frames", "gulp", "vrs", "benzina", "images"}, optional
        What to make. By default a Benzina dataset if the name of `dst` ends in ".bzna"; a Gulp
        directory of a frame store, unless the name ends in ".blp", or in ".vrs" and the store holds
        a recording; a frame store of everything else.
    verify : bool, default True
        Compare every frame and all metadata with the source before `dst` appears: images by their
        bytes, arrays by their pixels, recordings by `vrs.Recording.checksum`. Of pictures that are
        encoded with loss, only size, name and target.
    progress : callable, optional
        Called with (clips done, clips in all), of recordings records; comparing counts as much.
    quality : int, optional
        Encode clips that a Gulp directory cannot hold otherwise as JPEG of this quality, 1 to 100:
        uint8 of one or three channels. Detail is lost. Without it they are refused.
    preset : {"fast", "small"}, optional
        For arrays in a frame store, see `bloscpack.frames.create`: "fast" by default, and "small"
        for recordings.
    videos_per_chunk : int, default 100
        Clips in each pair of files of a Gulp directory.
    verbatim : bool, default False
        Of a VRS recording, keep beside all records what else is in its files, so that they come
        back byte for byte. What such a store is copied to is always the same bytes.
    crf : float, optional
        Of a Benzina dataset: encode pictures with loss, in this quality, 0 (the best) to 51 or 63;
        see `benzina.Writer`. Without it every pixel is kept, in "hevc" or "h264".
    codec : {"hevc", "h264", "av1"}, optional
        Of a Benzina dataset, "hevc" by default.
    tile : int, optional
        Of a Benzina dataset: frames are whole tiles of so many pixels square, 512 by default.
    overwrite : bool, default False
        Replace a file at `dst`. A folder is never replaced, unless it is empty.
    allow_empty : bool, default False
        Convert a source without clips, which is refused otherwise. A VRS recording may have tags
        alone.
    nthreads : int, optional
        Threads that encode and decode; as many as there are processors, at most 8, by default.
    storage_options : mapping, optional
        For a source behind a URL: what fsspec's file system for it takes.

    Returns
    -------
    Conversion
        How much was copied.

    Raises
    ------
    FileExistsError
        `dst` is there already.
    ValueError
        A Gulp directory, dataset or folder cannot hold a clip; the message names it. Or there is
        nothing to convert, or a parameter is wrong.
    WrongKindError
        The source is a file or folder of another kind; the message names the call that reads it.
    FormatError, CodecError
        The source is damaged, or what was written is not what was read.
    LockedError
        A writer has the file open that would be replaced.
    OSError
        The source cannot be read, or the destination not be written.

    Notes
    -----
    Ids and their order stay. Metadata of a Gulp item that are not just one object are kept whole
    under "gulp.meta_data", beside the fields of the first entry, and written back from there; the
    file label2idx.json is kept as the attribute "label2idx". Other attributes of a frame store, and
    the dtype and shape of clips without frames, have no place in a Gulp directory.

    In a Benzina dataset each frame is a sample, called by the "name" in the metadata of its clip,
    or the id, and a number if the clip has several; its target is "target" or "label" of the
    metadata. Other metadata have no place there. Images are turned as they say (EXIF). A clip of a
    frame store that is made of a sample has name and target in its metadata, and the splits of the
    dataset are an attribute of the store; frames are kept as decoded pixels, exactly, since a store
    keeps no coded pictures but JPEG and PNG. Of a folder of pictures, the folders at its top are
    the targets (see `benzina.pack`). In one that is made, ``samples.json`` has ids and metadata.

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

    options = {"crf": crf, "codec": codec, "tile": tile}
    coding: Any = {name: value for name, value in options.items() if value is not None}
    target = os.path.realpath(dst)
    making = _Making(target, os.fspath(dst), verify, progress, overwrite, allow_empty, nthreads)
    if to != "gulp" and is_recording(src, storage_options):
        if to == "vrs" or quality is not None:
            raise ValueError(
                "a recording goes into a frame store; vrs.copy makes another one of it"
            )
        return _store_recording(src, storage_options, making, preset, verbatim=verbatim)
    if verbatim:
        raise ValueError("verbatim is for a VRS recording that goes into a frame store")
    with ExitStack() as stack:
        source = _opened(src, stack, nthreads, storage_options)
        making.check_found(len(source), source.name)
        kind = _kind(to, source, target)
        if kind == "vrs":
            return _restore_recording(source, making)
        if kind != "gulp" and quality is not None:
            raise ValueError(
                "quality is for a Gulp directory; a frame store keeps arrays as they are, and a "
                "Benzina dataset takes crf"
            )
        if kind != "benzina" and coding:
            raise ValueError("crf, codec and tile are for a Benzina dataset")
        _check_target(kind, target, os.fspath(dst), overwrite=overwrite)
        temporary = stack.enter_context(_vanishing(temporary_path(target)))
        if kind in ("benzina", "images"):
            tally, lossless = _write_pictures(kind, source, temporary, making, coding)
        else:
            tally = Tally(progress, len(source) * (2 if verify else 1))
            writer: Writer = (
                GulpWriter(source, quality, videos_per_chunk, nthreads)
                if kind == "gulp"
                else StoreWriter(source, preset or "fast", nthreads)
            )
            writer.write(temporary, tally)
            if verify and (len(source) or kind != "gulp"):  # an empty folder opens as nothing
                with open_frames(temporary) as written:
                    _compare(source, written, writer, tally)
            lossless = writer.lossless
        with replacing(target) if kind == "frames" else ExitStack():
            disk.replace(temporary, target)
            disk.sync_folder(os.path.dirname(target))
        return Conversion(kind, len(source), tally.frames, tally.images, lossless)


def _opened(
    src: Any,
    stack: ExitStack,
    nthreads: int | None,
    storage_options: Mapping[str, Any] | None,
) -> "FrameSource":
    """Return a source, closed with the `stack` if it was opened here."""
    if hasattr(src, "keys") and hasattr(src, "read"):
        refuse_options(src, storage_options)
        source: FrameSource = src
        return source
    is_path = isinstance(src, str | os.PathLike) and not storage_options
    if is_path and os.path.isdir(src) and not _is_gulp(src):
        from .picturefolder import FolderSource

        folder = FolderSource(src)
        if len(folder):
            return folder
    return stack.enter_context(open_frames(src, nthreads=nthreads, storage_options=storage_options))


def _is_gulp(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder has files of a Gulp directory."""
    with os.scandir(folder) as entries:
        return any(entry.name.endswith((".gmeta", ".gulp")) for entry in entries)


def _write_pictures(
    kind: str, source: "FrameSource", path: str, making: "_Making", coding: Any
) -> tuple["Tally", bool]:
    """Make a dataset or a folder of pictures, compare it, and return whether it is the same."""
    from .clipcopy import Tally
    from .datasetcopy import dataset_writer
    from .picturecopy import PictureWriter

    writer = (
        dataset_writer(source, coding, making.nthreads)
        if kind == "benzina"
        else PictureWriter(source, making.nthreads)
    )
    tally = Tally(making.progress, writer.total * (2 if making.verify else 1))
    writer.write(path, tally)
    if making.verify:
        what = writer.difference(path, tally)
        if what is not None:
            raise _different(source, what)
    return tally, writer.lossless


def _kind(to: str | None, source: "FrameSource", target: str) -> str:
    """Return what to make."""
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
class _Making:
    """Where a file is to be, and how it is made."""

    target: str
    name: str
    verify: bool
    progress: Progress | None
    overwrite: bool
    allow_empty: bool
    nthreads: int | None

    def check_found(self, count: int, source: str | None) -> None:
        """Refuse a source that has nothing to convert."""
        if not count and not self.allow_empty:
            where = f"{source}: " if source else ""
            raise ValueError(
                f"{where}there are no clips to convert; --allow-empty (allow_empty=True) makes an "
                "empty copy"
            )


def _store_recording(
    src: Any,
    storage_options: Mapping[str, Any] | None,
    making: _Making,
    preset: str | None,
    *,
    verbatim: bool,
) -> Conversion:
    """Make a frame store of a recording."""
    from ..vrs.recording import open as open_recording
    from ..vrs.store import PRESET, store_recording

    _check_target("frames", making.target, making.name, overwrite=making.overwrite)
    with (
        open_recording(src, storage_options=storage_options) as recording,
        _vanishing(temporary_path(making.target)) as temporary,
    ):
        made = store_recording(
            recording,
            temporary,
            preset=preset or PRESET,
            verbatim=verbatim,
            verify=making.verify,
            nthreads=making.nthreads,
            progress=making.progress,
        )
        with replacing(making.target):
            disk.replace(temporary, making.target)
            disk.sync_folder(os.path.dirname(making.target))
        return Conversion("frames", made.clips, made.records, made.images)


def _restore_recording(source: "FrameSource", making: _Making) -> Conversion:
    """Make a recording of a frame store."""
    from ..frames.store.framestore import FrameStore
    from ..vrs.store import restore_recording
    from ..vrs.write.recordfile import chunk_path

    if not isinstance(source, FrameStore) or not _holds_recording(source):
        raise ValueError("a VRS recording is made of a frame store that was made of one")
    target = making.target
    _check_target("vrs", target, making.name, overwrite=making.overwrite)
    temporary = temporary_path(target)
    with ExitStack() as stack:

        def paths(number: int) -> str:
            return stack.enter_context(_vanishing(chunk_path(temporary, number)))

        made = restore_recording(
            source,
            paths,
            verify=making.verify,
            nthreads=making.nthreads,
            progress=making.progress,
        )
        names = [chunk_path(target, number) for number in range(len(made.paths))]
        for name in names[1:]:
            _check_target("vrs", name, name, overwrite=False)
        # The first file is what makes the others a recording.
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
    """Give a path of which nothing is left after the block."""
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
    """Check that what was written is what was read.

    Raises
    ------
    FormatError
        It is not.
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
    """Yield for each frame whether the copy has the same."""
    if isinstance(frames, list):
        images = copy.read_images(chosen) or []
        yield from (one == two for one, two in zip(frames, images, strict=False))
        return
    copied = copy.read(chosen)
    for one, two in zip(frames, copied, strict=False):
        is_alike = one.shape == two.shape and one.dtype == two.dtype
        # The bytes: NaN is not equal to NaN.
        yield is_alike and one.tobytes() == two.tobytes()


def _different(source: "FrameSource", what: str) -> FormatError:
    error = FormatError(f"{what} did not arrive as they are in the source; the copy was removed")
    error.path = source.name
    return error
