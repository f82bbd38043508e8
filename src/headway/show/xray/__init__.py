"""Show, the x-ray of a finished model.

* `page`: its page and the files beside it;
* `drawing`: its tables and figures; `pair_maps`, `composition_maps`: of pairs of heads in a layer, and across layers.
"""
