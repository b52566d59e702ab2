"""Codecs of single pictures: H.265, H.264 and AV1, their headers and their pixels."""
