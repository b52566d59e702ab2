"""Size, depth and colours of pictures from the sequence headers of H.265 and H.264.

Fields before the wanted ones are skipped according to ITU-T H.265 (11/2019) 7.3.2.2 and E.2.1, and
ITU-T H.264 (06/2019) 7.3.2.1.1 and E.1.1. Every count is limited as in the standards.
"""

from typing import NamedTuple

from ...exceptions import FormatError
from .bitreader import BitReader, unescape

HEVC, H264, AV1 = "hevc", "h264", "av1"
# Upper limit for a sequence header in bytes; the longest valid ones take a few kilobytes.
_MAX_NBYTES = 8192
# Larger than the edges in any level of the codecs, but small enough that products stay small.
_MAX_EDGE = (1 << 16) - 1
# Code points of ITU-T H.273, "MatrixCoefficients".
MATRIX_RGB, MATRIX_BT709, MATRIX_UNSPECIFIED = 0, 1, 2
MATRIX_BT470BG, MATRIX_BT601, MATRIX_BT2020 = 5, 6, 9
# H.264 profiles whose parameters specify a chroma format: 7.3.2.1.1.
_H264_HIGH = {44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244}
# Code of a sample aspect ratio that is written out: H.265 table E.1.
_EXTENDED_SAR = 255
# By chroma_format_idc: luma samples per chroma sample, across and down.
_SUBSAMPLING = ((1, 1), (2, 2), (2, 1), (1, 1))


class PictureInfo(NamedTuple):
    """The form of the pictures of a sequence.

    Attributes
    ----------
    codec : str
        "hevc", "h264" or "av1".
    width, height : int
        Size of the output picture in pixels.
    coded_width, coded_height : int
        Size of the decoded picture, before cropping.
    bit_depth : int
        Bits per luma sample.
    chroma : int
        0 is grey, 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    full_range : bool
        Whether samples use all values, not only 16 to 235 (luma) and 16 to 240 (chroma) of 8 bits.
    matrix : int
        Code point of ITU-T H.273: 0 is RGB in planes G, B, R; 1 is BT.709, 2 is unspecified,
        5 and 6 are BT.601, 9 is BT.2020.
    """

    codec: str
    width: int
    height: int
    coded_width: int
    coded_height: int
    bit_depth: int
    chroma: int
    full_range: bool
    matrix: int


class HevcSequence(NamedTuple):
    """Fields of an H.265 SPS that the decoder configuration repeats.

    Attributes
    ----------
    picture : PictureInfo
        The form of the pictures.
    profile : bytes
        general_profile_space to general_level_idc: 12 bytes.
    nlayers : int
        Number of temporal sub-layers.
    is_nested : bool
        sps_temporal_id_nesting_flag.
    chroma_depth : int
        Bits per chroma sample.
    """

    picture: PictureInfo
    profile: bytes
    nlayers: int
    is_nested: bool
    chroma_depth: int


class H264Sequence(NamedTuple):
    """Fields of an H.264 SPS that the decoder configuration repeats.

    Attributes
    ----------
    picture : PictureInfo
        The form of the pictures.
    is_high : bool
        Whether the SPS specifies chroma format and depths.
    chroma_depth : int
        Bits per chroma sample.
    """

    picture: PictureInfo
    is_high: bool
    chroma_depth: int


def _reader(unit: bytes, what: str) -> BitReader:
    if len(unit) > _MAX_NBYTES:
        raise FormatError(f"{what}: {len(unit)} bytes, at most {_MAX_NBYTES} are allowed")
    return BitReader(unescape(unit), what)


def _crop(reader: BitReader, width: int, height: int, units: tuple[int, int]) -> tuple[int, int]:
    """Read a cropping rectangle and return the size that remains."""
    edges = [reader.unsigned(_MAX_EDGE, "cropping") for _ in range(4)]
    across, down = (edges[0] + edges[1]) * units[0], (edges[2] + edges[3]) * units[1]
    if across >= width or down >= height:
        raise FormatError(
            f"{reader.what}: cropping {across} x {down} pixels of a picture of {width} x {height}",
            field="cropping",
        )
    return width - across, height - down


