"""The small datasets of ``tests/vectors``, read by this package and by an independent demuxer."""

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.exceptions import NotBloscpackError
from tests.conftest import SMALL_FORMATS
from tests.vectors.datasets import PICTURES
from tests.vectors.pictures import is_close

from . import making

DATASETS = ("hevc", "h264", "av1")


@pytest.mark.parametrize("name", DATASETS)
def test_pictures_targets_and_names_are_read(name: str) -> None:
    with benzina.open(SMALL_FORMATS / f"{name}.bzna") as dataset:
        assert len(dataset) == PICTURES
        assert dataset.targets.tolist() == list(range(PICTURES))
        assert [sample.name for sample in dataset.samples()] == ["0.png", "1.png", "2.png"]
        assert dataset.splits["train"] == range(2)
    assert benzina.verify(SMALL_FORMATS / f"{name}.bzna").ok


def test_every_codec_holds_the_same_pictures() -> None:
    pytest.importorskip("av", reason="pictures are decoded by PyAV")
    found = []
    for name in DATASETS:
        with benzina.open(SMALL_FORMATS / f"{name}.bzna") as dataset:
            found.append([np.asarray(sample.decode()) for sample in dataset.samples()])
    for pictures in found:
        assert [picture.shape for picture in pictures] == [
            (64 + 16 * k, 64 + 16 * k, 3) for k in range(PICTURES)
        ]
        assert all(map(is_close, pictures, found[0]))


@pytest.mark.parametrize("name", DATASETS)
def test_another_demuxer_finds_the_samples(name: str) -> None:
    av = pytest.importorskip("av", reason="the demuxer is FFmpeg's")
    data = (SMALL_FORMATS / f"{name}.bzna").read_bytes()
    with benzina.open(data) as dataset, av.open(str(SMALL_FORMATS / f"{name}.bzna")) as container:
        packets = [packet for packet in container.demux() if packet.size]
        found = {bytes(packet) for packet in packets}
        assert {bytes(sample.data) for sample in dataset.samples()} <= found


def test_a_sample_is_not_reported_as_a_damaged_dataset() -> None:
    with pytest.raises(NotBloscpackError, match=r"a sample .*bloscpack\.benzina\.parse_sample"):
        benzina.open(making.sample(1))
