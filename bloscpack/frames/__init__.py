"""Clips of frames: the frame store, and every other source of frames, opened by what it is."""

from ..detect import create_frames as create
from ..detect import open_frames as open  # noqa: A004
from .clip import StoreClip
from .protocol import Clip, FrameSource
from .reader import FrameStore

__all__ = ["Clip", "FrameSource", "FrameStore", "StoreClip", "create", "open"]
