"""Cards of datasets and samples in notebooks."""

import pytest

from bloscpack import benzina

from ..conftest import SMALL_FORMATS
from ..display.test_notebook import check_clips, checked


def test_datasets_and_samples() -> None:
    pytest.importorskip("av")
    with benzina.open(SMALL_FORMATS / "h264.bzna") as dataset:
        html = checked(dataset)
        assert "<img" in html
        assert dataset[0].id in html
        assert "<img" in checked(dataset[0])


def test_clips() -> None:
    pytest.importorskip("av")
    check_clips(SMALL_FORMATS / "hevc.bzna")
