"""Recordings as files, JSON and checksums."""
