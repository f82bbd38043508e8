"""Show, what pages share.

* `page`: one HTML file that fetches nothing; `model_page`: that of a finished model on a text;
* `figure`: a chart and its words; `figure_files`: figures as files;
* `theme`, `head_colours`, `labels`: how all figures look;
* `atlas`, `animation`, `parameters`, `summary`, `table`: drawings and numbers that several pages have.
"""
