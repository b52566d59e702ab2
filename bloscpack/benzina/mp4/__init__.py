"""The mp4 files of a dataset and of each picture: boxes, tracks and tables."""
