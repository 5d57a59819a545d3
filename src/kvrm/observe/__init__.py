"""Looking at lanes while they run: traces, accesses, profiles, and what engines compile."""
