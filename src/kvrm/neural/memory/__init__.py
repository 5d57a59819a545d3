"""Which lines a program touches next: traces, a cache model, table prefetchers, and a network for each site."""
