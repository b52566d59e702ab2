"""The mp4 structure of a dataset and of each picture: boxes, tracks and tables."""
