"""Show, a look at heads: one file in which one picks a head and sees what it does.

* `look_page`: the page; `look_data`: what a model's part of it holds; `paged_arrays`: numbers packed into it;
* `moments`: the heads of a run while it trained; `links`: sentences in which heads are links;
* `composed`: what a head composes with.
"""
