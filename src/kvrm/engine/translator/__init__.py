"""The translator: hot regions of guest code become one native function each (DESIGN.md, section 2)."""
