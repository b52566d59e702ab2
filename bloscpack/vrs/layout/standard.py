"""Layouts with the labels and types that VRS readers look for, to be used as is or subclassed.

Labels and types are part of the format: docs/formats/vrs.md, "Conventions".
"""

from .schema import Layout, String, Value


class ImageLayout(Layout):
    """Description of the images of a stream, in the record or in its configuration record.

    A reader needs the sizes and pixel format of an image/raw block to return it as an array.
    """

    image_width = Value("uint32_t")
    image_height = Value("uint32_t")
    image_stride = Value("uint32_t", optional=True)
    image_stride_2 = Value("uint32_t", optional=True)
    image_pixel_format = Value("uint32_t")
    image_codec_name = String(optional=True)
    image_codec_quality = Value("uint32_t", optional=True)


class VideoFrameLayout(Layout):
    """Key frame of a video frame; stands right before the image block."""

    image_key_frame_timestamp = Value("double")
    image_key_frame_index = Value("uint32_t")


class AudioLayout(Layout):
    """Description of audio samples, right before the audio block or in a configuration record.

    ``audio_format`` is a number of `AudioFormat` (default 1, PCM), ``audio_sample_format`` a number
    of `SampleFormat`.
    """

    audio_format = Value("uint8_t", optional=True)
    audio_sample_format = Value("uint8_t")
    audio_sample_stride = Value("uint8_t", optional=True)
    audio_channel_count = Value("uint8_t")
    audio_sample_rate = Value("uint32_t")
    audio_sample_count = Value("uint32_t", optional=True)
    audio_stereo_pair_count = Value("uint8_t", optional=True)


class NextBlockLayout(Layout):
    """Size in bytes of the block right after this one, if the record format does not give it."""

    next_content_block_size = Value("uint32_t")
