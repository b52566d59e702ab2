"""Loaders for training: batches of pictures, decoded, warped and normalized."""
