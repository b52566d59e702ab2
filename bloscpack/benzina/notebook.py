"""Cards of a dataset and of a sample, for notebooks."""

from collections.abc import Iterator
from typing import Any

from ..plugin import (
    MAX_FRAMES,
    TILE,
    AnyArray,
    Markup,
    contact_sheet,
    fields,
    first_rows,
    guarded,
    joined,
    picture,
    sheet_width,
    size_text,
    spread,
    thumbnail,
)


def dataset_card(dataset: Any) -> str:
    """Return the card of a Benzina dataset, with a few thumbnails."""
    count = len(dataset)

    def row(number: int) -> Iterator[object]:
        sample = dataset[number]
        yield sample.id
        yield sample.target
        yield size_text(sample.size)

    def thumbnails() -> Markup:
        numbers = spread(count, MAX_FRAMES)
        if not numbers:
            return Markup()
        frames = (_picture_of(dataset[number]) for number in numbers)
        columns = len(numbers)
        sheet = contact_sheet(frames, columns=columns, width=sheet_width(columns, TILE))
        return picture(sheet.pixels, f"samples {', '.join(map(str, numbers))}")

    def splits() -> str | None:
        return ", ".join(f"{name}: {len(found)}" for name, found in dataset.splits.items()) or None

    table = fields(
        {
            "file": dataset.name or "memory",
            "samples": count,
            "tracks": lambda: ", ".join(dataset.tracks),
            "splits": splits,
            "bytes": size_text(dataset.nbytes),
        }
    )
    rows = first_rows(("sample", "target", "size"), range(count), row)
    return joined(table, rows, guarded(thumbnails))


def sample_card(sample: Any) -> str:
    """Return the card of a sample of a Benzina dataset, with its thumbnail."""
    table = fields(
        {
            "sample": sample.index,
            "name": lambda: sample.name,
            "target": lambda: sample.target,
            "shape": lambda: sample.shape,
            "tracks": lambda: ", ".join(sample.layout.tracks),
            "bytes": lambda: size_text(sample.size),
        }
    )
    return joined(table, guarded(lambda: thumbnail(_picture_of(sample))))


def _picture_of(sample: Any) -> AnyArray:
    """Return the thumbnail of a sample, or its picture if it has none."""
    tracks = sample.layout.tracks
    name = next((each for each in ("bzna_thumb", "bzna_input") if each in tracks), "bzna_thumb")
    pixels: AnyArray = sample.decode(name)
    return pixels
