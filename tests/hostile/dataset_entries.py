"""Every way to read a Benzina dataset, as functions from the bytes of a file to a value.

Data that begin with `SPARSE` describe a file with holes, which is made here: a JSON object of its
size and of the places that have bytes, in hexadecimal digits.
"""

import contextlib
import io
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from entries import Errors, Reader

import bloscpack as bp
from bloscpack import benzina
from bloscpack.cli.main import main as blpk
from bloscpack.parallel.imports import import_av

SPARSE = b"sparse: "
TRACKS = ("bzna_thumb", "bzna_input")
MAX_SAMPLES = 8
MAX_DECODED = 3

# Imported here, not in each child that decodes.
with contextlib.suppress(ImportError):
    import_av()


def sparse(nbytes: int, parts: dict[int, bytes]) -> bytes:
    """Return the description of a file with holes."""
    places = [[at, part.hex()] for at, part in parts.items()]
    return SPARSE + json.dumps([nbytes, places]).encode()


def _written(path: Path, data: bytes) -> Path:
    with path.open("wb") as file:
        if not data.startswith(SPARSE):
            file.write(data)
            return path
        nbytes, places = json.loads(data.removeprefix(SPARSE))
        for at, digits in places:
            file.seek(at)
            file.write(bytes.fromhex(digits))
        file.truncate(nbytes)
    return path


def changed(base: bytes, changes: dict[tuple[int, Any], bytes]) -> bytes:
    """Return the description of many files, by place and name; each has other bytes there."""
    places = [[at, part.hex()] for (at, _), part in changes.items()]
    return json.dumps([base.hex(), places]).encode()


def _chosen(count: int) -> list[int]:
    return sorted({*range(min(count, MAX_SAMPLES)), *range(max(0, count - 2), count)})


def outline(dataset: Any, errors: Errors) -> Any:
    """Facts that need no table, and the pickled handle."""
    found = [(track.name, len(track), track.mime, track.shape) for track in dataset.tracks.values()]
    again = pickle.loads(pickle.dumps(dataset))
    assert len(again) == len(dataset)
    again.close()
    return repr(dataset), found, errors.attempt(lambda: dataset.splits)


def tables(dataset: Any, errors: Errors) -> Any:
    """Return the places, targets and names of the first and last samples."""
    found: list[Any] = []
    for track in dataset.tracks.values():
        found.append(errors.attempt(lambda track=track: [track[k] for k in _chosen(len(track))]))
    for read in (
        lambda: dataset.targets[_chosen(len(dataset))].tolist(),
        lambda: [dataset.names[k] for k in _chosen(len(dataset))],
    ):
        found.append(errors.attempt(read))
    return found


def ids(dataset: Any, errors: Errors) -> Any:
    chosen = _chosen(len(dataset))
    found = [errors.attempt(lambda k=k: dataset.keys()[k]) for k in chosen]
    return [(id_, id_ in dataset) for id_ in found if id_ is not None]


def samples(dataset: Any, errors: Errors) -> Any:
    """Return all data of the first and last samples except pictures, singly and as a range."""
    found = []
    for index in _chosen(len(dataset)):
        sample = dataset[index]
        for name in ("target", "name", "location", "data", "layout"):
            found.append(errors.attempt(lambda sample=sample, name=name: getattr(sample, name)))
        for track in getattr(found[-1], "tracks", ()):
            errors.attempt(lambda sample=sample, track=track: len(sample.read_track(track)))
    for sample in dataset.samples(_chosen(len(dataset))):
        found.append(errors.attempt(lambda sample=sample: len(sample.data)))
    return found


def pictures(dataset: Any, errors: Errors) -> Any:
    found = []
    for index in range(min(len(dataset), MAX_DECODED)):
        for track in TRACKS:
            pixels = errors.attempt(lambda index=index, track=track: dataset[index].decode(track))
            found.append(getattr(pixels, "shape", None))
    return found


def batches(dataset: Any, errors: Errors) -> Any:
    """Return the first batches of a loader, which leaves no threads behind."""
    loader = benzina.Loader(dataset[:5], (8, 6), 2, shuffle=True, seed=1, threads=2)
    return errors.attempt(lambda: [images.shape for images, _ in loader])


def opened(path: Path | None, read: Callable[[Any, Errors], Any]) -> Reader:
    """Return a function that opens a file, or bytes without a path, and reads it in one way."""

    def use(data: bytes) -> Any:
        errors = Errors()
        with benzina.open(data if path is None else _written(path, data)) as dataset:
            return errors.checked(read(dataset, errors))

    return use


def verify(path: Path) -> Any:
    report = benzina.verify(path, decode=True, nthreads=1)
    return report.ok, [str(each) for each in report.damage]


def extract(path: Path) -> Any:
    """Extract; nothing may be written outside the folder."""
    target = path.parent / "extracted"
    shutil.rmtree(target, ignore_errors=True)
    before = {*path.parent.iterdir(), target}
    with benzina.open(path) as dataset:
        report = benzina.extract(dataset[:5], target)
    assert {*path.parent.iterdir()} <= before
    return report.nfiles


def original(path: Path) -> Any:
    """Read through the names of the original Benzina."""
    errors, found = Errors(), []
    with benzina.File(path) as file:
        for name in ("bzna_input", "bzna_target", "bzna_fname", "bzna_thumb"):
            track = errors.attempt(lambda name=name: benzina.Track(file, name))
            for k in _chosen(len(track)) if track is not None else ():
                found.append(errors.attempt(lambda track=track, k=k: track.sample_location(k)))
                if name == "bzna_input":
                    errors.attempt(lambda track=track, k=k: track[k].as_file().trak("x"))
    return errors.checked(found)


def commands(path: Path) -> Any:
    """Run the commands with text and JSON output; damage makes them exit with 1."""
    codes = []
    for argv in (["bzna", "info"], ["bzna", "ls", "--json"], ["verify"], ["info", "--json"]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            codes.append(blpk([*argv, str(path)]))
        assert "Traceback" not in err.getvalue()
        assert codes[-1] in (0, 1), (argv, codes[-1], err.getvalue())
    return codes


def source(path: Path) -> Any:
    """Read through the frame protocol, like any other source of clips."""
    errors = Errors()
    with bp.frames.open(path) as dataset:
        first = [id_ for _, id_ in zip(range(3), dataset, strict=False)]
        return errors.checked([errors.attempt(lambda id_=id_: dataset[id_][0]) for id_ in first])


def every_change(data: bytes, *ways: Callable[[Any, Errors], Any]) -> Any:
    """Return the result of each file of `changed`, in one process: the first refusal of each."""
    digits, places = json.loads(data)
    base, found = bytes.fromhex(digits), []
    for at, part in places:
        new = bytes.fromhex(part)
        file = base[:at] + new + base[at + len(new) :]
        errors = Errors()
        for way in ways:
            errors.attempt(lambda way=way, file=file: opened(None, way)(file))
        found.append(str(errors.first))
    return found


def dataset_readers(folder: Path) -> dict[str, Reader]:
    """Return all ways by name, "bzna ..."; files are written to `folder`."""
    path = folder / "a.bzna"
    ways: dict[str, Reader] = {
        read.__name__: opened(path, read)
        for read in (outline, tables, ids, samples, pictures, batches)
    }
    ways["tables in memory"] = opened(None, tables)
    for use in (verify, extract, original, commands, source):
        ways[use.__name__] = lambda data, use=use: use(_written(path, data))
    ways["of changes"] = lambda data: every_change(data, outline, samples)
    ways["pictures of changes"] = lambda data: every_change(data, pictures)
    return {f"bzna {name}": read for name, read in ways.items()}
