"""Pack a folder of pictures, or an iterable of them, into a dataset with one call.

Threads read and encode the pictures, which takes nearly all of the time and releases the GIL.
Pictures are written in order, so the file does not depend on the number of threads. At most twice
as many pictures as threads are held in memory.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from ..plugin import (
    ALL_THREADS,
    BloscpackError,
    Item,
    OnBadItem,
    PictureCodec,
    PictureFolder,
    Progress,
    ProgressOption,
    as_progress,
    available_cpus,
    changed_in_rgb,
    lost_by_decoding,
    map_ordered,
    resolve_nthreads,
)
from .mp4.format import Profile
from .splits import Span
from .writer import Writer


class WriterOptions(TypedDict, total=False):
    """Options of `Writer`."""

    codec: PictureCodec
    crf: float | None
    tile: int
    thumb: bool
    lossless: bool
    profile: Profile
    preset: str | int | None
    splits: Mapping[str, Span] | str | None
    overwrite: bool
    max_pixels: int


@dataclass(frozen=True, slots=True)
class SkippedPicture:
    """A picture that was left out of the dataset.

    Attributes
    ----------
    position : int
        Its position in the source.
    name : str
        Its name or path.
    reason : str
        Why it was skipped, as one line.
    """

    position: int
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(slots=True)
class PackReport:
    """Result of `pack`.

    Attributes
    ----------
    path : object
        The dataset.
    nsamples : int
        Number of pictures in it.
    classes : list of str
        Class names of a folder; the target of a picture is the index of its class.
    skipped : list of SkippedPicture
        Pictures that were left out.
    left_out : tuple of str
        Contents of files and pictures that were packed, as short texts: other files
        of the folder, EXIF data, alpha channels.
    lossless : bool
        Whether samples have the pixels of all pictures, bit for bit.
    """

    path: Any
    nsamples: int = 0
    classes: list[str] = field(default_factory=list)
    skipped: list[SkippedPicture] = field(default_factory=list)
    left_out: tuple[str, ...] = ()
    lossless: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing was skipped."""
        return not self.skipped


