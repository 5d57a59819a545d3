"""Which execution class a word belongs to."""
