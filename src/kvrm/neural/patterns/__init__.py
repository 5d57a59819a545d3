"""Patterns: which known library function a piece of code is. Proposals are tested before anything uses them."""
