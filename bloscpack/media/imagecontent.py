"""Contents of an image file that its pixels do not have."""

import io
from collections.abc import Iterator
from typing import Any

from ..parallel.imports import import_pillow

# Names of Pillow for what says how pixels are coded, or is known from them.
_CODING = {
    *("adobe", "adobe_transform", "default_image", "duration", "background", "interlace", "loop"),
    *("jfif", "jfif_density", "jfif_unit", "jfif_version", "mp", "mpoffset", "progression"),
    *("progressive", "version", "extension", "compression", "bbox", "blend", "disposal"),
}
_NAMES = {"exif": "EXIF data", "icc_profile": "colour profile", "transparency": "transparency"}


def has_more_pictures(data: bytes) -> bool:
    """Return whether an image file has other pictures than the first: APNG, or MPO and the like."""
    if b"acTL" in data[: max(0, data.find(b"IDAT"))]:
        return True
    return data.startswith(b"\xff\xd8") and (b"\xff\xd9\xff\xd8\xff" in data or b"MPF\0" in data)


def lost_by_decoding(picture: Any) -> Iterator[str]:
    """Yield short texts for what a file, or its bytes, has beside the pixels of one picture."""
    stream = io.BytesIO(picture) if isinstance(picture, bytes) else picture
    pillow = import_pillow()
    try:
        image = pillow.open(stream)
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError):
        return  # the reader of the pixels reports it
    with image:
        has_more = isinstance(picture, bytes) and has_more_pictures(picture)
        if has_more or getattr(image, "n_frames", 1) > 1:
            yield "further frames or pages of a picture"
        if image.mode == "P":
            yield "palette of a picture"
        for key in image.info:
            if key not in _CODING:
                yield f"{_NAMES.get(key, f'metadata {key!r:.80}')} of a picture"
