"""Data, the in-context laboratory: `prompts`, drawn in numpy or by `native` code to the same bits."""
