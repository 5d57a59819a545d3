"""The machine: architectural state, how it is run, and what a run gives back."""
