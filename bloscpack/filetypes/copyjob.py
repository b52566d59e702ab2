"""Copying to a new file or folder: it is written under another name, compared, and renamed."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from ..exceptions import FormatError, UnsupportedError
from ..notice import notice
from ..parallel.imports import importing
from ..parallel.progressbar import ProgressBar
from ..storage import disk
from ..storage.newfile import pass_on, temporary_path
from ..storage.sink import check_absent, open_path
from ..storage.url import is_url
from ..types import Access, Codec, FramePreset, PictureCodec, Progress, Shuffle

if TYPE_CHECKING:
    from ..frames.protocol import FrameSource


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of a conversion.

    Attributes
    ----------
    kind : str
        Type of the new file or folder, as given by `to`: "array" for "v3", too.
    clips, frames : int
        Number of clips and frames. For a recording, `frames` counts its records, and `clips`
        the clips of the store, or the streams of a restored recording. An array is one clip; its
        rows are frames.
    images : int
        Frames that are JPEG or PNG images, or samples of a dataset, copied byte for byte.
    lossless : bool
        Whether every frame is unchanged; False if frames were encoded with a quality or a crf, an
        array was rounded, or a library converted the values of the source.
    left_out : tuple of str
        Parts of the source that the copy lacks, each as a short text: ``attribute 'history' of the
        file``.
    """

    kind: str
    clips: int
    frames: int
    images: int
    lossless: bool = True
    left_out: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        with importing:
            from ..display.notebook import conversion_card
        return conversion_card(self)


class CopyOptions(TypedDict, total=False):
    """Options that only some types of copies have; see `convert`.

    The rows of `TARGETS` and `FILETYPES` name those of each type.
    """

    quality: int | None
    preset: FramePreset | None
    videos_per_chunk: int
    verbatim: bool
    crf: float | None
    codec: Codec | PictureCodec | None
    tile: int | None
    chunks: int | tuple[int, ...] | str | None
    access: Access | None
    clevel: int | None
    shuffle: Shuffle | None
    keepbits: int | None
    stats: bool


COPY_DEFAULTS: CopyOptions = {"videos_per_chunk": 100, "verbatim": False, "stats": False}
"""Those of the options that are not None."""


@dataclass(frozen=True, slots=True)
class CopyJob:
    """Destination of a conversion, and its options; see `convert`."""

    target: str  # real path of the new file or folder, or the URL of a file
    name: str  # the path as it was given, for messages
    inner: str = ""  # name of the array in the new file; empty if none was given
    verify: bool = True
    progress: Progress | None = None
    # Those of `CopyOptions` that were given.
    options: Mapping[str, Any] = field(default_factory=dict)
    overwrite: bool = False
    storage_options: Mapping[str, Any] | None = None  # of a target behind a URL
    allow_empty: bool = False
    nthreads: int | None = None
    strict: bool = False
    # What the copy does not have, and whether a library converted values; shared by all jobs that
    # `replace` makes of one.
    left_out: dict[str, None] = field(default_factory=dict)
    converted: list[bool] = field(default_factory=list)
    carried: set[str] = field(default_factory=set)

    def leave_out(self, *texts: str) -> None:
        """Note what the copy does not have; each text once, unless it is carried."""
        self.left_out.update(dict.fromkeys(text for text in texts if text not in self.carried))

    def carry(self, *texts: str) -> None:
        """Note that the copy has what a reader has listed as left out."""
        self.carried.update(texts)
        for text in texts:
            self.left_out.pop(text, None)

    def note(self, source: Any) -> None:
        """Note what a reader has left out of a source, and whether its values are raw."""
        self.leave_out(*source.left_out)
        if not getattr(source, "is_raw", True):
            self.converted.append(True)

    def refuse_losses(self) -> None:
        """Raise UnsupportedError if anything was left out, and the caller wants everything."""
        if self.strict and self.left_out:
            raise UnsupportedError(
                f"strict: the copy would leave out {'; '.join(self.left_out)}"
            ).at(path=self.name)

    def ended(self, result: Conversion) -> Conversion:
        """Return the result of this job with what was left out, which is reported, too."""
        for text in self.left_out:
            notice("%s: left out: %s", self.name, text)
        return replace(
            result,
            lossless=result.lossless and not self.converted,
            left_out=tuple(self.left_out),
        )

    @property
    def where(self) -> str:
        """The path as it was given, or the URL, which may have secrets that `name` has not."""
        return self.target if is_url(self.target) else self.name

    def check_target(self, *, is_folder: bool) -> None:
        """Raise if the file or folder cannot be written."""
        has_folder = os.path.isdir(self.target)
        if is_url(self.target):
            if is_folder:
                raise UnsupportedError(
                    "a folder is not written to a URL: write a local folder and copy that there, "
                    "or choose a type of one file, such as .blp, .h5 or .zarr.zip"
                ).at(path=self.name)
        elif not os.path.isdir(parent := os.path.dirname(self.target)):
            raise FileNotFoundError(errno.ENOENT, "no such folder", parent)
        elif has_folder and (not is_folder or os.listdir(self.target)):
            raise FileExistsError(
                f"{self.name!r} is a folder with files in it: name another, or remove it"
            )
        if not is_folder:
            check_absent(self.where, self.storage_options, overwrite=self.overwrite)
        elif os.path.lexists(self.target) and not has_folder:
            raise FileExistsError(f"{self.name!r} exists already, and is not a folder")

    def check_found(self, count: int, source: str | None) -> None:
        """Raise if a source has nothing to convert."""
        if not count and not self.allow_empty:
            where = f"{source}: " if source else ""
            raise ValueError(
                f"{where}no clips to convert; --allow-empty (allow_empty=True) makes an empty copy"
            )


