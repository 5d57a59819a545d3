"""The interpreter: one native function per handler, chained by tail calls over predecoded pages."""
