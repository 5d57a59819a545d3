"""Caches: traces of memory accesses, an exact model of caches, and prefetchers at work on both."""
