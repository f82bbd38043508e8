"""Files, hashes, random streams and wording for all other folders.

* `files`: atomic writes, and safe paths inside a results directory; `identity`: the hash of a JSON value;
* `rng`: a random stream for each seed and purpose; `text`: numbers and lists written for a sentence;
* `process`: commands that are run and read;
* `words`: verdicts as values, and the template of each kind of sentence on them;
* `torch_setup`: torch set up before its import, without its compiler where nothing is compiled.
"""
