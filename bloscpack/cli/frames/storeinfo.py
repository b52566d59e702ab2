"""Description of a frame store, for ``blpk info`` and ``blpk ls``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...storage.url import shown_name
from ..console.describe import dtype_text, shape_text
from ..console.output import double_pretty_size, encode_json, format_metadata

if TYPE_CHECKING:
    from ...frames.store.framestore import FrameStore
    from ...frames.store.summary import Summary

FORMAT_VERSION = 4
CHECKSUM = "xxh3_64"
_SHOWN_FORMATS = 10


def store_text(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of ``blpk info``."""
    yield "FrameStore:"
    for name in ("clips", "frames", "chunks"):
        yield f"    {name}: {document[f'n{name}']}"
    yield f"    nbytes: {double_pretty_size(document['nbytes'])}"
    yield f"    cbytes: {double_pretty_size(document['cbytes'])}"
    yield f"    ratio: {document['ratio']:.2f}"
    for name in ("codec", "preset", "quality", "subsampling", "checksum"):
        yield f"    {name}: {document[name]!r}"
    formats = document["formats"]
    if formats:
        yield "Kinds of frames:"
    for form in formats[:_SHOWN_FORMATS]:
        clips = "clip" if form["nclips"] == 1 else "clips"
        frames = "frame" if form["nframes"] == 1 else "frames"
        counts = f"{form['nclips']} {clips}, {form['nframes']} {frames}"
        yield f"    {form['codec']} {form['dtype']} {_frame_shape(form)}: {counts}"
    if len(formats) > _SHOWN_FORMATS:
        yield f"    and {len(formats) - _SHOWN_FORMATS} more kinds"
    if video := document["video"]:
        yield f"Video: {_video_text(video)}"
    if attrs := document["attrs"]:
        yield "Attributes:"
        yield format_metadata(attrs, len(encode_json(attrs)))


def _frame_shape(form: dict[str, Any]) -> str:
    return shape_text(form["shape"]) + (" and others" if form["varies"] else "")


def _video_text(video: dict[str, Any]) -> str:
    return (
        f"{', '.join(video['codecs'])}, groups of at most {video['gop']} frames, "
        f"{video['decoded_per_frame']:.1f} frames decoded for a random one"
    )


def store_summary(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of ``blpk info`` on a terminal."""
    from ..console.table import attrs_text, exact_size_text, summary_text

    fields = (
        ("kind", "frame store"),
        *((name, document[f"n{name}"]) for name in ("clips", "frames", "chunks")),
        ("decoded", exact_size_text(document["nbytes"])),
        ("stored", exact_size_text(document["cbytes"])),
        ("ratio", f"{document['ratio']:.2f}"),
        *((name, document[name]) for name in ("codec", "preset", "quality", "subsampling")),
        ("video", document["video"] and _video_text(document["video"])),
        ("checksum", CHECKSUM),
        ("attrs", attrs_text(document["attrs"])),
        ("format", f"version {FORMAT_VERSION}, read by bloscpack 1.0 and later, not 0.16"),
    )
    rows = [
        (
            _frame_shape(form),
            form["dtype"],
            form["codec"],
            str(form["nclips"]),
            str(form["nframes"]),
        )
        for form in document["formats"][:_SHOWN_FORMATS]
    ]
    names = ("frames of", "dtype", "codec", "clips", "frames")
    yield from summary_text(fields, names, rows, right=("clips", "frames"))
    if len(document["formats"]) > _SHOWN_FORMATS:
        yield f"and {len(document['formats']) - _SHOWN_FORMATS} more kinds"


def store_document(name: str, store: "FrameStore") -> dict[str, Any]:
    """Return the JSON fields of ``blpk info``."""
    summary, video = store.summary(), store._video_summary()
    return {
        "path": shown_name(name),
        "kind": "frames",
        **_sizes(summary, store),
        "nclips": summary.nclips,
        "nframes": summary.nframes,
        "codec": store.codec,
        "preset": store.preset,
        "quality": store.quality,
        "subsampling": store.subsampling,
        "checksum": CHECKSUM,
        "format_version": FORMAT_VERSION,
        "attrs": store.attrs,
        "formats": [
            {
                "codec": form.codec.name.lower(),
                "dtype": dtype_text(form.dtype),
                "shape": list(form.shape),
                "varies": form.varies,
                "nclips": nclips,
                "nframes": nframes,
            }
            for form, nclips, nframes in summary.formats
        ],
        "video": None if video is None else video._asdict(),
        "error": None,
    }


def store_entry(store: "FrameStore") -> dict[str, Any]:
    """Return the JSON fields of ``blpk ls``; the shape is None if frames differ in shape."""
    summary = store.summary()
    form = summary.formats[0][0] if len(summary.formats) == 1 else None
    return {
        "kind": "frames",
        "shape": None if form is None or form.varies else [summary.nframes, *form.shape],
        "dtype": None if form is None else dtype_text(form.dtype),
        **_sizes(summary, store),
        "checksum": CHECKSUM,
        "format_version": FORMAT_VERSION,
    }


def _sizes(summary: "Summary", store: "FrameStore") -> dict[str, Any]:
    return {
        "nchunks": summary.nchunks,
        "nbytes": summary.nbytes,
        "cbytes": store.cbytes,
        "ratio": summary.nbytes / store.cbytes,
    }
