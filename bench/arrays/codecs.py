"""Codecs of numbers and of pictures; their files have no headers."""

import numpy as np

from arrays.contenders import Codec
from arrays.data import Sample

_SIZE_NBYTES = 4  # of a picture, in front of it


class PCodec(Codec):
    note = "pcodec at its default level: one dimension, items of 2 to 8 bytes"
    libraries = "pcodec {pcodec}"
    modules = ("pcodec",)
    itemsizes = (2, 4, 8)
    level = 8

    def encode(self, array: np.ndarray) -> bytes:
        config = self.lib.ChunkConfig(compression_level=self.level)
        return self.lib.standalone.simple_compress(array.reshape(-1), config)

    def read(self, handle: bytes, like: np.ndarray) -> np.ndarray:
        out = np.empty_like(like)
        self.lib.standalone.simple_decompress_into(handle, out.reshape(-1))
        return out


class OpenZL(Codec):
    note = "its generic graph on numbers of one dimension, with its defaults"
    libraries = "openzl {openzl}"
    modules = ("openzl.ext",)

    def encode(self, array: np.ndarray) -> bytes:
        zl = self.lib
        compressor, context = zl.Compressor(), zl.CCtx()
        compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
        compressor.select_starting_graph(zl.graphs.Compress()(compressor))
        context.ref_compressor(compressor)
        items = array.reshape(-1).view(f"u{array.itemsize}")
        return context.compress([zl.Input(zl.Type.Numeric, items)])

    def read(self, handle: bytes, like: np.ndarray) -> np.ndarray:
        (output,) = self.lib.DCtx().decompress(handle)
        return output.content.as_nparray().view(like.dtype).reshape(like.shape)


class FpZip(Codec):
    note = "without loss: floats of 4 and 8 bytes, up to 4 dimensions"
    libraries = "fpzip {fpzip}"
    modules = ("fpzip",)

    def suited(self, sample: Sample) -> np.ndarray | None:
        return sample.array if sample.array.dtype in ("f4", "f8") else None

    def encode(self, array: np.ndarray) -> bytes:
        return self.lib.compress(array)

    def read(self, handle: bytes, like: np.ndarray) -> np.ndarray:
        return self.lib.decompress(handle).reshape(like.shape)


class JpegXL(Codec):
    note = "lossless, effort 3, through imagecodecs: pictures of 8 and 16 bits, slice by slice"
    libraries = "imagecodecs {imagecodecs}"
    modules = ("imagecodecs",)

    def suited(self, sample: Sample) -> np.ndarray | None:
        return sample.array if sample.is_picture else None

    def encode(self, array: np.ndarray) -> bytes:
        encode = self.lib.jpegxl_encode
        pictures = [
            encode(_signs_flipped(picture), lossless=True, effort=3, numthreads=1)
            for picture in _pictures(array)
        ]
        return b"".join(len(one).to_bytes(_SIZE_NBYTES, "little") + one for one in pictures)

    def read(self, handle: bytes, like: np.ndarray) -> np.ndarray:
        out, at = np.empty_like(like), 0
        for picture in _pictures(out):
            start = at + _SIZE_NBYTES
            at = start + int.from_bytes(handle[at:start], "little")
            pixels = self.lib.jpegxl_decode(handle[start:at], numthreads=1)
            picture[...] = _signs_flipped(pixels.view(like.dtype)).view(like.dtype)
        return out


def _pictures(array: np.ndarray) -> np.ndarray:
    """Return a view with the pictures along the first axis."""
    return array.reshape(-1, *array.shape[-3 if array.shape[-1] == 3 else -2 :])


def _signs_flipped(pixels: np.ndarray) -> np.ndarray:
    """Return signed pixels as unsigned ones in the same order, or these as they were."""
    unsigned = pixels.view(f"u{pixels.itemsize}")
    return unsigned ^ unsigned.dtype.type(1 << 15) if pixels.dtype.kind == "i" else unsigned
