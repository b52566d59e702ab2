"""Hugging Face datasets: a row of an Arrow table for each frame."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets

from frames.contenders import DATASETS
from frames.rows import FrameRows

datasets.disable_progress_bars()


class HuggingFace(FrameRows):
    """A dataset with a binary column on disk, which it maps."""

    name = files = DATASETS
    note = (
        "Arrow files with a binary column, a row for each frame; mapped, copied to one array; one "
        "thread; no checksums"
    )
    libraries = "datasets {datasets}"

    def write_rows(self, path: Path, rows: list[bytes], nclips: int) -> None:
        def all_rows() -> Iterator[dict[str, bytes]]:
            for _ in range(nclips):
                yield from ({"frame": row} for row in rows)

        features = datasets.Features({"frame": datasets.Value("large_binary")})
        with TemporaryDirectory(dir=path.parent) as cache:
            made = datasets.Dataset.from_generator(all_rows, features=features, cache_dir=cache)
            made.save_to_disk(str(path))

    def open_rows(self, path: Path) -> Any:
        return datasets.load_from_disk(str(path)).with_format("arrow")

    def read_rows(self, table: Any, numbers: range) -> Sequence[Any]:
        column = table[[*numbers]].column("frame")
        return [value.as_buffer() for value in column]
