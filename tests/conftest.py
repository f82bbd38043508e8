"""Shapes in signatures are executed: jaxtyping checks them with beartype in every test."""

from jaxtyping import install_import_hook

install_import_hook(["headway.data", "headway.heads", "headway.icl", "headway.model"], "beartype.beartype")
