"""Show, in a terminal: what an experiment would cost (`plan`, `shapes`), and how far it is (`progress`, in `rows`)."""
