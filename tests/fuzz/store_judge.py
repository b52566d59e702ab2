"""Read damaged stores in every way and report faults in the outcome.

Without new digests, a store may lose clips and frames, but must not return wrong values. With new
digests it may return wrong values, but the same ones in every way.
"""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from mutation import damage
from outcomes import Outcomes
from store_vectors import Array, StoreVector, store_vectors

import bloscpack as bp
from bloscpack.frames.store.clip import StoreClip

# Errors that a clip of different images raises when several of them are read.
DIFFERENT = "read frames that differ one by one"
# Limits on reading a clip frame by frame, which damage may have made long or large.
MAX_FRAMES = 12
MAX_NBYTES = 4 << 20


def run_case(rng: Random, folder: Path) -> tuple[str, list[str], int]:
    """Damage a store and examine the results of reading it."""
    vector = rng.choice(store_vectors())
    data = bytearray(vector.data)
    what = f"{vector.name}: {damage(rng, data, vector.fields)}"
    # Packets that lie about their references give other frames in each way of reading them.
    sealed = rng.random() < 0.5 and vector.name != "video"
    if sealed:
        vector.seal(data)
        what += ", sealed again"
    judge = StoreJudge(vector, bytes(data), not sealed, folder)
    judge.check(rng)
    honest = 2 * len(data) + sum(
        frame.nbytes for clip in vector.clips.values() for frame in clip.frames
    )
    return what, judge.faults, honest


