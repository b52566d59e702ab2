"""Clips of frames: the frame store, and every other source of frames, opened by what it is."""

from ..detect import create_frames as create
from ..detect import open_frames as open  # noqa: A004
from . import listing
from .clip import StoreClip
from .cluster import map_clips
from .ingest import IngestReport, ingest
from .many import ManyStores
from .protocol import Clip, FrameSource
from .reader import FrameStore

__all__ = [
    "Clip",
    "FrameSource",
    "FrameStore",
    "IngestReport",
    "ManyStores",
    "StoreClip",
    "create",
    "ingest",
    "listing",
    "map_clips",
    "open",
]


def __dir__() -> list[str]:
    """List the public names, and none of the modules they are written in."""
    return sorted(
        {*__all__, *({"sampler"} & globals().keys())}
        | {name for name in globals() if name.startswith("__")}
    )
