"""Show, the x-ray of a finished model.

* `page`: its page;
* `drawing`: its tables and figures; `pair_maps`, `composition_maps`: of pairs of heads in a layer, and across layers.
"""
