"""The network for loops: its data, training and evaluation beside the other policies."""