class StoreJudge(Outcomes):
    """Collects the faults found in one damaged store."""

    refused = None

    def __init__(self, vector: StoreVector, data: bytes, is_sound: bool, folder: Path) -> None:
        super().__init__()
        self.vector = vector
        self.data = data
        self.is_sound = is_sound
        self.folder = folder

    @property
    def is_array(self) -> bool:
        """Return whether the damaged header now declares a file of an array or of bytes."""
        return self.data[:4] == b"blpk" and (self.data[4] != 4 or not self.data[40] & 1)

    def attempt(self, what: str, read: Callable[[], Any], *, message: str = "") -> Any:
        """Return the outcome of `read`, which may raise a ValueError with `message`."""

        def read_or_none() -> Any:
            try:
                return read()
            except ValueError as err:
                if not message or message not in str(err):
                    raise
                return None

        return super().attempt(what, read_or_none)

    def check(self, rng: Random) -> None:
        store = self.attempt("open", lambda: bp.frames.open(self.data))
        if store is not None:
            with store:
                self.check_store("open", store, rng)
        for share, check in (
            (0.25, self._check_verify),
            (0.15, self._check_recover),
            (0.1, self._check_append),
            (0.05, self._check_many),
        ):
            if rng.random() < share:
                check(rng)

    def check_store(self, what: str, store: Any, rng: Random | None) -> None:
        """Check all clips; the store may be empty."""
        ids = self.attempt(f"{what}: ids", lambda: list(store)) or []
        if self.is_sound and not set(ids) <= set(self.vector.clips):
            self.faults.append(f"{what}: other ids, {ids[:5]}")
        self.attempt(f"{what}: attrs", lambda: store.attrs)
        read: list[tuple[str, Array]] = []
        for id_ in ids[:12]:
            # The damaged hash of a clip may differ from that of its id, so the clip is not found.
            if self.attempt(f"{what}: in", lambda id_=id_: id_ in store):
                clip = self.attempt(f"{what}: {id_!r:.40}", lambda id_=id_: store[id_])
                if clip is not None:
                    whole = self._check_clip(f"{what}: {id_!r:.40}", clip)
                    if whole is not None:
                        read.append((id_, whole))
        if rng is not None and read and self.vector.name != "many":
            self._check_batch(what, store, read, rng)

    def _check_clip(self, what: str, clip: StoreClip) -> Array | None:
        """Check that frames are unchanged, and equal one by one and together."""
        sound = self.vector.clips.get(clip.id)
        meta = self.attempt(f"{what}: meta", lambda: clip.meta)
        if self.is_sound and sound and meta is not None and meta != sound.meta:
            self.faults.append(f"{what}: other metadata, {meta!r:.80}")
        if clip.nbytes > MAX_NBYTES:  # it must be refused, or really be as large
            whole = self.attempt(f"{what}: all", lambda: clip[:3], message=DIFFERENT)
            return None
        whole = self.attempt(f"{what}: all", clip.read, message=DIFFERENT)
        count = min(len(clip), MAX_FRAMES)
        frames = [self.attempt(f"{what}: [{k}]", lambda k=k: clip[k]) for k in range(count)]
        self.attempt(f"{what}: images", clip.read_images)
        for k, frame in enumerate(frames):
            if frame is None:
                if whole is not None:
                    self.faults.append(f"{what}: frame {k} fails, all of them do not")
            elif whole is not None and not same(frame, whole[k, ...]):
                self.faults.append(f"{what}: frame {k} differs from that of all")
            elif self.is_sound and sound and not same(frame, sound.frames[k]):
                self.faults.append(f"{what}: frame {k} has another value")
        if self.is_sound and sound and len(clip) != len(sound.frames):
            self.faults.append(f"{what}: {len(clip)} frames")
        return whole

    def _check_batch(
        self, what: str, store: Any, read: list[tuple[str, Array]], rng: Random
    ) -> None:
        requests, expected = [], []
        for id_, whole in rng.sample(read, min(3, len(read))):
            selection: Any = slice(rng.randrange(3), None, rng.choice((1, 2, 3)))
            if len(whole) and rng.random() < 0.5:
                selection = [rng.randrange(len(whole)) for _ in range(3)]
            requests.append((id_, selection))
            expected.append(whole[selection])
        found = self.attempt(f"{what}: batch", lambda: store.read(requests, nthreads=1))
        if found is None or len(found) != len(expected) or not all(map(same, found, expected)):
            self.faults.append(f"{what}: {requests} give another value than alone")

    def _check_verify(self, rng: Random) -> None:
        report = self.attempt("verify", lambda: bp.verify(self.data, nthreads=1))
        if report is None:
            return
        str(report)
        if report.ok and not self.is_array:
            store = self.attempt("open what is sound", lambda: bp.frames.open(self.data))
            if store is None:
                self.faults.append("verify: nothing is wrong with what cannot be opened")

    def _check_recover(self, rng: Random) -> None:
        target = io.BytesIO()
        report = self.attempt("recover", lambda: bp.recover(self.data, target, nthreads=1))
        if report is None:
            if target.getvalue():
                self.faults.append("recover: it fails and leaves something behind")
            return
        again = self.attempt("verify what was recovered", lambda: bp.verify(target.getvalue()))
        if again is None or not again.ok:
            self.faults.append(f"recover: the new store is damaged: {again}")
            return
        if self.is_array:
            return
        with bp.frames.open(target.getvalue()) as store:
            self.check_store("recovered", store, None)

    def _check_append(self, rng: Random) -> None:
        """Append to the damaged store; everything readable before must be readable afterwards."""
        path = self.folder / "damaged.blp"
        path.write_bytes(self.data)
        frames = np.full((2, 3, 5), rng.randrange(250), "u1")
        store = self.attempt("open to append", lambda: bp.frames.open(path, "a"))
        if store is None:
            return
        with store:
            before = list(self.attempt("ids", lambda: list(store)) or [])
            self.attempt("append", lambda: store.append("new", frames), message="already")
            is_there = "new" in store
        with bp.frames.open(path) as store:
            ids = self.attempt("ids after an append", lambda: list(store))
            if is_there and ids is not None and ids != [*before, "new"]:
                self.faults.append(f"append: {len(ids)} clips after {len(before)} and one")
            if is_there and not same(self.attempt("new", lambda: store["new"].read()), frames):
                self.faults.append("append: another value")

    def _check_many(self, rng: Random) -> None:
        other = store_vectors()[3].data if self.vector.name != "shared" else b""
        places = [self.data, other] if other else [self.data]
        many = self.attempt("several", lambda: bp.frames.open(places), message="must not share ids")
        if many is not None:
            with many:
                self.attempt("several: ids", lambda: list(many))
                again = pickle.loads(pickle.dumps(many))
                with again:
                    if len(again) != len(many):
                        self.faults.append("several: others once pickled")


def same(one: Any, two: Any) -> bool:
    """Return whether two arrays are equal to the bit."""
    one, two = np.asarray(one), np.asarray(two)
    return (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())
