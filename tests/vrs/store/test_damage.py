"""Damaged stores, copies that differ from their source, and targets that exist."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import vrs
from bloscpack.exceptions import BloscpackError, FormatError
from bloscpack.vrs.store import storecopy

from .recordings import rewrite, write_recording

DATA = "241-1/data-1"
# Numbers of the form of PNG images, and of the form of the motion.
IMAGES, MOTION = 4, 1


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    bp.convert(write_recording(folder / "a.vrs"), folder / "a.blp", verbatim=True)
    bp.convert(folder / "a.vrs", folder / "b.blp")
    return folder


def changed(id_: str, change: Callable[[Any, dict[str, Any]], Any]) -> Any:
    """Change one clip."""

    def apply(name: str, frames: Any, meta: dict[str, Any]) -> Any:
        if name != id_:
            return name, frames, meta
        result = change(frames, meta)
        return result and (name, *result)

    return apply


def without(key: str, value: Any = None) -> Any:
    return changed(
        "recording",
        lambda frames, meta: (frames, {**{k: v for k, v in meta.items() if k != key}, key: value}),
    )


def with_form(number: int, **changes: Any) -> Any:
    def change(frames: Any, meta: dict[str, Any]) -> Any:
        meta["forms"][number].update(changes)
        return frames, meta

    return changed("recording", change)


def with_part(number: int, part: int, **changes: Any) -> Any:
    def change(frames: Any, meta: dict[str, Any]) -> Any:
        meta["forms"][number]["parts"][part].update(changes)
        return frames, meta

    return changed("recording", change)


DAMAGE = {
    "no end": changed("recording", lambda frames, meta: None),
    "no forms": without("forms"),
    "forms are numbers": without("forms", [1]),
    "no streams": without("streams"),
    "a stream without a name": without("streams", {"imu": None}),
    "tags are numbers": without("file_tags", {"a": 1}),
    "stream tags are a list": without("streams", {"241-1": []}),
    "creation id": without("creation_id", -1),
    "half a surrogate pair": without("file_tags", {"a": "\ud800"}),
    "a stream of a large type": without("streams", {"241-1": None, "99999999999-1": None}),
    "an instance too large": with_form(0, stream="241-65536"),
    "a form is missing": changed(
        "recording", lambda frames, meta: (frames, {**meta, "forms": meta["forms"][:-1]})
    ),
    "type": with_form(0, type="tags"),
    "another type": with_form(0, type="state"),
    "version": with_form(0, version=1 << 32),
    "records": with_form(0, records=2),
    "stream": with_form(0, stream="x-1"),
    "no parts": with_form(0, parts=None),
    "kind": with_part(MOTION, 0, kind="other"),
    "no clip": with_part(MOTION, 0, id="other"),
    "an id that is not text": with_part(MOTION, 0, id=3),
    "index without pieces": with_part(MOTION, 0, kind="index", ids=["a"]),
    "stride": with_part(MOTION, 0, kind="pixels", rest=f"{DATA}/order", stride=1),
    "images as an array": with_part(IMAGES, 0, kind="fixed"),
    "an array as images": with_part(MOTION, 0, kind="images"),
    "values without blocks": with_part(MOTION, 0, kind="ragged", offsets=f"{DATA}/order"),
    "time": changed(f"{DATA}/timestamp", lambda frames, meta: (frames[1:], meta)),
    "another time": changed(f"{DATA}/timestamp", lambda frames, meta: (frames + 1, meta)),
    "times are numbers": changed(
        f"{DATA}/timestamp", lambda frames, meta: (frames.view("i8"), meta)
    ),
    "a field": changed(f"{DATA}/0/temperature", lambda frames, meta: (frames[1:], meta)),
    "values": changed(f"{DATA}/0/accelerometer", lambda frames, meta: (frames * 2, meta)),
    "falling offsets": changed(f"{DATA}/0/name:offsets", lambda frames, meta: (-frames, meta)),
    "offsets too large": changed(
        f"{DATA}/0/name:offsets", lambda frames, meta: (frames * 1000000, meta)
    ),
    "no offsets": changed(f"{DATA}/0/name:offsets", lambda frames, meta: None),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_stores_are_refused(stored: Path, tmp_path: Path, damage: str) -> None:
    store = rewrite(stored / "b.blp", tmp_path / "c.blp", DAMAGE[damage])
    with pytest.raises(FormatError):
        bp.convert(store, tmp_path / "c.vrs")
    assert [path.name for path in tmp_path.iterdir()] == ["c.blp"]


VERBATIM_DAMAGE = {
    "no digest": without("verbatim", {"parts": [1]}),
    "no sizes": without("verbatim", {}),
    "a size": without("verbatim", {"parts": [-1]}),
    "not a mapping": without("verbatim", 1),
    "headers": changed("recording/headers", lambda frames, meta: (frames[1:], meta)),
    "no headers": changed("recording/headers", lambda frames, meta: None),
    "another header": changed("recording/headers", lambda frames, meta: (frames + 1, meta)),
    "rest": changed("recording/rest", lambda frames, meta: (frames + 1, meta)),
}


@pytest.mark.parametrize("damage", VERBATIM_DAMAGE)
def test_damaged_bytes_are_refused(stored: Path, tmp_path: Path, damage: str) -> None:
    store = rewrite(stored / "a.blp", tmp_path / "c.blp", VERBATIM_DAMAGE[damage])
    with pytest.raises(FormatError):
        bp.convert(store, tmp_path / "c.vrs", verify=False)
    assert [path.name for path in tmp_path.iterdir()] == ["c.blp"]


def test_sizes_of_parts_must_add_up(stored: Path, tmp_path: Path) -> None:
    for add in (-1, 1):

        def change(frames: Any, meta: dict[str, Any], add: int = add) -> Any:
            meta["verbatim"]["parts"][0] += add
            return frames, meta

        store = rewrite(stored / "a.blp", tmp_path / f"{add}.blp", changed("recording", change))
        with pytest.raises(FormatError, match="er than its files"):
            bp.convert(store, tmp_path / "c.vrs", verify=False)


def test_mutations(stored: Path, tmp_path: Path) -> None:
    data = bytearray((stored / "b.blp").read_bytes())
    with vrs.open(stored / "a.vrs") as recording:
        checksum = recording.checksum()
    rng = np.random.default_rng(5)
    nrefused = 0
    for number, at in enumerate(rng.integers(0, len(data), 60).tolist()):
        mutated = data.copy()
        mutated[at] ^= 1 << number % 8
        (tmp_path / "m.blp").write_bytes(mutated)
        try:
            bp.convert(tmp_path / "m.blp", tmp_path / "m.vrs", to="vrs", overwrite=True)
        except (BloscpackError, ValueError):
            nrefused += 1
            continue
        with vrs.open(tmp_path / "m.vrs") as recording:
            assert recording.checksum() == checksum
    assert nrefused > 10


@pytest.mark.parametrize("way", ["in", "out"])
def test_a_copy_that_differs_is_removed(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    source = stored / ("a.vrs" if way == "in" else "b.blp")
    cut = storecopy.GroupImport.run if way == "in" else storecopy._encoded

    def lose(*args: Any) -> Any:
        found = list(cut(*args))  # type: ignore[operator]
        if way == "in":
            found[-1] = {**found[-1], "version": 2}
        else:
            form, row, payload = found[0]
            found[0] = form, row, payload._replace(parts=[bytes(payload.nbytes)])
        return found

    monkeypatch.setattr(
        *((storecopy.GroupImport, "run") if way == "in" else (storecopy, "_encoded")), lose
    )
    with pytest.raises(FormatError, match="the copy differs"):
        bp.convert(source, tmp_path / ("c.blp" if way == "in" else "c.vrs"))
    assert not list(tmp_path.iterdir())


def test_targets_that_exist(stored: Path, tmp_path: Path) -> None:
    for source, name in (("a.vrs", "c.blp"), ("a.blp", "c.vrs")):
        (tmp_path / name).write_bytes(b"mine")
        with pytest.raises(FileExistsError):
            bp.convert(stored / source, tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"mine"
        bp.convert(stored / source, tmp_path / name, overwrite=True)
    assert (tmp_path / "c.vrs").read_bytes() == (stored / "a.vrs").read_bytes()


def test_chunks_that_exist(tmp_path: Path) -> None:
    source = write_recording(tmp_path / "a.vrs", chunk_nbytes=2000)
    bp.convert(source, tmp_path / "a.blp", verbatim=True)
    (tmp_path / "b.vrs_1").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        bp.convert(tmp_path / "a.blp", tmp_path / "b.vrs")
    assert (tmp_path / "b.vrs_1").read_bytes() == b"mine"
    assert not (tmp_path / "b.vrs").exists()


def test_impossible_conversions(stored: Path, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "plain.blp") as store:
        store.append("a", np.zeros((2, 3, 4), "u1"))
    wrong: list[tuple[Path, str, dict[str, Any]]] = [
        (tmp_path / "plain.blp", "x.vrs", {"to": "vrs"}),
        (tmp_path / "plain.blp", "x.blp", {"verbatim": True}),
        (stored / "a.vrs", "x.vrs", {"to": "vrs"}),
    ]
    for source, name, options in wrong:
        with pytest.raises(ValueError, match="recording"):
            bp.convert(source, tmp_path / name, **options)


def test_verbatim_is_not_for_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(ValueError, match=r"verbatim is for a copy of .*, not of type 'array'"):
        bp.convert(tmp_path / "a.npy", tmp_path / "a.blp", to="array", verbatim=True)


def test_damaged_recordings_leave_nothing(stored: Path, tmp_path: Path) -> None:
    data = bytearray((stored / "a.vrs").read_bytes())
    with vrs.open(stored / "a.vrs") as recording:
        at = int(recording.table.offset[5])
    data[at + 16] ^= 1  # the time in its header
    (tmp_path / "a.vrs").write_bytes(data)
    with pytest.raises(FormatError):
        bp.convert(tmp_path / "a.vrs", tmp_path / "a.blp")
    assert [path.name for path in tmp_path.iterdir()] == ["a.vrs"]


def test_progress(stored: Path, tmp_path: Path) -> None:
    for source, name in (("a.vrs", "a.blp"), ("b.blp", "b.vrs"), ("a.blp", "c.vrs")):
        calls: list[tuple[int, int]] = []
        bp.convert(
            stored / source,
            tmp_path / name,
            progress=lambda done, total, calls=calls: calls.append((done, total)),  # type: ignore[misc]
        )
        assert calls[-1][0] == calls[-1][1] > 0
        assert calls == sorted(calls)
