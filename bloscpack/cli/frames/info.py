"""Description of a frame store or of one clip, for ``blpk info``."""

import argparse
from typing import Any

from ...filetypes.open import frames_of
from ...filetypes.table import FileType
from ...frames.store.format import CHECKSUM
from ...frames.store.framestore import FrameStore
from ...storage.file import Holes
from ...storage.protocol import ByteSource
from ..console.describe import dtype_text, shape_text
from ..console.description import Description
from ..console.table import attrs_text, exact_size_text
from .clips import clip_nbytes, kept_as

FORMAT_VERSION = 4
_SHOWN_FORMATS = 10
_SETTINGS = ("codec", "preset", "quality", "subsampling")


def about_clip(
    args: argparse.Namespace, filetype: FileType, source: Any, inner: str
) -> Description:
    """Describe one clip; no frame is decoded."""
    with frames_of(filetype, source, nthreads=args.nthreads) as clips:
        clip = clips[inner]
        document: dict[str, Any] = {
            "kind": "clip",
            "shape": list(clip.shape),
            "dtype": dtype_text(clip.dtype),
            "nbytes": clip_nbytes(clip),
            "kept_as": kept_as(clip),
            "attrs": clip.meta,
        }
    fields = (
        ("kind", "clip"),
        ("shape", shape_text(document["shape"])),
        ("dtype", document["dtype"]),
        ("decoded", exact_size_text(document["nbytes"])),
        ("kept as", document["kept_as"]),
        ("meta", attrs_text(document["attrs"])),
    )
    return Description(document, fields)


def about(args: argparse.Namespace, source: ByteSource) -> Description:
    """Describe a frame store, and the kinds of its frames."""
    with FrameStore(source) as store:
        document, summary, video = _document(store), store.summary(), store._video_summary()
        document["dead_nbytes"] = summary.dead
        document["freed_nbytes"] = min(Holes(source).nbytes, summary.dead) if summary.dead else 0
    fields = (
        ("kind", "frame store"),
        *((name, document[f"n{name}"]) for name in ("clips", "frames", "chunks")),
        ("decoded", exact_size_text(document["nbytes"])),
        ("stored", exact_size_text(document["cbytes"])),
        (
            "removed",
            None
            if not document["dead_nbytes"]
            else f"{exact_size_text(document['dead_nbytes'])} of clips, of which "
            f"{exact_size_text(document['freed_nbytes'])} were given back",
        ),
        ("ratio", f"{document['ratio']:.2f}"),
        *((name, document[name]) for name in _SETTINGS),
        (
            "video",
            video
            and f"{', '.join(video.codecs)}, groups of at most {video.gop} frames, "
            f"{video.decoded_per_frame:.1f} frames decoded for a random one",
        ),
        ("checksum", CHECKSUM),
        ("attrs", attrs_text(document["attrs"])),
        ("format", f"version {FORMAT_VERSION}, read by bloscpack 1.0 and later, not 0.16"),
    )
    rows = [
        (
            shape_text(form.shape) + (" and others" if form.varies else ""),
            dtype_text(form.dtype),
            form.codec.name.lower(),
            str(nclips),
            str(nframes),
        )
        for form, nclips, nframes in summary.formats[:_SHOWN_FORMATS]
    ]
    nmore = len(summary.formats) - len(rows)
    return Description(
        document,
        fields,
        ("frames of", "dtype", "codec", "clips", "frames"),
        rows,
        right=("clips", "frames"),
        more=[f"and {nmore} more kinds"] if nmore else [],
    )


def _document(store: FrameStore) -> dict[str, Any]:
    summary, video = store.summary(), store._video_summary()
    return {
        "kind": "frames",
        **sizes_of(store),
        "nclips": summary.nclips,
        "nframes": summary.nframes,
        **{name: getattr(store, name) for name in _SETTINGS},
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
    }


def sizes_of(store: FrameStore) -> dict[str, Any]:
    """Return the JSON fields of the size of a store."""
    summary = store.summary()
    return {
        "nchunks": summary.nchunks,
        "nbytes": summary.nbytes,
        "cbytes": store.cbytes,
        "ratio": summary.nbytes / store.cbytes,
    }
