"""Loops: finding them, checking exactly what a policy says that they do, and skipping their iterations."""
