"""Which lines a program touches next: traces, a cache model, table prefetchers, a network."""
