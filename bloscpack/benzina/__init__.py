"""Benzina datasets: pictures, targets and names in one mp4, each picture an mp4 of its own."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..libraries import importing
from . import transforms
from .checking import verify
from .dataset import Dataset, open  # noqa: A004
from .decoder import Planes
from .extraction import ExtractReport, extract
from .loader import Loader
from .original import File, Track
from .originaldatasets import ClassificationDataset, ImageNet
from .packing import PackReport, SkippedPicture, pack
from .sample import Sample
from .samplelayout import CleanAperture, InnerTrack, SampleLayout, parse_sample
from .track import DatasetTrack, Location
from .writer import Writer

if TYPE_CHECKING:
    from .torchloader import DataLoader

__all__ = [
    "ClassificationDataset",
    "CleanAperture",
    "DataLoader",
    "Dataset",
    "DatasetTrack",
    "ExtractReport",
    "File",
    "ImageNet",
    "InnerTrack",
    "Loader",
    "Location",
    "PackReport",
    "Planes",
    "Sample",
    "SampleLayout",
    "SkippedPicture",
    "Track",
    "Writer",
    "extract",
    "open",
    "pack",
    "parse_sample",
    "transforms",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is named."""
    if name == "DataLoader":
        with importing:
            from .torchloader import DataLoader
        return DataLoader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, and none of the modules they are written in."""
    names = {*__all__}
    if find_spec("torch") is None:  # `help` asks for all that is listed
        names.discard("DataLoader")
    return sorted(names | {name for name in globals() if name.startswith("__")})
