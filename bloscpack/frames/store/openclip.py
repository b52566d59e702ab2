"""Open a clip of a store as the class for its codec; code for video is imported on use."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...parallel.imports import importing
from ...storage.protocol import ByteSource
from ..protocol import Clip
from .clip import Store, StoreClip
from .format import Codec
from .rawclip import RawClip
from .segments import Index

if TYPE_CHECKING:
    from .videoclip import StoredVideo


def open_clip(store: Store, source: ByteSource, index: Index, id_: str, ordinal: int) -> StoreClip:
    """Return a clip of a store, without reading any frame."""
    codec = index.row(ordinal).format.codec
    if codec == Codec.VIDEO:
        with importing:
            from .videoclip import VideoClip
        return VideoClip(store, source, index, id_, ordinal)
    return (RawClip if codec == Codec.RAW else StoreClip)(store, source, index, id_, ordinal)


def stored_video(clip: Clip, meta: Mapping[str, Any]) -> "StoredVideo | None":
    """Return the groups of a clip of video, to be copied with `meta`; None of another clip."""
    if getattr(clip, "codec", None) != "video":  # only clips of frame stores have a codec
        return None
    with importing:
        from .videoclip import StoredVideo, VideoClip
    return StoredVideo(clip, meta) if isinstance(clip, VideoClip) else None
