"""Heads: what heads cause."""
