"""The former place of the `worker`, which job scripts name."""
