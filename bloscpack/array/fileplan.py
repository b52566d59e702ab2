"""How an array is written to a new file: its settings, labels and attrs, or its bytes."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ..container.defaults import DEFAULT_CODEC, default_shuffle
from ..exceptions import FileChangedError, UnsupportedError
from ..format.codec import CODECS
from ..format.metadata import describes_array
from ..format.rounding import ATTRIBUTE
from ..notice import notice
from ..parallel.imports import importing
from ..storage.protocol import ByteSink
from ..storage.remote.prefetch import prefetched
from ..types import Progress
from .array import Array
from .arraylike import as_array
from .arraymetadata import statistics_type
from .attrs import check_dims, plain
from .dtype import metadata_of
from .layout import (
    AUTO,
    SAVE_DEFAULTS,
    TARGET_CHUNK_NBYTES,
    Chunks,
    SaveOptions,
    Settings,
    default_layout,
    is_fortran,
    plan_layout,
)

if TYPE_CHECKING:
    from .axislabels import Store

_LABELS = {"dims", "coords"}


def _given(options: SaveOptions) -> dict[str, Any]:
    """Return the options that a caller has given, without those that are None for the default."""
    return {k: v for k, v in options.items() if v is not None or SAVE_DEFAULTS[k] is not None}


def settings_from(options: SaveOptions, like: Array | None, shape: tuple[int, ...]) -> Settings:
    """Return options, with the settings of `like` in place of those that were not given.

    Raises
    ------
    ValueError
        The labels of `like` do not fit an array of this shape.
    FormatError, OSError
        The first chunk of `like`, which has some of its settings, cannot be read.
    """
    wanted = _given(options)
    check_dims(options.get("attrs"), shape)
    if like is None:
        return Settings(**wanted)
    found = _settings_of(like)
    if "chunks" in wanted:
        found = found._replace(access=None)
    if "keepbits" in wanted and found.attrs:
        found = found._replace(attrs={k: v for k, v in found.attrs.items() if k != ATTRIBUTE})
    if "attrs" not in wanted and shape != like.shape and (found.attrs or {}).keys() & _LABELS:
        with importing:  # on use: few programs have labels
            from .axislabels import Labels

        try:
            Labels.unpack(found.attrs or {}, shape)
        except UnsupportedError as err:
            raise ValueError(f"labels of like do not fit {shape}: {err}; give attrs") from err
    return found._replace(**wanted)


def _settings_of(array: Array) -> Settings:
    container = array.container
    metadata = container.metadata
    if not describes_array(metadata):
        metadata = {}
    codec, shuffle = array.codec, "auto"
    if container.nchunks and codec != AUTO:
        header = container.fetch(0).header
        if header.shuffle != default_shuffle(header.typesize):
            shuffle = header.shuffle.name.lower()
    return Settings(
        array.chunks if container.grid is not None else _rows_of(array),
        metadata.get("access"),
        codec if codec in (*CODECS, AUTO) else DEFAULT_CODEC,
        None,
        shuffle,
        array.checksum,
        _attrs_of(array) or None,
        metadata.get("keepbits"),
        container.stored.has_statistics,
    )


def _rows_of(array: Array) -> Chunks:
    """Return the rows of a chunk; None for the default, if a chunk has only a part of a row."""
    container = array.container
    row: Any = prod(array.shape[:-1] if array.is_fortran else array.shape[1:])
    row *= array.dtype.itemsize
    # A single chunk may be as small as the array, and must not make the chunks of a larger one so.
    is_small = container.nchunks <= 1 and container.chunk_size < TARGET_CHUNK_NBYTES
    if not array.ndim or not row or is_small or container.chunk_size % row:
        return None
    rows: int = container.chunk_size // row
    return rows or None


class FilePlan(NamedTuple):
    """How an array is written to a sink."""

    front_nbytes: int  # bytes before the first chunk
    write: Callable[..., None]  # takes a sink, nthreads and progress


def plan_file(
    value: Any, options: SaveOptions, like: Array | None = None, *, several: bool = False
) -> FilePlan:
    """Return how an array is written, with the settings of `like` or those of its own file.

    If it is one of `several`, `chunks` is not for those without dimensions, and `stats` are not for
    items that have none.
    """
    if isinstance(value, Array):
        if value.mode == "r" and like is None and not _given(options):
            return FilePlan(value.container.data_offset, partial(_copy, value))
        like = value if like is None else like
    array = as_array(value)
    if dropped := metadata_of(array.dtype):
        notice("the metadata %.80r of its dtype are left out", dropped)
    if like is None and not _given(options):
        layout = default_layout(array.dtype, array.shape, is_fortran(array))
        return FilePlan(layout.front_nbytes, partial(layout.write, array=array))
    settings = settings_from(options, like, array.shape)
    if several and settings.stats:
        settings = settings._replace(stats=statistics_type().are_of(array.dtype))
    if not array.ndim and (several or options.get("chunks") is None):
        settings = settings._replace(chunks=None, access=options.get("access"))
    layout = plan_layout((array.dtype, array.shape, is_fortran(array)), settings)
    return FilePlan(layout.front_nbytes, partial(layout.write, array=array))


def _copy(
    array: Array, sink: ByteSink, *, nthreads: int | None = None, progress: Progress | None = None
) -> None:
    """Copy the file of an array byte for byte, a log in its smallest form; verify its chunks."""
    container = array.container
    source, end = container.source, 0
    if container.front.commit is not None:
        with importing:  # on use: few files change
            from ..container.compact import write_compact

        write_compact(container, sink, progress)
        return
    # Without the check, bytes of before and after an append could be mixed.
    if not source.is_changed():
        digest_nbytes = container.header.checksum.nbytes
        for group in prefetched(source, range(container.nchunks), container.stored.extent):
            for index in group:
                chunk = container.fetch(index)
                begin, end = end, chunk.offset + len(chunk.data) + digest_nbytes
                sink.write(source.read_at(begin, end - begin))
                if progress is not None:
                    done = container.chunk_start(index) + chunk.header.nbytes
                    progress(done, container.nbytes)
        sink.write(source.read_at(end, source.size() - end))
    if source.is_changed():
        raise FileChangedError("the file was changed since it was opened; reopen it").at(
            path=source.name
        )


def _attrs_of(array: Array, store: "Store | None" = None) -> dict[str, Any]:
    """Return the attrs of an array for another file, which `store` adds coordinates to."""
    attrs: dict[str, Any] = plain(array.attrs)
    if "coords" not in attrs:
        return attrs
    with importing:  # on use: few programs have labels
        from .axislabels import opened_attrs, stored_attrs

    opened = opened_attrs(array)
    return attrs if opened == attrs else stored_attrs(opened, array.shape, store)


def without_labels(
    value: Any, options: SaveOptions, store: "Store | None" = None
) -> tuple[Any, SaveOptions]:
    """Return an array without its labels and attrs, and options with them.

    `store` stores long coordinates; see `axislabels`.
    """
    if isinstance(value, Array):
        attrs = _attrs_of(value, store)
        if attrs != value.attrs and options.get("attrs") is None:
            options = {**options, "attrs": attrs}
        return value, options
    if not getattr(value, "attrs", None) and not (
        hasattr(value, "coords") or hasattr(value, "metadata")
    ):
        return value, options
    with importing:
        from .labelled import unlabelled

    value, attrs = unlabelled(value, store)
    if attrs:
        options = {**options, "attrs": {**attrs, **(options.get("attrs") or {})}}
    return value, options
