"""Loops: finding them, proposing what they do, checking it exactly, and skipping their iterations."""
