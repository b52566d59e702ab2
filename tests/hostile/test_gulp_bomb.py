"""A Gulp directory with an image of false, huge dimensions."""

from pathlib import Path

import pytest
from crafted_stores import jpeg_with_size

import bloscpack as bp
from bloscpack.exceptions import FormatError


def test_a_gulp_directory_with_a_bomb(tmp_path: Path) -> None:
    bomb = jpeg_with_size(65500, 65500)
    (tmp_path / "data_0.gulp").write_bytes(bomb + bytes(-len(bomb) % 4))
    length = len(bomb) + -len(bomb) % 4
    entry = f'{{"frame_info": [[0, {-len(bomb) % 4}, {length}]], "meta_data": [{{}}]}}'
    (tmp_path / "meta_0.gmeta").write_text(f'{{"a": {entry}}}')
    with bp.frames.open(tmp_path) as source:
        for read in (lambda: source["a"].shape, lambda: source["a"][0], lambda: source["a"].read()):
            with pytest.raises(FormatError, match="too many for"):
                read()
        assert source["a"].read_images() == [bomb]
