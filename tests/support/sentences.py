"""One filled example of each sentence on results.

`python tests/support/sentences.py` writes them into `tests/base/sentences.txt`, so that a change of words is seen.
"""

from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

from headway.base import words
from headway.base.text import capital, filled

FILE = Path(__file__).parents[1] / "base" / "sentences.txt"

VERDICT = "4 heads vs 2 heads: better, evaluation loss −1.2 % (simultaneous 95 % CI −2.0 to −0.4; 5 seeds)"
LOOK = "interim analysis 2 of 4, 6 seeds: 3 of 5 settled"
EXAMPLES: dict[str, Any] = {
    "all": 12,
    "against": "constant",
    "also": "0.31 to 0.42",
    "amount": "1.2 %",
    "arm": "4 heads",
    "arms": "4 heads and 8 heads",
    "at": 180,
    "awaited": 6,
    "baseline": "2 heads",
    "baselines": "plain",
    "below": "so that the page stays below 20 MB",
    "best": 2.0,
    "change": "−1.2 %",
    "chance": "of about 80 %",
    "column": "lr",
    "columns": "a, b and c",
    "comparison": "at 180 heads, descending is 1.2 % better than constant, 95 % interval 0.4 to 2.0 %",
    "control": ", under bf16",
    "counts": "holds in 3, cannot be told in 1",
    "differences": "threads 1 against 2",
    "direction": "Lower",
    "directory": "first",
    "edge": ", the highest that was tried",
    "effect": 0.0312,
    "ends": "−2.0 to −0.4 %",
    "errors": "errors (1 − accuracy)",
    "every": "all 3",
    "evidence": "simultaneous 95 % CI −2.0 to −0.4; 5 seeds",
    "expected": 0.6,
    "file": "runs.csv",
    "first": "3 heads",
    "free": "; with a fitted amplitude 0.9 % better, 95 % interval 0.2 to 1.6 %",
    "have": "have",
    "head": "L2H3",
    "here": "3 contrasts",
    "heads": 2,
    "high": "0.5 %",
    "interval": "0.4 to 2.0 %",
    "interval_name": "simultaneous 95 % interval",
    "key": "verdicts",
    "keys": "task.n_ctx (64 and 128)",
    "layer": "L2",
    "layers": "L2 and L3",
    "least_p": 0.0625,
    "losses": ("2.41", "2.51"),
    "low": "−0.8",
    "margin": 1.0,
    "metric": "output dissimilarity",
    "most": "at most ",
    "name": "descending",
    "names": "h4 - h2 and h8 - h2",
    "of": "comparison",
    "other": "reading comprehension solved in ",
    "others": "seeds 0 and 1",
    "outcome": "a clear difference",
    "phrase": "better",
    "place": "below",
    "plan": "plan for 3 comparisons",
    "quantity": "evaluation loss",
    "quarter": 0.0351,
    "questions": "3 comparisons",
    "rates": "x0.5 1.1, x1 1, x2 0.9",
    "read": "32 sequences of 128 tokens, 4,096 tokens in all, from mine.txt",
    "reason": "it attends to later tokens",
    "right": "[ he]",
    "role": "a seed",
    "runs": "2 heads, seed 1",
    "says": "Output disagreement rises in all layers",
    "sd": 0.0123,
    "second": "2 heads",
    "seed": 3,
    "seeds": 5,
    "shares": "40 % at step 200",
    "side": "better",
    "sides": "4 heads vs 2 heads",
    "some": " of 3 of 4 attentions, the plain ones,",
    "span": "between −0.8 and 0.5 % (simultaneous 95 % CIs; 3 seeds)",
    "states": "2 failed and 1 crashed",
    "sure": "95 %",
    "task": "3-bit parity",
    "text": "mine.txt",
    "token": " he",
    "unit": "token",
    "value": "0.31 to 0.42",
    "values": "0.1 in a; 0.2 in b",
    "verdict": VERDICT,
    "where": " at step 100",
    "why": "cannot be tested with 3 seeds: the test needs 4",
    "wrong": "[ she]",
}
OWN: dict[str, dict[str, Any]] = {
    "claim": {"verdict": "holds (3 seeds)", "evidence": "Output dissimilarity changes during training by 0.31"},
    "claim_by_arm": {"verdict": "holds in all 4 arms", "evidence": "output dissimilarity changes by 0.31 to 0.42"},
    "claims": {"verdicts": "Holds: layer 0 is far less orthogonal"},
    "changed_claims": {"where": "under bf16", "claims": "R² falls with depth (does not hold)"},
    "look_open": {"look": LOOK},
    "plan_ended": {"look": LOOK},
    "wilson": {"of": "3 comparisons", "look": ", at interim analysis 2 of 4"},
    "one_interval": {"look": ""},
    "intervals": {"look": ", at interim analysis 2 of 4"},
    "intervals_here": {"look": "", "more": 1},
    "best_rate": {"chance": "; with one seed, this may be chance"},
    "repeats": {
        "seeds": "seed 3",
        "other": "; column `run` distinguishes them: if it numbers random seeds, type --seed run",
    },
    "left_out": {"seeds": "seeds 3 and 4"},
    "unpaired": {"others": 4},
    "no_common_seed": {"others": 4},
    "solved": {"n": "41 of 64 seeds (95 % CI 52 to 75 %)", "against": "0 of 64 seeds (95 % CI 0 to 6 %)"},
    "others": {"counts": "2 show no clear difference, 1 shows a clear difference"},
    "whole_loss": {"loss": "3.21 (3.10 to 3.32)"},
    "read_loss": {"loss": 3.2123},
    "in_doubt": {"sentence": f"{VERDICT}."},
    "under_control": {"control": "bf16"},
    "settling": {"more": "about 9", "seeds": "seeds"},
    "look": {"look": 2, "looks": 4},
    "look_settled": {"look": 2, "looks": 4, "seeds": 6},
    "factor": {"change": "a factor of 251.0"},
    "small": {"margin": "1 %"},
    "all_wide": {"seeds": "3 seeds"},
    "span": {"interval": "simultaneous 95 % CI", "seeds": "3 seeds"},
    "solved_in": {"n": 41, "seeds": 64, "low": "52", "high": "75"},
    "add_arm": {"other": "h8"},
    "seeds_beyond_plan": {"most": 12},
    "still_falling": {"most": "8 heads"},
    "rates_matter": {"most": "8 heads"},
    "unfinished": {"runs": 12},
    "unshared_seeds": {"seeds": "seeds 5 and 6"},
    "claims_counted": {"n": 9, "arms": 4},
    "published": {
        "sentence": (
            "R² falls with depth: holds (3 seeds). From layer to layer, the R² of early training changes by −0.1"
        )
    },
    "gate_verdict": {"change": "loss −0.25", "low": "−0.375", "high": "−0.125"},
    "gate_early": {"change": "loss −0.25"},
    "gate_unfinished": {"name": "wider", "other": "deeper"},
    "gate_waits": {"name": "wider", "budget": 12},
    "long_answer": {"name": "answer"},
    "no_permutation": {"reason": "cannot be tested with 3 seeds: the test needs 4"},
    "no_interval": {"reason": "the differences are identical in all seeds"},
    "nothing_compared": {"reason": "no arm has a run"},
    "no_token_circuits": {"reason": "this model does not embed the tokens that it answers with"},
    "size_none": {"reason": "too few seeds to say (2)"},
    "schemes_none": {"reason": "the curves have as many parameters as points"},
    "verdict": {"change": "evaluation loss −1.2 %"},
    "failed": {"text": "the loss was not finite at step 7"},
    "damaged": {"text": "run.json is not as it was written"},
    "former_rules": {"former": 1},
    **{kind: {"verdict": "holds"} for kind in ("in_all", "in_some", "in_one", "with_few")},
    "in_any": {"verdict": "does not hold"},
    "orthogonality-falls": {"metric": "output correlation"},
    "distinguished": {"column": "run"},
    "same_examples": {
        "arms": "All arms",
        "examples": "4,096 prompts",
        "of": "prompts",
        "error": " (standard error 0.005 to 0.010)",
    },
    "two_heads": {
        "d": 5,
        "n": 40,
        "found": 1.9,
        "ends": " (1.8 to 2.0)",
        "exact": 2.0,
        "effective": 1.6,
        "tasks": 10,
        "near_exact": 8,
        "near_effective": 1,
        "near_neither": 1,
    },
    "free": {"comparison": "0.9 % better, 95 % interval 0.2 to 1.6 %"},
}
"""Fillings of single kinds."""


def example(kind: str, template: str) -> str:
    """Return a template with its examples: a number where its format asks for one."""
    values = EXAMPLES | OWN.get(kind, {})
    said: dict[str, Any] = {}
    for _, name, form, _ in Formatter().parse(template):
        if name:
            said[name] = values.get(name, 3)
            if form and isinstance(said[name], str):
                said[name] = 3 if form[1:2].isalpha() else 0.25
    return filled(template, **said)


def examples() -> Iterator[tuple[str, str]]:
    """Yield the kind of each sentence, and its example."""
    for kind, template in words.SENTENCES.items():
        yield kind, example(kind, template)
    for kind, template in words.WARNINGS.items():
        yield f"warning {kind}", example(kind, template)
    for name, (says, short, evidence) in words.STATEMENTS.items():
        yield f"statement {name}", f"{says} ({short}): holds in all 4 arms. {capital(example(name, evidence))}"
    for name, evidence in words.UNTESTED.items():
        yield f"untested {name}", example(name, evidence)


def written() -> str:
    """Return all examples, a line each."""
    return "".join(f"{kind}: {sentence}\n" for kind, sentence in examples())


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
