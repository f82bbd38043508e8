"""Show: pictures and pages, made from run folders alone."""
