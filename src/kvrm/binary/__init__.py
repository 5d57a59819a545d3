"""Functions of a binary: where they are, which known ones they may be, and what comes of it if they are."""
