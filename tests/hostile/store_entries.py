"""Every way to read a frame store, as functions from the bytes of a file to a value."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from entries import Reader

import bloscpack as bp
from bloscpack.exceptions import CodecError, FormatError

DIFFERENT = "read frames that differ one by one"
SELECTIONS: tuple[Any, ...] = (0, -1, slice(0, 3), slice(None, None, 2), [0, 0], None)


def _open(data: bytes, read: Any) -> Any:
    with bp.frames.open(data) as store:
        return read(store)


def _first_error(errors: list[Exception], found: Any) -> Any:
    """Return the results, or raise the first refusal."""
    if errors:
        raise errors[0]
    return found


def clips(data: bytes) -> Any:
    """Return all facts about the clips that need no frames."""
    return _open(
        data, lambda store: [(id_, store[id_].shape, store[id_].meta) for id_ in list(store)[:50]]
    )


def frames(data: bytes) -> Any:
    """Return frames of the first clips, selected in all ways; refusals are collected."""
    errors: list[Exception] = []
    found = []

    def read(store: Any) -> None:
        for id_ in list(store)[:20]:
            for selection in SELECTIONS:
                try:
                    clip = store[id_]
                    if isinstance(selection, int | list) and not len(clip):
                        continue
                    found.append(np.asarray(clip.read(selection)).shape)
                except (FormatError, CodecError) as err:
                    errors.append(err)
                except ValueError as err:
                    if DIFFERENT not in str(err):
                        raise

    _open(data, read)
    return _first_error(errors, found)


def batch(data: bytes) -> Any:
    """Return the first frames of all clips, read at once."""

    def read(store: Any) -> Any:
        requests = [(id_, slice(0, 4)) for id_ in list(store)[:50]]
        try:
            return [each.shape for each in store.read(requests)]
        except ValueError as err:
            if DIFFERENT not in str(err):
                raise
            return []

    return _open(data, read)


def images(data: bytes) -> Any:
    return _open(data, lambda store: [store[id_].read_images() for id_ in list(store)[:20]])


def lookup(data: bytes) -> Any:
    return _open(data, lambda store: ["nothing" in store, "a" in store, store.keys()[-1:]])


def verify(data: bytes) -> Any:
    """Verify; reported damage counts as a refusal."""
    report = bp.verify(data)
    if not report.ok:
        raise FormatError(str(report.damage[0]))
    return report.nchunks, report.nbytes


def recover(data: bytes) -> Any:
    """Check that the recovered file is valid and not much larger than the damaged one."""
    target = io.BytesIO()
    report = bp.recover(data, target)
    again = bp.verify(target.getvalue())
    assert again.ok, again
    assert len(target.getvalue()) <= 2 * len(data) + 1000
    return report.saved


def travels(data: bytes) -> Any:
    return _open(data, lambda store: list(pickle.loads(pickle.dumps(store)))[:50])


def store_readers(folder: Path) -> dict[str, Reader]:
    """Return all ways by name, "store ..."; those that take a path write to `folder`."""
    path = folder / "store.blp"

    def append(data: bytes) -> Any:
        """Append to a copy; the old clips can be read as before."""
        path.write_bytes(data)
        with bp.frames.open(path, "a") as store:
            before = list(store)[:50]
            store.append("new", np.ones((2, 3), "u1"))
            after = list(store)
        assert after[:50] == [*before, "new"][:50]
        with bp.frames.open(path) as store:
            assert np.array_equal(store["new"].read(), np.ones((2, 3), "u1"))
        return len(after)

    def from_file(data: bytes) -> Any:
        path.write_bytes(data)
        return frames(path)  # type: ignore[arg-type]

    def several(data: bytes) -> Any:
        path.unlink(missing_ok=True)
        with bp.frames.create(path) as store:
            store.append("other", np.zeros((1, 2), "u1"))
        with bp.frames.open([data, path]) as many:
            return list(many)[:50]

    ways: dict[str, Reader] = {
        "clips": clips,
        "frames": frames,
        "frames(path)": from_file,
        "batch": batch,
        "images": images,
        "lookup": lookup,
        "verify": verify,
        "recover": recover,
        "append": append,
        "travels": travels,
        "several": several,
    }
    return {f"store {name}": read for name, read in ways.items()}
