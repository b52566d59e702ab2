"""Layouts with the names and types that readers of VRS look for, to be subclassed or used as is.

Labels and types are part of the format: docs/formats/vrs.md, "Conventions".
"""

from .schema import Layout, String, Value


class ImageLayout(Layout):
    """What describes the images of a stream, in the record or in its configuration record.

    A reader needs the sizes and the pixel format of an image/raw block to make an array of it.
    """

    image_width = Value("uint32_t")
    image_height = Value("uint32_t")
    image_stride = Value("uint32_t", optional=True)
    image_stride_2 = Value("uint32_t", optional=True)
    image_pixel_format = Value("uint32_t")
    image_codec_name = String(optional=True)
    image_codec_quality = Value("uint32_t", optional=True)


class VideoFrameLayout(Layout):
    """What a frame of a video refers to; stands right before the image block."""

    image_key_frame_timestamp = Value("double")
    image_key_frame_index = Value("uint32_t")


class AudioLayout(Layout):
    """What describes the samples of a stream, right before the audio block or in a configuration.

    Formats are numbers of the format: of `AudioFormat` (1, PCM, when left out), of `SampleFormat`.
    """

    audio_format = Value("uint8_t", optional=True)
    audio_sample_format = Value("uint8_t")
    audio_sample_stride = Value("uint8_t", optional=True)
    audio_channel_count = Value("uint8_t")
    audio_sample_rate = Value("uint32_t")
    audio_sample_count = Value("uint32_t", optional=True)
    audio_stereo_pair_count = Value("uint8_t", optional=True)


class NextBlockLayout(Layout):
    """The size in bytes of the block that follows right behind, where the format does not say."""

    next_content_block_size = Value("uint32_t")
