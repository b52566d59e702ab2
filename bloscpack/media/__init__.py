"""Decoding and encoding of images and videos, in this process."""
