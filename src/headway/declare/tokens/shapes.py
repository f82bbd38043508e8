"""Declare: published models as declarations, to see where parameters go as models grow.

Only their shapes; weights are loaded from folders (`headway.hf.load`).

Paper: Radford et al. 2019 (GPT-2); Black et al. 2021 (GPT-Neo); Brown et al. 2020 (GPT-3, arXiv 2005.14165); Zhang
et al. 2022 (OPT, arXiv 2205.01068), whose 6.7B model has the shape of GPT-3's; Touvron et al. 2023 (Llama, arXiv
2302.13971); Mehta et al. 2024 (OpenELM, arXiv 2404.14619), here without its norms of queries and keys, 2,048 numbers.
"""

from dataclasses import dataclass

from headway.declare.tokens.budget import parameters_by_part
from headway.declare.tokens.transformer import Bias, Gpt2, GptNeo, Llama, TransformerModel


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A published model: its architecture and its vocabulary."""

    title: str
    model: TransformerModel
    vocab_size: int

    @property
    def parameters(self) -> dict[str, int]:
        """How many numbers are trained, by part."""
        return parameters_by_part(self.model, self.vocab_size)


def _gpt2(title: str, *, d_model: int, n_layers: int, n_heads: int, n_positions: int = 1024) -> Shape:
    model = Gpt2(family="gpt-2", d_model=d_model, n_layers=n_layers, n_heads=n_heads, n_positions=n_positions)
    return Shape(title=title, model=model, vocab_size=50257)


def _opt(title: str, *, d_model: int, n_layers: int, n_heads: int) -> Shape:
    biases: tuple[Bias, ...] = ("qkv", "output", "mlp")
    model = TransformerModel(
        # OPT's positions begin at 2.
        d_model=d_model, n_layers=n_layers, n_heads=n_heads, n_positions=2050, mlp="relu", biases=biases
    )  # fmt: skip
    return Shape(title=title, model=model, vocab_size=50272)


SHAPES: dict[str, Shape] = {
    "gpt2": _gpt2("GPT-2 124M", d_model=768, n_layers=12, n_heads=12),
    "gpt-neo-125m": Shape(
        title="GPT-Neo 125M", model=GptNeo(family="gpt-neo", d_model=768, n_layers=12, n_heads=12), vocab_size=50257
    ),
    "openelm-270m": Shape(
        title="OpenELM 270M",
        model=Llama(
            family="llama",
            d_model=1280,
            n_layers=16,
            n_heads="openelm(0.5, 1.0)",
            d_head=64,
            d_mlp="openelm(0.5, 4.0)",
            tied=True,
        ),
        vocab_size=32000,
    ),
    "gpt2-medium": _gpt2("GPT-2 355M", d_model=1024, n_layers=24, n_heads=16),
    "gpt2-large": _gpt2("GPT-2 774M", d_model=1280, n_layers=36, n_heads=20),
    "opt-1.3b": _opt("OPT 1.3B", d_model=2048, n_layers=24, n_heads=32),
    "gpt2-xl": _gpt2("GPT-2 1.6B", d_model=1600, n_layers=48, n_heads=25),
    "gpt3-6.7b": _gpt2("GPT-3 6.7B", d_model=4096, n_layers=32, n_heads=32, n_positions=2048),
    "opt-6.7b": _opt("OPT 6.7B", d_model=4096, n_layers=32, n_heads=32),
    "llama-7b": Shape(
        title="Llama 7B",
        model=Llama(family="llama", d_model=4096, n_layers=32, n_heads=32, d_mlp=11008),
        vocab_size=32000,
    ),
}
"""Published shapes by name, from small to large."""
