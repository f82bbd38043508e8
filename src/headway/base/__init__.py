"""The ground: what every other room uses.

* `files`: files that are whole or absent, in folders that hold them in; `identity`: a hash of a JSON value;
* `rng`: a random stream for each seed and purpose; `text`: numbers in the words of a sentence;
* `torch_setup`: torch without its compiler, where nothing is compiled.
"""
