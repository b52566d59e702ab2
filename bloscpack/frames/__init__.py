"""Frames: the protocol of every source of clips, and the frame store."""
