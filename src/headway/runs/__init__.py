"""Lab: run folders, and running many of them."""
