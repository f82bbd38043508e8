"""Charts and page parts that all pages share.

* `page`: one HTML file that fetches nothing; `figure`: a chart, its words and its theme; `files`: figures as files;
* `atlas`: every head in a grid, with the colours of `heat_map`; `animation`: moving figures; `parameters`: parameters
  by part.
"""
