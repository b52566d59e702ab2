"""Settings of an array, tried on a sample of it, for ``blpk tune``."""

import argparse
from typing import Any

from ...array.layout import AUTO
from ...filetypes.convert import open_array
from ...storage.file import Place
from ..console.inputfile import readable
from ..console.options import DEFAULT_SAMPLE
from ..console.output import Console, pretty_size
from ..console.trialtable import Tuned, command_text, option_text
from .trials import Sample, run_trials, take_sample


def tune(args: argparse.Namespace, console: Console, place: Place) -> Tuned:
    """Try settings of `bloscpack.save` on a sample of an array."""
    with open_array(readable(place), nthreads=args.nthreads) as array:
        sample = take_sample(array, args.sample or DEFAULT_SAMPLE)
    with console.progress(unit="trials") as progress:
        trials = run_trials(sample, progress)
    return Tuned(
        _heading(place.shown, sample),
        sample.array.nbytes,
        trials,
        _call,
        lambda settings: _command(place.shown, sample, settings),
        {
            "dtype": str(sample.array.dtype),
            "shape": sample.shape,
            "sample": {"rows": sample.rows, "axis": sample.axis, "nbytes": sample.array.nbytes},
        },
    )


def _heading(name: str, sample: Sample) -> str:
    nrows = sum(stop - start for start, stop in sample.rows)
    is_cut = sample.axis != (len(sample.shape) - 1 if sample.is_fortran else 0) and sample.shape
    what = f"{nrows} indices of axis {sample.axis}" if is_cut else f"{nrows} rows"
    return (
        f"{name}: {sample.array.dtype} {sample.shape}; {pretty_size(sample.array.nbytes)} tried: "
        f"{what}, from {', '.join(str(start) for start, _ in sample.rows)} on"
    )


def _command(name: str, sample: Sample, settings: dict[str, Any]) -> str:
    """Return the command that makes the file of `_call`."""
    if sample.chunks is not None and "chunks" not in settings:
        # Without an option, a copy keeps the chunks of its source.
        settings = settings | {"chunks": AUTO, "access": "rows"}
    options = [word for key, value in settings.items() for word in (f"--{key}", option_text(value))]
    return command_text("convert", name, "OUT", "--to", "array", *options)


def _call(settings: dict[str, Any]) -> str:
    arguments = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    return f"bp.save(path, array{', ' if arguments else ''}{arguments})"
