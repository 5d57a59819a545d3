"""Looking inside: traces of guests and dumps of what engines make of them."""
