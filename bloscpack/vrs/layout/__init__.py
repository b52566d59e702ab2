"""Data layouts: definitions of metadata blocks, and their decoding and encoding."""