class Tally:
    """Counts of frames and images copied so far, with progress; comparing counts as writing."""

    def __init__(self, job: CopyJob, total: int, *, of_bytes: bool = False) -> None:
        self.frames = self.images = 0
        self._progress = job.progress
        self._total = total * (2 if job.verify else 1)
        self._done = 0
        if of_bytes and isinstance(job.progress, ProgressBar):
            job.progress.count_bytes()

    def add_frames(self, frames: int, *, is_image: bool) -> None:
        """Count frames that were written."""
        self.frames += frames
        self.images += frames if is_image else 0

    def advance(self, number: int = 1) -> None:
        """Count steps, such as clips or bytes, and report progress."""
        self._done += number
        if self._progress is not None:
            self._progress(self._done, self._total)


class CopyWriter(Protocol):
    """Writes all of a source as one type of file."""

    @property
    def total(self) -> int:
        """Number of steps of progress to write it, and again to compare it."""

    @property
    def lossless(self) -> bool:
        """Whether no frame has been encoded with loss so far."""

    def write(self, path: str, tally: Tally) -> None:
        """Write the file or folder `path`."""

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None."""


def write_copy(
    kind: str,
    source: "FrameSource",
    writer: CopyWriter,
    job: CopyJob,
    *,
    is_folder: bool = False,
) -> Conversion:
    """Copy clips; see `write_file`."""
    tally = Tally(job, writer.total)
    write_file(source, writer, job, tally, is_folder=is_folder)
    return Conversion(kind, len(source), tally.frames, tally.images, writer.lossless)


def write_file(
    source: Any, writer: CopyWriter, job: CopyJob, tally: Tally, *, is_folder: bool
) -> None:
    """Write a copy, compare it with the source, and move it to its place.

    Raises
    ------
    FormatError
        The copy differs from its source.
    """
    with _placed(job, is_folder=is_folder) as temporary:
        writer.write(temporary, tally)
        job.note(source)  # some things are found while frames are read
        what = writer.difference(temporary, tally) if job.verify else None
        if what is not None:
            raise FormatError(f"the copy differs from its source and was removed: {what}").at(
                path=getattr(source, "name", job.name), whole=""
            )


@contextmanager
def new_copy(job: CopyJob) -> Iterator[str]:
    """Yield a temporary path; the file there after the block becomes the destination."""
    job.check_target(is_folder=False)
    with _placed(job, is_folder=False) as temporary:
        yield temporary


@contextmanager
def _placed(job: CopyJob, *, is_folder: bool) -> Iterator[str]:
    if not is_folder:
        with open_path(job.where, job.storage_options, overwrite=job.overwrite) as temporary:
            yield temporary
            job.refuse_losses()
        return
    with disk.vanishing(temporary_path(job.target)) as temporary:
        yield temporary
        job.refuse_losses()
        if os.path.isdir(job.target):  # an empty one, as `check_target` has found
            with disk.closing(os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)) as fd:
                pass_on(os.stat(job.target), fd)
        disk.move(temporary, job.target, overwrite=True)  # of folders, only an empty one
        disk.sync_folder(os.path.dirname(job.target))
