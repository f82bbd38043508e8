"""Charts and page parts that all pages share.

* `figure`: a chart, its words and its theme; `lines`, `intervals` and `maps`: the builders that make charts of rows;
* `page`: one HTML file that fetches nothing, and its figures as files;
* `atlas`: every head in a grid; `parameters`: parameters by part.
"""
