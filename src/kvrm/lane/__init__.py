"""A lane, one guest machine, as every engine and target has it."""
