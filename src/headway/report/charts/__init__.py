"""What pages share.

* `page`: one HTML file that fetches nothing; `figure`: a chart, its words and its theme; `files`: figures as files;
* `atlas`: every head in a grid, coloured as in `heat_map`; `animation`: figures that move; `parameters`: where
  parameters go.
"""