def _colours(reader: BitReader) -> tuple[bool, int]:
    """Read the start of the video usability information; return (full range, matrix)."""
    if reader.flag() and reader.bits(8) == _EXTENDED_SAR:
        reader.skip(32)
    if reader.flag():
        reader.skip(1)
    full_range, matrix = False, MATRIX_UNSPECIFIED
    if reader.flag():
        reader.skip(3)
        full_range = reader.flag()
        if reader.flag():
            reader.skip(16)
            matrix = reader.bits(8)
    return full_range, matrix


def unpack_hevc_sps(unit: bytes) -> HevcSequence:
    """Parse a sequence parameter set of H.265.

    Parameters
    ----------
    unit : bytes
        The NAL unit with its 2-byte header.

    Returns
    -------
    HevcSequence

    Raises
    ------
    FormatError, TruncatedError
        The SPS is malformed.
    """
    reader = _reader(unit, "SPS of H.265")
    reader.skip(16 + 4)
    nlayers = reader.bits(3) + 1
    is_nested = reader.flag()
    profile = reader.bits(96).to_bytes(12, "big")
    _skip_sublayers(reader, nlayers)
    reader.unsigned(15, "sps_seq_parameter_set_id")
    chroma = reader.unsigned(3, "chroma_format_idc")
    # Separately coded planes are treated as grey ones: 7.4.3.2.1.
    units = _SUBSAMPLING[chroma]
    if chroma == 3 and reader.flag():
        units = (1, 1)
    coded_width = _check_edge(reader, reader.unsigned(_MAX_EDGE, "pic_width_in_luma_samples"))
    coded_height = _check_edge(reader, reader.unsigned(_MAX_EDGE, "pic_height_in_luma_samples"))
    width, height = coded_width, coded_height
    if reader.flag():
        width, height = _crop(reader, width, height, units)
    depth = 8 + reader.unsigned(8, "bit_depth_luma_minus8")
    chroma_depth = 8 + reader.unsigned(8, "bit_depth_chroma_minus8")
    _skip_hevc_tools(reader, nlayers)
    full_range, matrix = _colours(reader) if reader.flag() else (False, MATRIX_UNSPECIFIED)
    picture = PictureInfo(
        HEVC, width, height, coded_width, coded_height, depth, chroma, full_range, matrix
    )
    return HevcSequence(picture, profile, nlayers, is_nested, chroma_depth)


def _check_edge(reader: BitReader, pixels: int) -> int:
    if not pixels:
        raise FormatError(f"{reader.what}: the picture has no pixels", field="size")
    return pixels


def _skip_sublayers(reader: BitReader, nlayers: int) -> None:
    """Skip the levels of sub-layers: 7.3.3."""
    if nlayers == 1:
        return
    present = [(reader.flag(), reader.flag()) for _ in range(nlayers - 1)]
    reader.skip(2 * (9 - nlayers))
    for has_profile, has_level in present:
        reader.skip(88 * has_profile + 8 * has_level)


def _skip_hevc_tools(reader: BitReader, nlayers: int) -> None:
    """Skip all fields between the depths and the usability information."""
    order_bits = 4 + reader.unsigned(12, "log2_max_pic_order_cnt_lsb_minus4")
    for _ in range(nlayers if reader.flag() else 1):
        for field in ("dec_pic_buffering", "num_reorder_pics", "latency_increase"):
            reader.unsigned((1 << 32) - 2, field)
    for _ in range(6):
        reader.unsigned(8, "log2 of a block size")
    if reader.flag() and reader.flag():
        _skip_hevc_scaling(reader)
    reader.skip(2)
    if reader.flag():
        reader.skip(8)
        reader.unsigned(8, "log2 of a PCM block size")
        reader.unsigned(8, "log2 of a PCM block size")
        reader.skip(1)
    pictures: list[int] = []
    for index in range(reader.unsigned(64, "num_short_term_ref_pic_sets")):
        pictures = _reference_set(reader, index, pictures)
    if reader.flag():
        for _ in range(reader.unsigned(32, "num_long_term_ref_pics_sps")):
            reader.skip(order_bits + 1)
    reader.skip(2)


def _skip_hevc_scaling(reader: BitReader) -> None:
    """Skip scaling lists: 7.3.4."""
    for size in range(4):
        for _ in range(2 if size == 3 else 6):
            if not reader.flag():
                reader.unsigned(5, "scaling_list_pred_matrix_id_delta")
                continue
            # The two larger sizes have one number more.
            for _ in range(min(64, 1 << (4 + 2 * size)) + (size > 1)):
                reader.signed("scaling_list_delta_coef")


