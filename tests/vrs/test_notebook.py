"""Cards of recordings and streams in notebooks."""

from bloscpack import vrs

from ..conftest import SMALL_FORMATS
from ..display.test_notebook import check_clips, checked


def test_recordings_and_streams() -> None:
    with vrs.open(SMALL_FORMATS / "recording.vrs") as recording:
        html = checked(recording)
        for id_, stream in recording.streams.items():
            assert f"<td>{id_}</td>" in html
            assert ("<img" in checked(stream)) == stream.has_images


def test_clips() -> None:
    check_clips(SMALL_FORMATS / "recording.vrs")
