"""VRS recordings in frame stores: each field, and the frames, of each stream as a clip."""

from .recording import StoredRecording, is_recording_store
from .transfer import PRESET, RecordingCopy, restore_recording, store_recording

__all__ = [
    "PRESET",
    "RecordingCopy",
    "StoredRecording",
    "is_recording_store",
    "restore_recording",
    "store_recording",
]
