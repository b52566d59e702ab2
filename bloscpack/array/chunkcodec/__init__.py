"""Choice of maps, predictors and coders for array chunks, and their encoding."""
