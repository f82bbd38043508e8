"""Base: errors, files, identity, random streams, words and torch's set-up, under everything else."""
