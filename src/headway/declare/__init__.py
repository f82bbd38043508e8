"""Declare: what is to be run, as frozen values."""
