"""Clips of frames: the frame store, and `open` for every other source of frames."""

from ..filetypes.open import create_frames as create
from ..filetypes.open import open_frames as open  # noqa: A004
from ..integrations.cluster import map_clips
from . import listing
from .ingest.ingest import IngestReport, ingest
from .protocol import Clip, FrameSource
from .store.clip import StoreClip
from .store.framestore import FrameStore
from .store.manystores import ManyStores

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
    """List the public names, without the submodules."""
    # `sampler` is public, but imported on request: it is listed once it is there.
    return sorted(
        {*__all__, *({"sampler"} & globals().keys())}
        | {name for name in globals() if name.startswith("__")}
    )
