"""Train: a training run as an iterator of events."""
