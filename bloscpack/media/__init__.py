"""Images and videos, decoded and encoded in this process."""
