"""NVIDIA GPUs: PTX from the same staged handlers."""
