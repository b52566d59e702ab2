"""Names available to snippets for pybenzinaparse 0.2.2, the parser by Benzina's authors."""

import importlib
import importlib.metadata
from typing import Any


def load() -> tuple[str, dict[str, Any]]:
    """Return the version of the library and the names for `tests.snippets`."""
    bits = importlib.import_module("bitstring")
    library = importlib.import_module("pybenzinaparse")
    utils = importlib.import_module("pybenzinaparse.utils")
    parse = library.Parser.parse

    def loaded(data: bytes) -> list[Any]:
        """Return the outermost boxes with their content."""
        stream = bits.ConstBitStream(data)
        found = []
        for box in parse(stream):
            box.load(stream)
            found.append(box)
        return found

    def packed(data: bytes, wanted: bytes) -> list[bytes]:
        """Return boxes of a type as the library writes them from their fields."""
        return [bytes(box) for box in loaded(data) if box.header.type == wanted]

    def locations(data: bytes, name: bytes, count: int) -> list[tuple[int, int]]:
        moov = next(box for box in loaded(data) if box.header.type == b"moov")
        return [utils.get_trak_sample_location(moov.boxes, [name], index) for index in range(count)]

    def shape(data: bytes, name: bytes) -> Any:
        moov = next(box for box in loaded(data) if box.header.type == b"moov")
        (track,) = utils.find_traks(moov.boxes, [name])
        return list(utils.get_shape(track))

    def track(name: bytes, mime: bytes, sizes: list[int], offsets: Any, number: int) -> bytes:
        """Return a track as Benzina's index_metadata creates it."""
        made = utils.make_meta_trak(0, 0, name, sizes, offsets)
        head = made.boxes[0]
        head.header.flags = b"\0\0\0"
        head.track_id = number
        head.width = head.height = [0, 0]
        made.boxes[-1].boxes[-1].boxes[-1].boxes[0].boxes[0].mime_format = mime
        made.refresh_box_size()
        return bytes(made)

    names = {
        "packed": packed,
        "locations": locations,
        "shape": shape,
        "track": track,
    }
    return importlib.metadata.version("pybenzinaparse"), names
