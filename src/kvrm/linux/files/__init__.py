"""What a guest sees of files: trees of the host, an overlay in memory, and open file descriptions."""
