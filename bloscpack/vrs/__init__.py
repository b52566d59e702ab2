"""VRS recordings: records of many sensors with time stamps, in streams that describe themselves."""
