"""What the files of /proc and /sys say."""
