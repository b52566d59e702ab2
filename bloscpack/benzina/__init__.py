"""Benzina datasets: pictures, targets and names in one mp4, each picture an mp4 of its own."""
