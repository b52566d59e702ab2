"""The small Gulp directory of ``tests/vectors``, read by this package and by independent code."""

import json

import pytest

import bloscpack as bp
from tests.conftest import SMALL_FORMATS
from tests.vectors.pictures import frame, is_close

pytest.importorskip("simplejpeg", reason="the package simplejpeg is not installed")

from tests.vectors.gulpfiles import CLIPS


@pytest.mark.parametrize("name", ["gulp", "gulp_store.blp"])
def test_clips_are_read(name: str) -> None:
    with bp.frames.open(SMALL_FORMATS / name) as source:
        assert sorted(source) == sorted(CLIPS)
        for id_, (count, height, width) in CLIPS.items():
            clip = source[id_]
            assert len(clip) == count
            for number in range(count):
                assert is_close(clip[number], frame(number, height, width))


def test_images_lie_where_the_index_says() -> None:
    """Read with `json` and slices alone, by docs/formats/gulp.md."""
    store = bp.frames.open(SMALL_FORMATS / "gulp_store.blp")
    for number, (id_, (count, *_)) in enumerate(CLIPS.items()):
        index = json.loads((SMALL_FORMATS / "gulp" / f"meta_{number}.gmeta").read_text("utf-8"))
        data = (SMALL_FORMATS / "gulp" / f"data_{number}.gulp").read_bytes()
        found = index[id_]
        assert found["meta_data"] == [{"label": id_, "idx": number}]
        images = [data[at : at + size - pad] for at, pad, size in found["frame_info"]]
        assert len(images) == count
        assert images == store[id_].read_images()
    store.close()
