"""PyAV alone: H.265 pictures are decoded and dropped, and pictures encoded and dropped."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from typing import Any

import av
import numpy as np
from race.races import Contender, Task, exhaust, require
from race.timing import Call

from benzina.checks import read_wanted, require_lumas
from benzina.contenders import BARE, LOAD, PACK
from bloscpack import benzina
from bloscpack.benzina.codec.picture import yuv_planes
from bloscpack.benzina.mp4.format import THUMB

_RATE = 20
_X265 = "bframes=0:keyint=1:no-info=1:log-level=none:pools=none:frame-threads=1"
_TOLERANCE = 0.02


class Bare(Contender):
    """A decoder for each thread, which stays open, and an encoder for each picture."""

    note = (
        "a decoder of PyAV for each thread, which stays open and is given payloads that are in "
        "memory, one after the other; an encoder for each picture, a YUV frame in memory, with no "
        "threads of its own; results are dropped"
    )
    works = (LOAD, PACK)

    def version(self) -> str:
        libavcodec = ".".join(map(str, av.library_versions["libavcodec"]))
        return f"PyAV {av.__version__} with libavcodec {libavcodec}"

    def load(self, task: Task, stack: ExitStack) -> Call:
        av.logging.set_level(None)
        config, payloads = _read_payloads(task)
        lumas = map(_luma, _frames(_open_decoder(config), payloads))
        require_lumas(lumas, task, self.name, len(payloads))
        nthreads = task["nthreads"]
        pool = stack.enter_context(ThreadPoolExecutor(nthreads))
        decoders = [_open_decoder(config) for _ in range(nthreads)]
        shares = [payloads[first::nthreads] for first in range(nthreads)]

        def decode(decoder: Any, share: list[bytes]) -> None:
            exhaust(_frames(decoder, share))

        return lambda: exhaust(pool.map(decode, decoders, shares))

    def pack(self, task: Task, stack: ExitStack) -> Call:
        av.logging.set_level(None)
        pictures = read_wanted(task)[: task["npacked"]]
        frames = [_make_frame(picture, task["tile"]) for picture in pictures]
        pool = stack.enter_context(ThreadPoolExecutor(task["nthreads"]))
        encode = partial(_encode, crf=task["crf"])
        packets = list(pool.map(encode, frames))
        lumas = map(_luma, _frames(_open_decoder(), packets))
        require_lumas(lumas, task, self.name, len(frames))
        # Other sizes mean another quality, which takes another time.
        nbytes, wanted = sum(map(_picture_nbytes, packets)), task["payload_nbytes"]
        is_equal = abs(nbytes - wanted) <= _TOLERANCE * wanted
        require(is_equal, self.name, f"the size of all packets, {nbytes} and not {wanted},")
        return lambda: list(pool.map(encode, frames))


def _open_decoder(config: bytes | None = None) -> Any:
    decoder = av.CodecContext.create("hevc", "r")
    decoder.extradata = config
    decoder.thread_count, decoder.thread_type = 1, "NONE"
    decoder.open()
    return decoder


def _frames(decoder: Any, payloads: Iterable[bytes]) -> Iterator[Any]:
    for payload in payloads:
        yield from decoder.decode(av.Packet(payload))
    yield from decoder.decode(None)
    decoder.flush_buffers()


def _encode(frame: Any, crf: int) -> bytes:
    encoder = av.CodecContext.create("libx265", "w")
    encoder.width, encoder.height = frame.width, frame.height
    encoder.pix_fmt = frame.format.name
    encoder.time_base, encoder.framerate = Fraction(1, _RATE), _RATE
    encoder.gop_size, encoder.max_b_frames = 1, 0
    encoder.options = {"preset": "medium", "crf": str(crf), "x265-params": _X265}
    (packet,) = encoder.encode(frame) + encoder.encode(None)
    return bytes(packet)


def _picture_nbytes(packet: bytes) -> int:
    return 1 + len(packet) - packet.rindex(b"\0\0\1")


def _make_frame(picture: np.ndarray, tile: int) -> Any:
    frame = av.VideoFrame(tile, tile, "yuvj420p")
    for plane, pixels in zip(frame.planes, yuv_planes(picture, tile, tile), strict=True):
        rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
        rows[:, : pixels.shape[1]] = pixels
    return frame


def _luma(frame: Any) -> np.ndarray:
    plane = frame.planes[0]
    rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
    return rows[:, : plane.width]


def _read_payloads(task: Task) -> tuple[bytes, list[bytes]]:
    with benzina.open(task["path"]) as dataset:
        samples = list(dataset.samples())
        configs = {sample.layout.tracks[THUMB].config for sample in samples}
        require(len(configs) == 1, BARE, "the only decoder configuration")
        return configs.pop(), [sample.read_track(THUMB) for sample in samples]
