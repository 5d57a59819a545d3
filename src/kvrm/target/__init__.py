"""Where code runs."""
