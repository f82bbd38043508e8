"""Finished models: whoever wrote them, opened (`opened`, `checkpoints`), and measured on a text (`xray`)."""
