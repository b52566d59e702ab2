"""An index as large as ImageNet's, in a file whose pictures are holes."""

from pathlib import Path
from typing import Any

import numpy as np

from bloscpack.benzina.mp4.moviewriter import (
    HEAD_NBYTES,
    Extents,
    film_entry,
    pack_head,
    pack_movie,
)

_NAME = "ILSVRC2012_{:08}.JPEG\0"
_SEED = 13
_MIN_NBYTES, _MAX_NBYTES = 20_000, 150_000
_TARGET_NBYTES, _NCLASSES = 8, 1000


def write_index(folder: Path, count: int, sample: bytes) -> dict[str, Any]:
    """Write a dataset in the reference's form, without the bytes of its `count` samples.

    The entry of the thumbnails is that of any `sample`. The result has ``path``; ``tables``, a
    ``.npz`` file with "TRACK offsets" and "TRACK sizes"; ``targets_offset``, ``moov_offset`` and
    ``moov_nbytes``; ``nindexed``, the number of samples.
    """
    rng = np.random.default_rng(_SEED)
    sizes = rng.integers(_MIN_NBYTES, _MAX_NBYTES, count, dtype=np.uint64)
    ordinals = np.arange(count, dtype=np.uint64)
    offsets = HEAD_NBYTES + np.cumsum(sizes) - sizes
    end = int(sizes.sum()) + HEAD_NBYTES
    names_at, each = end + _TARGET_NBYTES * count, len(_NAME.format(0))
    tracks = {
        "bzna_input": Extents(offsets, sizes),
        "bzna_target": Extents(
            end + _TARGET_NBYTES * ordinals, np.full(count, _TARGET_NBYTES, np.uint64)
        ),
        "bzna_fname": Extents(names_at + each * ordinals, np.full(count, each, np.uint64)),
        "bzna_thumb": Extents(offsets + 28, sizes // 2),
    }
    moov = pack_movie(tracks, film_entry(sample), profile="reference")
    moov_at = names_at + each * count
    path, tables = folder / "index.bzna", folder / "tables.npz"
    with path.open("wb") as stream:
        stream.write(pack_head(moov_at - HEAD_NBYTES))
        stream.seek(end)
        stream.write((ordinals % _NCLASSES).astype("<i8").tobytes())
        stream.write("".join(map(_NAME.format, range(count))).encode())
        stream.write(moov)
    found = {f"{name} offsets": one.offsets for name, one in tracks.items()}
    found |= {f"{name} sizes": one.sizes for name, one in tracks.items()}
    np.savez(tables, **found)
    return {
        "path": str(path),
        "tables": str(tables),
        "targets_offset": end,
        "moov_offset": moov_at,
        "moov_nbytes": len(moov),
        "nindexed": count,
    }
