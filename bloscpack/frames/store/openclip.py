"""Open a clip of a store as the class for its codec; code for video is imported on use."""

from typing import TYPE_CHECKING

from ...parallel.imports import importing
from ...storage.protocol import ByteSource
from ..protocol import Clip
from .clip import Store, StoreClip
from .format import Codec
from .rawclip import RawClip
from .segments import Index

if TYPE_CHECKING:
    from .videoclip import VideoClip


def open_clip(store: Store, source: ByteSource, index: Index, id_: str, ordinal: int) -> StoreClip:
    """Return a clip of a store, without reading any frame."""
    codec = index.row(ordinal).format.codec
    if codec == Codec.VIDEO:
        with importing:
            from .videoclip import VideoClip
        return VideoClip(store, source, index, id_, ordinal)
    return (RawClip if codec == Codec.RAW else StoreClip)(store, source, index, id_, ordinal)


def as_video(clip: Clip) -> "VideoClip | None":
    """Return a clip of video, whose packets can be copied; None of another clip."""
    if getattr(clip, "codec", None) != "video":  # only clips of frame stores have a codec
        return None
    with importing:
        from .videoclip import VideoClip
    return clip if isinstance(clip, VideoClip) else None
