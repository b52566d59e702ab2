"""Blocks of a record: images, audio and their pixels."""