def _reference_set(reader: BitReader, index: int, last: list[int]) -> list[int]:
    """Read a short-term reference picture set, 7.3.7: the distances, negative ones first.

    `last` is the previous set, from which this one may be derived: 7.4.8.
    """
    if index and reader.flag():
        sign = -1 if reader.flag() else 1
        shift = sign * (1 + reader.unsigned((1 << 15) - 1, "abs_delta_rps_minus1"))
        # The second flag says whether to keep a picture that the first one marks as unused.
        moved = [at + shift for at in [*last, 0] if reader.flag() or reader.flag()]
        before = sorted((at for at in moved if at < 0), reverse=True)
        return before + sorted(at for at in moved if at > 0)
    counts = [reader.unsigned(16, name) for name in ("num_negative_pics", "num_positive_pics")]
    distances = []
    for sign, count in zip((-1, 1), counts, strict=True):
        at = 0
        for _ in range(count):
            at += sign * (1 + reader.unsigned((1 << 15) - 1, "delta_poc_minus1"))
            reader.skip(1)
            distances.append(at)
    return distances


def unpack_h264_sps(unit: bytes) -> H264Sequence:
    """Parse a sequence parameter set of H.264.

    Parameters
    ----------
    unit : bytes
        The NAL unit with its 1-byte header.

    Returns
    -------
    H264Sequence

    Raises
    ------
    FormatError, TruncatedError
        The SPS is malformed.
    """
    reader = _reader(unit, "SPS of H.264")
    reader.skip(8)
    profile = reader.bits(8)
    reader.skip(16)
    reader.unsigned(31, "seq_parameter_set_id")
    is_high = profile in _H264_HIGH
    chroma, depth, chroma_depth, is_apart = 1, 8, 8, False
    if is_high:
        chroma = reader.unsigned(3, "chroma_format_idc")
        is_apart = chroma == 3 and reader.flag()
        depth = 8 + reader.unsigned(6, "bit_depth_luma_minus8")
        chroma_depth = 8 + reader.unsigned(6, "bit_depth_chroma_minus8")
        reader.skip(1)
        if reader.flag():
            _skip_h264_scaling(reader, 12 if chroma == 3 else 8)
    _skip_h264_order(reader)
    coded_width = 16 * (1 + reader.unsigned(_MAX_EDGE // 16, "pic_width_in_mbs_minus1"))
    rows = 1 + reader.unsigned(_MAX_EDGE // 16, "pic_height_in_map_units_minus1")
    fields = 1 if reader.flag() else 2
    if fields == 2:
        reader.skip(1)
    reader.skip(1)
    coded_height = 16 * rows * fields
    width, height = coded_width, coded_height
    if reader.flag():
        across, down = (1, 1) if is_apart else _SUBSAMPLING[chroma]
        width, height = _crop(reader, width, height, (across, down * fields))
    full_range, matrix = _colours(reader) if reader.flag() else (False, MATRIX_UNSPECIFIED)
    picture = PictureInfo(
        H264, width, height, coded_width, coded_height, depth, chroma, full_range, matrix
    )
    return H264Sequence(picture, is_high, chroma_depth)


def _skip_h264_scaling(reader: BitReader, count: int) -> None:
    """Skip scaling lists: 7.3.2.1.1.1."""
    for index in range(count):
        if not reader.flag():
            continue
        last = following = 8
        for _ in range(16 if index < 6 else 64):
            if following:
                following = (last + reader.signed("delta_scale")) & 0xFF
            last = following or last


def _skip_h264_order(reader: BitReader) -> None:
    """Skip the fields for the order of pictures."""
    reader.unsigned(12, "log2_max_frame_num_minus4")
    kind = reader.unsigned(2, "pic_order_cnt_type")
    if kind == 0:
        reader.unsigned(12, "log2_max_pic_order_cnt_lsb_minus4")
    elif kind == 1:
        reader.skip(1)
        reader.signed("offset_for_non_ref_pic")
        reader.signed("offset_for_top_to_bottom_field")
        for _ in range(reader.unsigned(255, "num_ref_frames_in_pic_order_cnt_cycle")):
            reader.signed("offset_for_ref_frame")
    reader.unsigned(16, "max_num_ref_frames")
    reader.skip(1)
