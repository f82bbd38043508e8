"""Data: examples as a pure function of task, seed and step; a slice for each laboratory, `icl` and `tokens`."""
