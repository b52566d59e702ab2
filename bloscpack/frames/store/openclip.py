"""Open a clip of a store as the class for its codec, and copy clips of any source to a store.

Code for video is imported on use.
"""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ...array.array import Array
from ...parallel.imports import importing
from ...storage.protocol import ByteSource
from ...types import AnyArray
from ..protocol import Clip
from .clip import Store, StoreClip
from .format import Codec
from .index import Index
from .rawclip import RawClip

if TYPE_CHECKING:
    from .videoclip import VideoClip


# Bytes of arrays, and number of images, in memory at a time.
_BATCH_NBYTES = 16 << 20
_BATCH_IMAGES = 64


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


def is_clip(value: object) -> bool:
    """Return whether a value is a clip of any source, and not an array or a list of frames."""
    return hasattr(value, "read_images") and hasattr(value, "meta")


def meta_of(frames: Any) -> dict[str, Any]:
    """Return the metadata that frames bring to a store: those of a clip, or attrs of an `Array`."""
    # A clip of another type of file may have several objects.
    if (packed := getattr(frames, "_packed_meta", None)) is not None:
        return packed()  # type: ignore[no-any-return]
    if isinstance(frames, Array):
        return frames.attrs
    return frames.meta if is_clip(frames) else {}


def is_images(clip: Clip) -> bool:
    """Return whether the frames of a clip are stored as JPEG or PNG images."""
    return clip.read_images([]) is not None


def images_of(clip: Clip) -> Iterator[list[bytes]]:
    """Yield the images of a clip in batches."""
    for start in range(0, len(clip), _BATCH_IMAGES):
        yield clip.read_images(slice(start, start + _BATCH_IMAGES)) or []


def data_of(clip: Clip) -> Iterator[bytes]:
    """Yield the bytes of each image of a clip; nothing if its frames are arrays."""
    if is_images(clip):
        yield from chain.from_iterable(images_of(clip))


def arrays_of(clip: Clip) -> Iterator[AnyArray]:
    """Yield the frames of a clip in batches of whole groups of frames that refer to each other."""
    nbytes = int(np.prod(clip.shape[1:])) * clip.dtype.itemsize
    step = max(8, _BATCH_NBYTES // max(1, nbytes) // 8 * 8)
    for start in range(0, len(clip), step):
        yield clip.read(slice(start, start + step))


def frames_of(clip: Clip, *, keep: bool) -> Any:
    """Return the frames of a clip for an `Encoder`: images unchanged with `keep`, else arrays."""
    if not len(clip):
        return np.empty(clip.shape, clip.dtype)
    if not is_images(clip):
        return chain.from_iterable(arrays_of(clip))
    return chain.from_iterable(images_of(clip)) if keep else iter(clip)
