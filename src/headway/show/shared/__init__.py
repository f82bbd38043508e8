"""Show, what pages share: a `figure`, its `theme` and its `files`; a `page`; names, colours and the atlas."""
