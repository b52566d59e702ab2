"""bloscpack 0.16 reads what many workers wrote."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ..array.test_parts import written


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("options", [{}, {"codec": "lz4", "checksum": "sha256", "attrs": {"a": 1}}])
def test_parts(
    oracle: Any, describe: Callable[[Any], Any], order: Any, options: Any, tmp_path: Path
) -> None:
    array = np.asarray(np.arange(40_000, dtype=">i4").reshape(200, 200) % 777, order=order)
    job = written(tmp_path / "a.blp", array, chunks=30, **options)
    assert job.nchunks == 7
    packed = (tmp_path / "a.blp").read_bytes()
    assert oracle("describe(bp.unpack_ndarray_from_bytes(data))", data=packed) == describe(array)
    content, metadata = oracle("bp.unpack_bytes_from_bytes(data)", data=packed)
    assert content == array.tobytes(order)
    assert metadata.get("attrs") == options.get("attrs")
