"""The network for patterns: its data set, training and evaluation beside the other policies."""
