"""Benzina datasets: pictures, targets and names in one mp4 file, each picture an mp4 of its own."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..plugin import importing
from . import transforms
from .codec.decoder import Planes
from .dataset import Dataset, open  # noqa: A004
from .load.loader import Loader
from .mp4.samplelayout import CleanAperture, InnerTrack, SampleLayout, parse_sample
from .mp4.track import DatasetTrack, Location
from .original.benzinafile import File, Track
from .original.originaldatasets import ClassificationDataset, ImageNet
from .packing import PackReport, SkippedPicture, pack
from .sample import Sample
from .samplefiles import ExtractReport, extract
from .verify import verify
from .writer import Writer

if TYPE_CHECKING:
    from .load.torchloader import DataLoader

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
    """Import the names that need torch on first use."""
    if name == "DataLoader":
        with importing:
            from .load.torchloader import DataLoader
        return DataLoader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names only, not the submodules."""
    names = {*__all__}
    if find_spec("torch") is None:  # `help` resolves every listed name
        names.discard("DataLoader")
    return sorted(names | {name for name in globals() if name.startswith("__")})
