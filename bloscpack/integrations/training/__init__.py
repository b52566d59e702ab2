"""Items and batches of clips for training: what the loaders of all libraries share."""
