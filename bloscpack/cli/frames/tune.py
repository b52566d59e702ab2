"""Presets of clips, tried on a sample of their frames, for ``blpk tune``."""

import argparse
from typing import Any

from ...filetypes.open import frames_of
from ...storage.file import Place
from ..console.inputfile import open_item
from ..console.options import DEFAULT_SAMPLE
from ..console.output import Console, pretty_size
from ..console.trialtable import Tuned, command_text
from .trials import AS_STORED, ClipSample, run_trials, take_frames


def tune_clips(args: argparse.Namespace, console: Console, place: Place) -> Tuned:
    """Try presets of a frame store on frames of some clips."""
    filetype, source, inner = open_item(place)
    with frames_of(filetype, source, nthreads=args.nthreads) as clips:
        sample = take_frames(clips, args.sample or DEFAULT_SAMPLE, inner)
    with console.progress(unit="trials") as progress:
        trials = run_trials(sample, progress)
    name = place.shown
    return Tuned(
        _heading(name, sample),
        sample.nbytes,
        trials,
        _call,
        lambda settings: _command(name, settings, is_folder=filetype.is_folder and not inner),
        {
            "nclips": sample.nclips,
            "sample": {
                "clips": [*sample.pieces],
                "nframes": sample.nframes,
                "nbytes": sample.nbytes,
            },
        },
    )


def _heading(name: str, sample: ClipSample) -> str:
    return (
        f"{name}: {sample.nclips} clips; {pretty_size(sample.nbytes)} tried: {sample.nframes} "
        f"frames, of {', '.join(map(repr, sample.pieces))}"
    )


def _call(settings: dict[str, Any]) -> str:
    if settings == AS_STORED:
        return "store.append(id, clip.read_images())"
    call = f"bp.frames.create(path, preset={settings['preset']!r})"
    return f"{call} and store.append(id, clip.read())" if "images" in settings else call


def _command(name: str, settings: dict[str, Any], *, is_folder: bool) -> str:
    """Return the command that copies the clips with some settings, or nothing if there is none."""
    if settings == AS_STORED:
        return command_text("convert", name, "OUT.blp", "--to", "frames")
    preset = ("--preset", settings["preset"])
    if "images" not in settings:
        return command_text("convert", name, "OUT.blp", "--to", "frames", *preset)
    if not is_folder:
        return ""
    return command_text("frames", "create", name, "OUT.blp", "--codec", "lossless", *preset)
