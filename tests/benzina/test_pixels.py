"""Every picture of Benzina's own files: hashes of its planes, points and means of its RGB."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bloscpack.benzina.codec.colour import benzina_coefficients
from bloscpack.benzina.codec.decoder import Decoder
from bloscpack.benzina.codec.planes import Planes, decode_rgb, warp_planes
from bloscpack.benzina.mp4.samplelayout import InnerTrack, parse_sample
from tests.benzina import vectors

pytest.importorskip("av", reason="no PyAV")

TRACKS = ("bzna_input", "bzna_thumb")


def pictures() -> list[tuple[str, int]]:
    """Return (file, index) of all samples with known pixels."""
    found = [(name, 0) for name in vectors.names("input_sample")]
    for name in vectors.names("dataset"):
        found += [(name, index) for index in range(len(vectors.facts(name).get("samples", ())))]
    return found


def sample(name: str, index: int) -> tuple[dict[str, Any], bytes]:
    """Return the manifest's description of a sample, and its bytes."""
    facts, data = vectors.facts(name), vectors.data(name)
    if facts["kind"] == "input_sample":
        return facts, data
    facts = facts["samples"][index]
    return facts, data[facts["offset"] : facts["offset"] + facts["size"]]


@pytest.fixture(scope="module")
def decoder() -> Iterator[Decoder]:
    decoder = Decoder()
    yield decoder
    decoder.close()


def decoded(decoder: Decoder, track: InnerTrack, data: bytes) -> Planes:
    payload = data[track.offset : track.offset + track.nbytes]
    return decoder.decode(track.config_kind, track.config, payload, track.frame, track.clean)


def sha256(*planes: Any) -> str:
    return hashlib.sha256(b"".join(plane.tobytes() for plane in planes)).hexdigest()


@pytest.mark.parametrize("track", TRACKS)
@pytest.mark.parametrize(("name", "index"), pictures())
def test_pixels(decoder: Decoder, name: str, index: int, track: str) -> None:
    facts, data = sample(name, index)
    wanted = facts["pixels"][track]
    planes = decoded(decoder, parse_sample(data).tracks[track], data)
    y, u, v = planes[:3]
    assert u is not None
    assert v is not None
    hashes = [sha256(plane) for plane in (y, u, v)]
    assert hashes == [wanted[f"sha256_{plane}"] for plane in "yuv"]
    assert sha256(y, u, v) == wanted["sha256_i420_full"]
    assert planes.full_range == wanted["full_range"]
    # Pictures made from JPEG declare BT.601; PNG and pictures made from it declare nothing.
    assert planes.matrix in ((5,) if "jpeg" in name else (2, 5))
    assert planes.subsampling == "4:2:0"
    rgb = decode_rgb(planes)
    assert list(rgb.shape) == [*wanted["clean"][::-1], 3]
    means = rgb.mean(axis=(0, 1), dtype=np.float64)
    np.testing.assert_allclose(means, wanted["rgb_mean"], atol=0.05)
    for x, y_, *channels in wanted["rgb_points_xyrgb"]:
        assert np.abs(rgb[y_, x].astype(int) - channels).max() <= 1


def kernel_cases() -> list[dict[str, Any]]:
    path = vectors.FOLDER / "transforms.json"
    if not path.exists():
        return []
    cases: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["kernel"]["cases"]
    return cases


@pytest.mark.parametrize("index", range(len(kernel_cases())))
def test_benzinas_kernel(decoder: Decoder, index: int) -> None:
    stated = json.loads((vectors.FOLDER / "transforms.json").read_text("utf-8"))["kernel"]
    case = stated["cases"][index]
    _, data = sample(stated["file"], 0)
    planes = decoded(decoder, parse_sample(data).tracks[stated["track"]], data)
    scale = np.array(case.get("scale", (1, 1, 1)))
    out = np.empty((3, *case["out_hw"]), np.float32)
    warp_planes(
        planes,
        out,
        case["H"],
        bias=case.get("bias", (0, 0, 0)),
        scale=scale.tolist(),
        outside=case.get("oob", (0, 0, 0)),
        matrix=benzina_coefficients(case.get("matrix", 0)),
        padding="smear",
    )
    for (x, y), wanted in zip(case["points_xy"], case["rgb"], strict=True):
        assert np.abs((out[:, y, x] - wanted) / scale).max() <= 1
