"""Heads: the methods of pruning, by name."""

from collections.abc import Mapping

from headway.heads.causes.importance import Order, ablation, alike, at_random, magnitude, taylor
from headway.heads.causes.learned import budget, gates

METHODS: Mapping[str, Order] = {
    "taylor": taylor,
    "ablation": ablation,
    "gates": gates,
    "budget": budget,
    "alike": alike,
    "magnitude": magnitude,
    "random": at_random,
}
