"""VRS recordings in frame stores: each field, and the frames, of each stream as a clip."""

from .storecopy import PRESET, RecordingCopy, restore_recording, store_recording
from .storedrecording import StoredRecording, is_recording_store

__all__ = [
    "PRESET",
    "RecordingCopy",
    "StoredRecording",
    "is_recording_store",
    "restore_recording",
    "store_recording",
]
