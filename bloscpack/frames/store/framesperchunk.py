"""How many frames a chunk of a frame store holds: one, unless frames are small.

Pure. Groups of video are not chosen here: they are those of the encoder, or of the packets.
"""

MAX_GROUP = 255  # one byte in the format of a clip
# Frames smaller than this share a chunk of about this many bytes.
_SMALL_FRAME_NBYTES = 512
_GROUP_NBYTES = 4096
# Raw frames smaller than this share a digest. The first read of a frame reads all frames of its
# digest, and each digest costs about 1 us.
_RAW_GROUP_NBYTES = 1 << 17


def frames_per_chunk(frame_nbytes: int) -> int:
    """Return the number of frames of this decoded size that share a lossless chunk."""
    if not 0 < frame_nbytes < _SMALL_FRAME_NBYTES:
        return 1
    return min(_GROUP_NBYTES // frame_nbytes, MAX_GROUP)


def raw_frames_per_chunk(frame_nbytes: int) -> int:
    """Return the number of raw frames of this size that share a digest."""
    return max(1, min(_RAW_GROUP_NBYTES // frame_nbytes, MAX_GROUP))