def pack(
    source: Any,
    path: Any,
    *,
    on_error: OnBadItem = "raise",
    progress: ProgressOption = None,
    log: Callable[[SkippedPicture], object] | None = None,
    nthreads: int | None = None,
    allow_empty: bool = False,
    **options: Unpack[WriterOptions],
) -> PackReport:
    """Pack pictures into a new dataset.

    Parameters
    ----------
    source : str, PathLike or iterable
        A folder: all pictures in it and below, in the order of their names; each folder at its top
        is a class, and names are paths (see `media.pictureitems.PictureFolder`). Or an iterable of
        pictures, as `Writer.add` takes them, or of tuples (picture, target, name), of which target
        and name may be missing or None.
    path : str, PathLike or binary file
        Dataset to write.
    on_error : {"raise", "skip"}, optional
        Whether to stop at a picture that cannot be packed, leaving no file, or to leave it out and
        report it.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with the number of pictures done and the total, which
        is -1 if unknown.
    log : callable, optional
        Called with each `SkippedPicture` as it is skipped.
    nthreads : int, optional
        Number of threads that read and encode; by default one per processor.
    allow_empty : bool, default False
        Write a dataset without pictures if none can be packed, instead of failing.
    **options
        Options of `Writer`: codec, crf, tile, thumb, lossless, profile, preset, splits, overwrite,
        max_pixels.

    Returns
    -------
    PackReport
        Number of pictures, the classes of a folder, and each skipped picture with the reason.

    Raises
    ------
    CodecError, UnsupportedError, OSError, TypeError, ValueError
        A picture cannot be packed; the error names it. Or an option is out of range, or the file
        cannot be written.
    ValueError
        The source has no pictures, or all were skipped, and `allow_empty` is False.
    FileExistsError
        The file exists, and `overwrite` is False.
    ImportError
        PyAV or Pillow is missing.

    Notes
    -----
    If it fails or is interrupted, `path` is left as it was before.

    Examples
    --------
    >>> import bloscpack as bp
    >>> report = bp.benzina.pack("photos", "photos.bzna", crf=28)  # doctest: +SKIP
    >>> report.nsamples, report.classes  # doctest: +SKIP
    (120, ['cat', 'dog'])
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', not {on_error!r}")
    nthreads = resolve_nthreads(nthreads, ALL_THREADS, limit=available_cpus())
    report = PackReport(path)
    items = source
    if isinstance(source, str | os.PathLike):
        items = PictureFolder(source)
        report.classes = items.classes
        report.left_out = tuple(f"file {name!r:.80}" for name in items.others)
    report.lossless = options.get("lossless", False)
    with Writer(path, **options) as writer:
        _Packer(writer, report, on_error, as_progress(progress, unit="samples"), log).run(
            items, nthreads
        )
        # Raised before the writer is closed, so that no file is made.
        if not report.nsamples and not allow_empty:
            where = f"{os.fspath(source)}: " if isinstance(source, str | os.PathLike) else ""
            raise ValueError(
                f"{where}{_nothing_packed(report.skipped)}, so nothing was written; --allow-empty "
                "(allow_empty=True) makes an empty dataset"
            )
    return report


def _nothing_packed(skipped: list[SkippedPicture]) -> str:
    if not skipped:
        return "no pictures to pack"
    return f"no picture could be packed ({len(skipped)} skipped, the first: {skipped[0]})"


class _EncodedItem:
    """An item with its encoded sample, or with the error."""

    __slots__ = ("changed", "error", "item", "lost", "sample")

    def __init__(self, item: Item, sample: bytes, error: Exception | None) -> None:
        self.lost = () if error else tuple(lost_by_decoding(item.picture))
        self.changed = () if error else tuple(changed_in_rgb(item.picture))
        # The picture may be large and is not needed any more.
        is_path = isinstance(item.picture, str | os.PathLike)
        self.item = item if is_path else item._replace(picture=None)
        self.sample = sample
        self.error = error


class _Packer:
    def __init__(
        self,
        writer: Writer,
        report: PackReport,
        on_error: OnBadItem,
        progress: Progress | None,
        log: Callable[[SkippedPicture], object] | None,
    ) -> None:
        self._writer = writer
        self._report = report
        self._on_error = on_error
        self._progress = progress
        self._log = log

    def run(self, items: Iterable[Any], nthreads: int) -> None:
        """Add all items."""
        total = len(items) if isinstance(items, Sized) else -1
        for position, encoded in enumerate(map_ordered(self._encode, items, nthreads)):
            if encoded.error is None:
                _, target, name = encoded.item
                self._writer.add_encoded(encoded.sample, target, name)
                self._report.nsamples += 1
                self._report.left_out = tuple(
                    dict.fromkeys((*self._report.left_out, *encoded.lost, *encoded.changed))
                )
                self._report.lossless &= not encoded.changed
            else:
                self._skip(position, encoded.item, encoded.error)
            if self._progress is not None:
                self._progress(position + 1, total)

    def _encode(self, given: Any) -> _EncodedItem:
        """Encode an item, in any thread; errors are stored and handled in the item's turn."""
        item = given if isinstance(given, Item) else _item_of(given)
        try:
            return _EncodedItem(item, self._writer.encode(*item), None)
        except (BloscpackError, OSError, TypeError, ValueError, MemoryError) as err:
            return _EncodedItem(item, b"", err)

    def _skip(self, position: int, item: Item, err: Exception) -> None:
        name = _name_of(item, position)
        if self._on_error == "raise":
            if isinstance(err, BloscpackError):
                err.at(path=name, whole="")
            else:
                err.add_note(f"This was picture {position}, {name!r:.200}.")
            raise err
        skipped = SkippedPicture(position, name, _reason(err))
        self._report.skipped.append(skipped)
        if self._log is not None:
            self._log(skipped)


def _item_of(given: Any) -> Item:
    """Wrap a picture, or a tuple that starts with one, in an `Item`."""
    if not isinstance(given, tuple):
        return Item(given)
    if not 1 <= len(given) <= 3:
        raise ValueError(f"an item must be (picture, target, name), not {len(given)} values")
    return Item(*given)


def _name_of(item: Item, position: int) -> str:
    """Return a name of the item for messages."""
    if isinstance(item.picture, str | os.PathLike):
        return os.fspath(item.picture)
    if isinstance(item.name, bytes):
        return item.name.decode("utf-8", "backslashreplace")
    return item.name or f"picture {position}"


def _reason(err: Exception) -> str:
    """Describe an error in one line."""
    if isinstance(err, OSError) and not isinstance(err, BloscpackError) and err.strerror:
        return err.strerror
    if isinstance(err, MemoryError):
        return "not enough memory"
    return " ".join(str(err).split())
