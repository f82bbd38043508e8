"""Heads: the methods of pruning, by name."""

from collections.abc import Mapping

from headway.heads.causes.importance import Order, ablation, alike, alike_either, at_random, magnitude, output, taylor
from headway.heads.causes.learned import budget, gates

METHODS: Mapping[str, Order] = {
    "taylor": taylor,
    "ablation": ablation,
    "gates": gates,
    "budget": budget,
    "alike": alike,
    "alike-either": alike_either,
    "output": output,
    "magnitude": magnitude,
    "random": at_random,
}
