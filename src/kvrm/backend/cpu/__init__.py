"""The host's processors: lanes in native code, one after another on each thread."""
