"""Staged system calls: what needs only a lane's words and memory, without Python, on every target."""
