"""Patterns: which known library function a piece of code is. What is proposed is tested before it is used."""
