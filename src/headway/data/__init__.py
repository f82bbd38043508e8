"""Data: examples as a pure function of task, seed and step."""
