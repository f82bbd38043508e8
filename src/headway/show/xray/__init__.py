"""Show, the x-ray of a finished model: its `page`, and the `drawing` of what was found.

`pair_maps` and `composition_maps` are figures in it.
"""
