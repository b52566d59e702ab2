"""Blocks of a record: images, pixels and audio."""
