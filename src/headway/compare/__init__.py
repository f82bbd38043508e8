"""Compare: seeds, pairs, intervals and verdicts."""
