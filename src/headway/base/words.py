"""The sentences on results, one template for each kind: verdicts, published statements, warnings and findings.

A value has a kind, names and numbers; `say` and `filled` write them into the kind's template. A verdict's sentence
names both sides, the verdict, the quantity, its change, the interval and the seeds. Tables and figures use `PHRASES`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headway.base.text import Amount, Part, Value, counted, filled, pieces

Kind = Literal[
    "better", "worse", "higher", "lower", "differs", "same", "alike", "zero", "open", "waiting", "few", "none"
]
"""The verdicts that an interval can give.

A clear difference is `better` or `worse`; `higher` or `lower` in a quantity that has no better direction; and `differs`
for a contrast that has no two sides. Equivalence within the margin is `same`, `alike` and `zero` for these. `waiting`
and `few` are too early for a verdict; `none` has no spread over seeds.
"""

CLEAR: tuple[Kind, ...] = ("better", "worse", "higher", "lower", "differs")
"""The kinds of which 0 alone decides, unless the difference lies within the margin."""

PHRASES: Mapping[Kind, str] = {
    "better": "better",
    "worse": "worse",
    "higher": "higher",
    "lower": "lower",
    "differs": "differs from 0",
    "same": "as good within {margin}",
    "alike": "the same within {margin}",
    "zero": "equal to 0 within {margin}",
    "open": "no clear difference",
    "waiting": "no verdict yet",
    "few": "too few seeds",
    "none": "no spread over seeds",
}

SENTENCES = {
    "plan": (
        "plan for {questions} of {quantity}: add seeds until each has an answer within {margin:g} %; interim analyses "
        "at {looks} seeds"
    ),
    "plan_level": "{plan}; family-wise error rate {level:.3g} %",
    "plan_goes_on": (
        "the plan of this directory ended at {former} seeds and now ends at {now}; this raises its rate of false "
        "positives from {level:.2g} to {raised:.2g} %"
    ),
    "not_asked": "no comparison includes {arms}, so no seeds are added there",
    "late_questions": "{names}: added after an answer was known, so not part of the plan",
    "next_look": "next interim analysis: {seeds} seeds, {n:more run}",
    "no_look": "no interim analysis has been made yet",
    "look": "interim analysis {look} of {looks}, {seeds} seeds:",
    "look_settled": "interim analysis {look} of {looks}, {seeds} seeds: {n} of {all} settled",
    "look_open": "{look}; open: {names}",
    "look_changed": (
        "the results of {seeds} seeds have changed since their interim analysis: runs were repeated or dropped, or the "
        "rules changed"
    ),
    "plan_ended": "{look}; the plan has ended",
    "settled_before": "{n} of {all} had been settled before",
    "agrees": "agrees",
    "does_not_agree": "does not agree",
    "inconclusive": "inconclusive",
    "not_compared": "not compared",
    "small": "{phrase}, by less than {margin}",
    "verdict": "{sides}: {phrase}, {change} ({evidence})",
    "no_seeds": "cannot be compared in {quantity}, since no seed has a result for every arm",
    "awaited": "{n} of {awaited} seeds needed",
    "geometric": "ratio of geometric means; {evidence}",
    "too_wide": "too wide to interpret",
    "change": "{quantity} {change}",
    "factor": "{quantity} larger by {change}",
    "settling": "{more} more {seeds} would settle it with a chance {chance}",
    "look_ahead": "the plan's interim analysis at {seeds} seeds would settle it with a chance {chance}",
    "all_same": (
        "In all {n} comparisons, the arms are equally good within {margin:g} %: differences in {quantity} lie {span}."
    ),
    "all_open": "No comparison shows a clear difference in {quantity} yet: {every} differences lie {span}.",
    "all_wide": "No comparison shows a clear difference in {quantity} yet: the intervals are too wide ({seeds}).",
    "span": "between {low} and {high} ({interval}s; {seeds})",
    "no_intervals": "There is no verdict on the {quantity} yet: the {n} comparisons have only {seeds:seed}.",
    "other_clear": "a clear difference",
    "other_same": "equivalence within {margin:g} %",
    "other_open": "no clear difference",
    "other_doubted": "a difference in doubt",
    "other": "The other comparison shows {outcome}.",
    "others_alike": "The other {n} comparisons show {outcome}.",
    "others": "The other {n} comparisons: {counts}.",
    "in_doubt": "In doubt: {sentence}",
    "no_run": "There is no answer yet, since no run has finished.",
    "no_two_values": "There is no answer, since no two arms have a value.",
    "nothing_compared": "Nothing was compared: {reason}.",
    "no_value": "no compared arm has a value yet",
    "more_seeds": "More seeds: no clear answer yet in {n} of {all:comparison}.",
    "more_seeds_settle": "More seeds: no clear answer yet in {n} of {all:comparison}; {more} more would settle all.",
    "smaller_margin": "A margin below {margin:g} %: the answer counts smaller differences as equal.",
    "elsewhere": "Another task, model size or training length: the answer holds only for the setting above.",
    "same_examples": (
        "Intervals are over seeds. {arms} are evaluated on the same {examples}. The error from sampling these {of}"
        "{error} mostly cancels in comparisons."
    ),
    "dead_heads": (
        "Dead heads: {n} of {all}. A head is dead if its |mu w| is below {least:g} % of the sum over heads."
    ),
    "two_heads": (
        "At d = {d} and {n:pair}, the error of one head is {found:.2f} times that of two heads{ends}. The exact risk "
        "predicts {exact:.2f}, and the effective loss predicts {effective:.2f}. By 95 % intervals, {near_exact} of "
        "{tasks:task} are nearer to the exact risk, {near_effective} to the effective loss, and {near_neither} not "
        "clearly to either"
    ),
    "busy": "The speed of {arms} is missing, since the machine was busy.",
    "weighted_sum": "{name} (a weighted sum of {n} arms)",
    "late": "added after an answer was known",
    "under_control": "under {control}, {verdict}",
    "no_finished_run": "no finished run of {arms}",
    "runs_failed": "{n} of {runs:run} of {arm} failed",
    "runs_damaged": "{n} of {runs:run} of {arm} damaged",
    "runs_open": "{n} of {runs:run} of {arm} not finished",
    "left_out": "{seeds} left out: a value is not finite",
    "only_arm": "there is nothing to compare: the only arm is {arm}",
    "add_arm": "there is nothing to compare: the only arm is {arm}; add another, such as {other}",
    "no_arm": "no arm has a run",
    "no_shared_seed": "no two compared arms share a seed; train them with the same seeds",
    "few_shared_seeds": (
        "compared arms share {n:seed}, and a verdict needs {least}; choose more seeds (--seeds {least})"
    ),
    "no_pairs": "no shared seed has finished yet in {n:comparison}",
    "solved": "{first} vs {second}: {phrase}, {task} solved in {n} against {other}{against}",
    "solved_in": "{n} of {seeds} seeds (95 % CI {low} to {high} %)",
    "settled_by_theory": "settled by theory",
    "cannot_solve": "in theory {arm} cannot solve it",
    "wilson": (
        "Each share of seeds has a Wilson 95 % interval. McNemar's mid-p test, with Holm's correction for {of}, "
        "tests the differences{look}."
    ),
    "of_errors": "Since many values are near 1, {errors} are compared. Lower is better.",
    "direction": "{direction} is better.",
    "before": "There is no interval before {n:seed} are finished.",
    "no_interval": "There is no interval at {n:seed}, since {reason}.",
    "no_spread": "the differences are identical in all seeds",
    "few_shared": "an interval needs {least} seeds shared by all arms compared",
    "one_interval": "The {of} has a {sure} interval{look}.",
    "intervals": "The {sure} intervals hold for all {n} {of}s at once{look}.",
    "intervals_here": "The {sure} intervals hold at once for the {here} here and {more} more of this experiment{look}.",
    "at_look": ", at interim analysis {look} of {looks}",
    "detectable": "This experiment can detect differences of about {amount} (80 % power).",
    "carried_by": (
        "With {n} seeds, verdicts assume normally distributed differences, and equal variances across the arms of a "
        "comparison. A sign-flip test needs neither assumption, but its p-value cannot be below {least_p:g} with "
        "these seeds"
    ),
    "two_families": (
        "Contrasts and comparisons are corrected separately for multiple testing. The family-wise error rate is 5 % "
        "for each of the two families, and at most 10 % for both together"
    ),
    "under_controls": "the report has {n} more verdicts, on arms with a control",
    "chosen_rates": "the learning rates were chosen on the seeds that these verdicts use",
    "favoured": (
        "the learning rates were chosen on the seeds that these verdicts use; this choice may favour {arm} ({n} "
        "rates tried) by up to {bias:.1g} %"
    ),
    "best_rate": "{arm} is best at {best:g} times its learning rate{edge} (means: {rates}{chance})",
    "lowest_rate": ", the lowest that was tried",
    "highest_rate": ", the highest that was tried",
    "one_seed_rate": "; with one seed, this may be chance",
    "at_best_rates": "At the best learning rates: {verdict}",
    "no_change_at_best_rates": "No verdict changes when each arm uses its best learning rate",
    "prunable": (
        "Largest tested share of heads whose pruning raises the loss by less than 1 % (upper end of the 95 % CI over "
        "seeds): {shares}"
    ),
    "prunable_at": "{percent:.0f} % at step {step}",
    "not_prunable_at": "none at step {step}",
    "fitted": "{comparison} (amplitude fixed at 1, as published{free}){control}",
    "free": "; with a fitted amplitude {comparison}",
    "no_curve": "no falling curve of this form fits the points ({n:number} of heads)",
    "exact_curve": "as many parameters as points ({n}), so the curve goes through the points and has no band",
    "no_seed_band": "no seed finished in every arm, so there is no band",
    "one_seed_band": "one seed, so there is no band",
    "curve_apart": "{amount} {side}, 95 % interval {interval}",
    "curve_open": "{change}, 95 % interval {ends}",
    "curve_none": "{change}, no interval",
    "schemes_apart": "at {at} heads, {name} is {amount} {side} than {against}, 95 % interval {interval}",
    "schemes_open": "at {at} heads, no clear difference between {name} and {against}: {change}, 95 % interval {ends}",
    "schemes_few": "at {at} heads, {name} and {against}: too few seeds to say ({n}): {change}, 95 % interval {ends}",
    "schemes_one_seed": "at {at} heads, {name} and {against} cannot be compared: one seed ({losses} nats)",
    "schemes_none": "at {at} heads, the curve of {name} lies {amount} {place} {against} (no interval: {reason})",
    "size_apart": "{name} lies {amount} {place} plain models of its size (fitted curve), {interval_name} {interval}",
    "size_open": (
        "{name} lies {amount} {place} plain models of its size (fitted curve), {interval_name} {interval}, which may "
        "be chance"
    ),
    "size_none": "{name}: {reason}; so far it lies {amount} {place} plain models of its size (fitted curve)",
    "size_one_seed": "{name} cannot be compared with plain models of its size: one seed ({losses} nats)",
    "size_no_seed": "{name} cannot be compared with plain models of its size: no seed gave a result for all of them",
    "curve_no_spread": "no spread over {n:seed}",
    "curve_few": "too few seeds to say ({n})",
    "curve_as_many": "the curves have as many parameters as points",
    "curve_no_seed": "no seed finished in every arm",
    "few_tokens_of_reading": (
        "{text} gives {n} tokens, too few to compare these heads with random heads, or to find similar heads. More "
        "than {least} are needed"
    ),
    "short_text": "the text has only {n} tokens: one sequence that is shorter than {length}",
    "few_sequences": "the text gives only {n} of {asked} sequences of {length} tokens",
    "few_positions": "on {n} positions, heads of width {width} look similar even if they are unrelated: give more text",
    "single_heads": "{n} of {all} attentions have one head: a metric of pairs needs two heads",
    "no_intervals_over_texts": (
        "scores have no intervals over {n:sequence}, so findings hold for this text only; {least} sequences give "
        "intervals"
    ),
    "few_repeats": (
        "induction and duplicate-token heads are not measured on repeats within the text. Only {n} of {all} tokens "
        "({sequences:sequence}) occurred earlier in their sequence. At least {least}, from 2 sequences, are needed"
    ),
    "own_circuits": "Token-to-token circuits are shown for Headway's own models only.",
    "no_token_circuits": "Token-to-token circuits are not shown, since {reason}.",
    "no_circuits": (
        "circuits are not measured: the queries, keys and values of this model are not linear maps of the residual "
        "stream"
    ),
    "plain_circuits": (
        "circuits{some} are measured from W_Q, W_K, W_V and W_O, which read the normed stream. Copying scores and "
        "composition also need the layers' norms, which only Headway's own models have"
    ),
    "no_draws": "no random heads were drawn (draws 0), so no head is compared with random heads",
    "no_matrices": (
        "no random heads were drawn, since the given attentions have no matrices; those of headway.plain_attention "
        "have matrices"
    ),
    "few_draws": "{n:draw} of random heads: too few to find heads that stand out; give 4",
    "no_drawn_pairs": "pairs of {layers} are not compared with random heads, since there are too many pairs",
    "hidden_tokens": (
        "{metric} cannot be measured in {layers}, since its attention window hides the tokens that the metric needs"
    ),
    "numbers_only": "induction and duplicate-token scores need tokens, but this model reads numbers",
    "not_causal": "induction and duplicate-token scores are not measured, since this model is not causal",
    "nothing_to_repeat": "the text has too few tokens to repeat ({n}), so there is no induction score",
    "short_length": "a length of {length} is too short to repeat tokens, so there is no induction score",
    "no_stream": (
        "composition is left out: this model has no residual stream (model.residual false) through which later heads "
        "could read earlier heads"
    ),
    "many_heads": "composition is left out: {n} heads have too many pairs",
    "few_answers": (
        "the loss is a mean over the {n} of {all} tokens with an answer; nats per token refer to these tokens"
    ),
    "few_documents": (
        "the text has only {n:document}: intervals are over its {sequences} sequences, and hold for this text only"
    ),
    "few_for_skew": (
        "intervals are over {n} sequences, too few to detect skewed effects. They are valid only for symmetric "
        "effects, and none is simultaneous over all heads; give a text of {least} documents or more"
    ),
    "few_others": "only {n:other sequence} for {sequences} sequences, so some are reused as replacements",
    "sees_later": "this model attends to later tokens; its loss is still that of the next token, as in its training",
    "short_reference": (
        "replacements come from {n} tokens only: intervals of mean ablation leave out their sampling error; give a "
        "longer reference"
    ),
    "reference_error": (
        "replacements come from {n:other sequence}; intervals leave out sampling error. With a quarter of them, the "
        "mean ablation of {head} gives {quarter:4} instead of {effect:4} nats per token. The error with all of "
        "them is about {least:4} to {most:4} nats. Give a longer reference"
    ),
    "loss_no_logits": "its loss on the text is not known: it gives no logits of the next token",
    "loss_not_finite": (
        "its loss on the text is not finite, since its logits overflow; the outputs of its heads are finite"
    ),
    "loss_squared": "its loss is a squared error, not in nats; the report of its runs gives it",
    "loss_not_causal": "its loss on the text is not measured: {reason}",
    "loss_of_answers": "its loss on these tokens is not known: it predicts one of {n} answers, not the next token",
    "long_answer": "the {name} has {n} tokens, and only the first counts: [{token}]",
    "one_pair_only": (
        "one pair of texts is too few for intervals, and its effects hold for this pair only. For more pairs, give "
        "files with one text per line"
    ),
    "few_pairs": "intervals from {n} pairs are wide; give more pairs",
    "log_probability": "the logarithm of the probability of {right} at the end of the text, in nats",
    "logit_difference": "the logit of {right} at the end of the text minus the logit of {wrong}",
    "kept_in_training": "during training, patterns of {n} of {all:sequence} are kept, {below}",
    "none_in_training": "patterns during training were left out, {below}",
    "chosen_patterns": "patterns are kept of {n} of {all:head}, as asked (--heads)",
    "cut_sequences": "sequences are cut to {length} of {whole} tokens, {below}",
    "no_patterns": "no patterns are kept, {below}",
    "kept_patterns": "patterns of {n} of {all:sequence} are kept, {below}",
    "page_limit": (
        "so that the page stays below {size:.3g} MB; to keep more, give fewer heads (--heads), a shorter --length or "
        "a larger --largest"
    ),
    "shown_circuits": "circuits are shown for {n} of {all:step} with stored weights",
    "wide_layer": "metrics of pairs of {layer} are in heads.safetensors only, since {layer} has many heads",
    "wide_composition": "composition of {n} heads is not in the JSON: there are too many pairs",
    "no_paths": "paths between heads are not measured: {reason}",
    "path_cut": "in this model, head outputs do not reach later heads unchanged ({reason})",
    "path_without_stream": (
        "this model has no residual stream through which the output of a head could reach later heads"
    ),
    "path_norms_after": "this model's norms come after its sub-layers, so no head writes into the stream on its own",
    "unpaired": "unpaired, {n} and {others} runs",
    "no_common_seed": "no common seed, {n} and {others} runs",
    "without_partner": "{n:run} without a partner of the same seed left out",
    "without_seed": (
        "{n:run} without a seed: they may share one seed, so there is no interval. Name the column of the seed "
        "(--seed), or type --unpaired if each run had its own random seed"
    ),
    "alone": "{arms}: one seed has no spread, so there is no interval",
    "compared_unpaired": (
        "arms share fewer than 3 seeds, so their runs are compared unpaired (Welch's t test). Train all arms with "
        "the same seeds: with enough seeds and a correlation of 0.5, intervals are about 30 % narrower"
    ),
    "best_step": "the best step of each run is compared, which favours arms whose metric varies more",
    "repeats": (
        "{seeds} has up to {n} runs in an arm, and Headway uses their mean. Repeats of a seed show the noise of the "
        "hardware (sd {sd:3}), not the variation over seeds{other}"
    ),
    "distinguished": "; column `{column}` distinguishes them: if it numbers random seeds, type --seed {column}",
    "split_names": "names of runs are split into arm and seed: {name} is arm {arm}, seed {seed}",
    "melted": "each of the columns {columns} is read as {role}",
    "decimal_comma": "numbers are read with a decimal comma",
    "without_arm": "{n:row} without an arm left out",
    "logged_again": "{n:run} logged steps again; the last row counts",
    "without_result": "{n:run} without a result: {states}",
    "without_number": "{n:run} without a number in {metric}{where}: left out",
    "confound": "{column} differs between the arms: {values}",
    "more_confounds": "{n} more columns differ between the arms",
    "constants": "equal in all runs: {values}",
    "gate_verdict": "{sides}: {phrase}, {change} (95 % CI {low} to {high}; {n:pair})",
    "gate_early": "{sides}: {phrase}, {change} (no interval yet; {n:pair})",
    "gate_waits": "{name}: no verdict after {n} of at most {budget} pairs; add runs to {file}",
    "gate_given_up": "{verdict}; stopped early, since more pairs are unlikely to give a verdict",
    "gate_unfinished": "{name}: stopped after {n:pair}, because {other} was tried next",
    "only_circuit": "the only other circuit of {heads:head}",
    "all_circuits": "all {n} other circuits of {heads:head}",
    "some_circuits": "{n:random circuit} of {heads:head}",
    "whole_loss": (
        "The loss of the full model is {loss} nats per token. Changes are in nats per token, with 95 % intervals over "
        "sequences. A head matters if its simultaneous interval lies outside ±{least:g} nats."
    ),
    "read": "{n:sequence} of {length} tokens, {tokens} tokens in all, from {text}",
    "read_pairs": "{n:pair}, {sources} source tokens and {targets} target tokens in all, from {text}",
    "read_texts": "{n:pair} of texts of {most}{length} tokens, {tokens} tokens in all: {text}",
    "read_loss": "{read}; the model's loss on this text is {loss:4} nats per {unit}",
    "random_heads": (
        "Random heads are the same layers with random weights of the same scale, on the same text. On untrained "
        "models, about 5 of 100 x-rays report a finding. An exception is untrained weights whose row norms increase: "
        "57 of 100 x-rays name idle heads (33 of 100 for column norms). Finding nothing is weaker evidence: x-rays "
        "often miss a query subspace that all heads of a layer share."
    ),
    "untested": "cannot be tested with {n:seed}: the test needs {least}",
    "untold": "{says}: cannot be told, since no model here has the layers, heads or probes that the claim needs",
    "claim": "{says}: {verdict}. {evidence}",
    "claim_by_arm": "{says}: {verdict}. By arm, {evidence}",
    "claims": "Published statements on heads. {verdicts}",
    "claims_counted": (
        "{n} published statements: {holds} confirmed, {fails} contradicted, {open} undecided ({arms} arms, {seeds} "
        "seeds)"
    ),
    "claims_untested": "{n} of these {why}",
    "published": "Published: {sentence}",
    "claims_one_seed": (
        "Testing the {n:published claim} needs three seeds or more. The table of published claims shows the numbers "
        "from one seed"
    ),
    "permutation": (
        "By a permutation test over seeds, {n} of {all} R² values exceed chance (uncorrected p below 0.05; about "
        "{expected} expected by chance)."
    ),
    "no_permutation": "The significance of R² {reason}.",
    "changed_claims": "Different verdicts {where}: {claims}",
    "in_all": "{verdict} in all {n} arms",
    "in_any": "{verdict} in any of {n} arms",
    "in_some": "{verdict} (of {n} arms: {counts})",
    "in_one": "{verdict} ({n:seed})",
    "with_few": "{verdict} with {n:seed}",
}
"""The sentences on verdicts, on curves of the loss and on published statements, and clauses in them, by kind."""

STATEMENTS = {
    "layer-0-less-orthogonal": (
        "Layer 0 is far less orthogonal than the others",
        "layer 0 is far less orthogonal",
        "layer 0's {metric} is {value} times that of the others (before any training: {also} times); far means 1.5 "
        "times or more",
    ),
    "orthogonality-falls": (
        "Orthogonality falls in all layers",
        "orthogonality falls in all layers",
        "{metric} (high: similar heads) changes during training by {value} in the layer with the smallest rise and by "
        "{also} in the layer with the largest",
    ),
    "layer-0-settles": (
        "The attention diversity of layer 0 settles while that of later layers keeps rising",
        "layer 0's attention diversity settles first",
        "in the second half of training, layer 0's {metric} changes by {also}. The rise of later layers minus twice "
        "this change is {value} (claimed: above 0)",
    ),
    "layer-0-predicts-badly": (
        "The attention diversity of layer 0 predicts performance badly",
        "layer 0's attention diversity predicts the loss badly",
        "R² of the loss on mean and variance of its {metric} is {also} over the whole training. Beyond what other "
        "seeds explain, it is {value} (claimed: below 0.5)",
    ),
    "disagreement-rises": (
        "Output disagreement rises in all layers",
        "output disagreement rises in all layers",
        "{metric} changes during training by {value} in the layer with the smallest rise and by {also} in the layer "
        "with the largest",
    ),
    "disagreement-variance-rises": (
        "The variance of output disagreement rises in all layers",
        "the variance of output disagreement rises in all layers",
        "the variance of {metric} over pairs changes by {value} in the layer with the smallest rise and by {also} in "
        "the layer with the largest",
    ),
    "early-layers-differ": (
        "The first three layers give different outputs, the last ones alike",
        "first layers differ, last ones are alike",
        "at the end, {metric} of the first three layers (or first half) minus that of the last layers ({also}) is "
        "{value} (claimed: above 0)",
    ),
    "r2-high-early": (
        "R² of the loss on output disagreement is high early in layer 0",
        "R² is high early in layer 0",
        "R² of the loss on mean and variance of {metric} early in layer 0 is {also}. Beyond what other seeds "
        "explain, it is {value} (claimed: above 0.5)",
    ),
    "r2-falls-with-depth": (
        "R² of the loss on output disagreement falls with depth",
        "R² falls with depth",
        "from layer to layer, the R² of early training on {metric} changes by {also}. Beyond what other seeds explain, "
        "it changes by {value}",
    ),
    "regularisers-hardly-help": (
        "Diversity regularisers hardly help decoder-only models",
        "regularisers hardly help",
        "the loss changes by {value} % (a decrease of 1 % or more counts as help)",
    ),
    "alike-heads-go-first": (
        "Pruning can remove similar heads first",
        "similar heads can be pruned first",
        "by arm, the loss changes by {value} % compared with pruning as many random heads",
    ),
    "layer-0-goes-last": (
        "Pruning can remove heads of late layers first, and heads of layer 0 last",
        "layer 0's heads are pruned last",
        "by arm, layer 0's share of kept heads minus that of the later half of the layers is {value} points (pruning "
        "methods that use the loss)",
    ),
}
"""Published statements by name: as published, in short, and the evidence for or against it."""

UNTESTED = {
    "layer-0-predicts-badly": (
        "R² of the loss on mean and variance of its {metric} is {also} over the whole training. Any two curves with "
        "a trend in time can give a high R²"
    ),
    "r2-high-early": (
        "R² of the loss on mean and variance of {metric} early in layer 0 is {also}. Any two curves with a trend in "
        "time can give a high R²"
    ),
    "r2-falls-with-depth": "from layer to layer, the R² of early training on {metric} changes by {also}",
}
"""The evidence on a published statement whose test needs more seeds."""

SPECIAL = {
    "induction_score": (
        "Induction heads on repeated random tokens",
        "attention on the token after the first copy of the current token",
    ),
    "text_induction_score": (
        "Induction heads on repeats within the text",
        "attention on tokens after earlier copies of the current token",
    ),
    "previous_token_score": ("Previous-token heads", "attention on the previous token"),
    "duplicate_token_score": (
        "Duplicate-token heads on repeated random tokens",
        "attention on the first copy of the current token",
    ),
    "text_duplicate_score": (
        "Duplicate-token heads on repeats within the text",
        "attention on earlier copies of the current token",
    ),
    "positional_score": ("Neighbour heads", "positions attending most to the same neighbouring position"),
    "fixed_pattern_score": ("Fixed-pattern heads", "attention on fixed positions"),
    "sink_score": ("First-token heads", "attention on the first token"),
}
"""The name of special heads by their metric, and what the score is a share of."""

WARNINGS = {
    "directory": "{text}",
    "no_such_arm": "No arm of {directory} can be compared with {arm}.",
    "unlike_arms": "{arm} and {baseline} are not compared, since they differ in {keys}.",
    "same_run": "{arm} is the same run in both directories: only machine or version can differ.",
    "unfinished_arm": "{arm} has no finished run.",
    "unshared_seeds": "{arm} has {seeds}, and {baseline} has {others}. Train common seeds to pair them.",
    "former_search": (
        "A search for the best arm (--best, a removed option) chose which arms got more seeds. This selection bias "
        "favours these arms. Train the arms that matter in a new directory."
    ),
    "removed_key": "Headway no longer uses `{key}` of {file}. Intervals may differ from those of earlier versions.",
    "failed": "{arm}, seed {seed} failed: {text}",
    "damaged": "{arm}: Headway leaves out a damaged run: {text}",
    "unfinished": "{n} of {runs} runs are not finished. `headway run` on this directory finishes them.",
    "absent_baselines": "These baselines have no runs, so nothing is compared with them: {baselines}. Train them.",
    "unlike_executions": (
        "{arm} and {baseline} were executed differently in {n} of {pairs} pairs of runs ({differences}). Different "
        "execution may explain a difference between these arms, mainly in speed and memory."
    ),
    "no_better_than_bigram": (
        "These arms are no better than a bigram model, which only counts pairs of tokens: {arms}. Such models cannot "
        "show what heads do. Train longer before you draw conclusions about heads."
    ),
    "lost_text": (
        "{arm} has no loss in bits per byte: only {kept} % of the text can be restored from its tokens. Use a "
        "tokenizer that restores {least} % or more."
    ),
    "still_falling": (
        "In the last tenth of training, the {quantity} still fell in {n} of {all} arms. In {most} it fell by {least} % "
        "or more. The verdict on {sides} rests on a difference or margin of {apart} %, which is smaller. Train "
        "longer, or let the learning rate decay."
    ),
    "fell_as_rates_decayed": (
        "In the last tenth of training, as the learning rate decayed, the {quantity} fell in {n} of {all} arms. The "
        "verdict on {sides} rests on a difference or margin of {apart} %, which is smaller. Longer training may change "
        "the answer."
    ),
    "rates_matter": (
        "Another learning rate changes the result of {n} of {all} arms. For {most} the gain is {least} % or more, at "
        "{factor} times its learning rate. The verdict on {sides} rests on a difference or margin of {apart} %, which "
        "is smaller. Rely on the verdicts at the best learning rates."
    ),
    "diverged": (
        "Diverged runs are left out ({runs}). The comparison uses the other runs, which favours arms that diverge more "
        "often."
    ),
    "all_diverged": "Every run of {arms} diverged, so nothing is left to compare.",
    "wild_arms": (
        "These arms vary over seeds more than ten times as much as others: {arms}. Comparisons with these arms use "
        "their own variance, not the variance pooled over all arms."
    ),
    "seeds_added": (
        "Seeds were added after a verdict at {seeds} seeds. Repeated testing raises the rate of false positives to "
        "{rate} %. `headway run` with --until plans interim analyses and corrects for them."
    ),
    "arms_added": (
        "Arms were added after a verdict ({arms}). Testing again with more arms raises the rate of false positives to "
        "at most {rate} %."
    ),
    "runs_dropped": (
        "Runs behind an earlier verdict are missing: {runs}. Choosing which seeds to drop can raise the rate of "
        "false positives to 18 % (one seed) or 38 % (two)."
    ),
    "prolonged_plan": (
        "The plan of interim analyses was to end at {planned} seeds and now ends at {end}. This raises the plan's "
        "rate of false positives to {rate} %."
    ),
    "late_plan": (
        "{n} seeds had finished before the plan of interim analyses was made. Its analyses at {seeds} seeds therefore "
        "count as done. Verdicts from before the plan no longer hold."
    ),
    "late_plan_again": "A verdict at {n} seeds came before the plan, so the rate of false positives is {rate} %.",
    "former_rules": (
        "The plan of interim analyses was made with version {former} of Headway's rules for comparisons. Headway now "
        "uses version {now}, so earlier verdicts may differ."
    ),
    "seeds_beyond_plan": (
        "Verdicts leave out seeds beyond the end of the plan ({n} after {last} seeds). `headway run` with --until "
        "{margin}% --max-seeds {most} continues the plan."
    ),
}
"""The sentences of a warning by its kind."""

FINDINGS = {
    "nothing": "Nothing stands out.",
    "nothing_differs": "No head clearly differs in any metric from {draws} random copies of its layer on this text.",
    "not_compared": "The heads were not compared with random heads, so Headway names no special heads.",
    "head": "{heads}",
    "score": "{heads} {value:z.0%}",
    "pair": "{heads} ({value:z.2f})",
    "share_of_layer": "{heads} {share:.1%} (equal share {even:.1%})",
    "path": "{writer} → {reader} {value:z.2f} ({share:z.0%})",
    "special": "{role} ({n}): {heads:5}. The share of {whole} is {range:z.0%} (random heads {untrained:z.0%}).",
    "no_special": "{role}: none. The highest score is {value:below} ({heads}), below the threshold of {least:.0%}.",
    "no_clear_special": "{role}: no clear case. The highest score is {value:below} ({heads}). Threshold: {least:.0%}.",
    "interval": "The 95 % CI of the score is {interval:z.0%}.",
    "intervals": "The 95 % CIs of these scores lie above {low:z.0%}.",
    "untrained": "Random heads score {untrained:z.0%} on average.",
    "by_place": "A purely positional head would score {by_place:z.0%}.",
    "reached": "Random heads could reach this score by chance.",
    "chancy": "Scores that may be due to chance (compared with {draws} random copies): {heads:5}.",
    "unclear": "Heads not clearly above the threshold of {least:.0%}: {heads:5}.",
    "constant": "Heads with nearly constant output ({least:.0%} of its squared norm or more): {heads:5}.",
    "no_output": "The heads of {layers} add nothing to the residual stream.",
    "output_correlation": "Similar outputs (centred cosine): {pairs}.",
    "query_cka_centred": "Similar queries (CKA): {pairs}.",
    "mean_of_pairs": "The mean over all pairs of heads ({n}) is {mean:z.2f} (random heads {untrained:z.2f}).",
    "idle": "Idle heads (share of the layer's output): {heads:3}.",
    "composition": (
        "Pairs of heads with above-chance {name} ({into}): {n}. Strongest: {pairs}. Numbers are composition scores of "
        "the weights. In parentheses: the share of the later head's {of} that comes from the earlier head. "
        "Randomly rotated circuits score {null:z.2f}."
    ),
    "composition_on_text": (
        "Pairs of heads with above-chance {name} ({into}) on the text: {n}. Strongest: {pairs}. Numbers are "
        "composition scores of the weights. In parentheses: the share of the later head's {of} that comes from the "
        "earlier head. For the first pair, the earlier head contributes {nats:z.2f} nats (random heads {drawn:z.2f}). "
        "Randomly rotated circuits score {null:z.2f}."
    ),
    "differ": (
        "Values that clearly differ from random heads, corrected for all {m} comparisons: {n}. A value is one metric "
        "of one head or pair. The largest difference is in {metric}: {heads} {value}, random copies {untrained}."
    ),
    "none_differ": (
        "None of {m} values (one metric of one head or pair) clearly differs from {draws} random copies of the layer. "
        "The largest difference is in {metric}: {heads} {value}, random copies {untrained}."
    ),
    "change": "{heads} {change:z.3f} ({interval:z.3f})",
    "changes": (
        "{n} of {all} heads matter ({kind} ablation). Loss changes (nats per token, simultaneous CIs): {heads:3}."
    ),
    "no_change": "None of the {all} heads clearly matters ({kind} ablation).",
    "too_few": "{what} ({kind} ablation): too few sequences ({n}) for {claims} tests. Give {least} documents or more.",
    "rarely_felt": "No interval for {heads}: few of the {n} sequences show an effect. About {more} more are enough.",
    "pairs": "Interactions of pairs ({kind} ablation, nats per token): {pairs:2}.",
    "interaction": (
        "An interaction is the effect of ablating both heads minus the sum of their individual effects. Above 0, the "
        "heads are redundant; below 0, they work together."
    ),
    "no_pair": "No pair of heads clearly interacts by more than {least:.2f} nats per token ({kind} ablation).",
    "stand_in": (
        "{heads} compensate for each other ({kind} ablation). Ablating both raises the loss by {both:z.3f} nats per "
        "token ({interval:z.3f}). Ablating only the first changes it by {first:z.3f}, and only the second by "
        "{second:z.3f}."
    ),
    "write_alike": "Their outputs are nearly equal (cosine {cosine:.2f}).",
    "more_stand_ins": "Further pairs that compensate for each other: {n}.",
    "no_stand_ins": "Among {n} tested pairs, no two heads clearly compensate for each other.",
    "together": (
        "Ablating {heads} together changes the loss by {change:z.3f} nats per token ({interval:z.3f}; {kind} "
        "ablation). Their individual effects sum to {single:z.3f}."
    ),
    "not_alone": "None of these heads has a clear effect on its own.",
    "left_in": "Keeping {heads} lowers the loss by {less:z.3f} ({interval:z.3f}).",
    "faithful": "{heads:3} alone have a faithfulness of {share:z.1%} ({kind} ablation of all other heads).",
    "faithful_within": (
        "{heads:3} alone have a faithfulness of {share:z.1%} (95 % CI {interval:z.1%}; {kind} ablation of all other "
        "heads)."
    ),
    "random_circuits": "Median faithfulness of {circuits}: {median:z.0%}; {n} are no less faithful than this circuit.",
    "no_worth": (
        "Faithfulness is not defined: without any head, the loss rises by only {worth:z.3f} nats per token ({kind} "
        "ablation)."
    ),
    "knows_answer": "The model knows the answer on the clean text.",
    "does_not_know": "The model does not know the answer on the clean text.",
    "not_found_to_know": "The model does not clearly know the answer on the clean text.",
    "logit_of_one": "The clean logit difference is {value:3}, for one pair of texts.",
    "logits": "The clean logit difference is {value:3} (95 % CI {interval:3}), above 0 in {right} of {n} pairs.",
    "probabilities": "The answer's mean probability is {clean:.3g} % (clean text) and {corrupted:.3g} % (corrupted).",
    "not_above_0": (
        "The metric is not clearly above 0 on the clean text. If the metric is a logit difference, the model does "
        "not know the answer, and restored shares mean nothing."
    ),
    "metric": "The metric is {clean:3} on the clean text and {corrupted:3} on the corrupted text.",
    "difference": "The mean difference over {n} pairs is {difference:3} ({interval:3}).",
    "one_pair": "One pair gives no intervals. Headway names heads that change the difference by {least:.0%} or more.",
    "unknown_answer": "No restored shares are given, since the model does not clearly know the answer.",
    "favours_corrupted": "The corrupted text favours the answer more than the clean text: nothing can be restored.",
    "equal_metric": "The metric does not differ between the texts, so there is nothing to restore.",
    "unclear_difference": "The 95 % CI of this difference includes 0, so there is nothing to restore.",
    "restored": "Patching {part} restores these shares of the {quantity}: {heads:2}.",
    "none_restored": "Patching {part}: no head clearly restores any of the {quantity}.",
    "by_position": "Positions are patched one at a time, and their shares are summed.",
    "share": "{heads} {share:z.1%}",
    "share_within": "{heads} {share:z.1%} ({interval:z.1%})",
    "cancels": "The estimates of {heads} are wrong: paths through later layers cancel.",
    "strongest_path": "The strongest path, {writer} into the {input} of {reader}, changes the metric by {change:3}.",
    "kept": "Heads kept by {by}: {n} (rounds of pruning: {steps}). Heads by layer: {before} before, {after} after.",
    "parameters": "Parameters: {before} before, {after} after.",
    "memory": "Memory of a forward and backward pass of {tokens} tokens: {before} before pruning, {after} after.",
    "loss_change": (
        "Loss on {text}: {before:z.3f} nats per {unit} before pruning, {after:z.3f} after. The change is "
        "{change:z.3f} (95 % CI {interval:z.3f})."
    ),
    "same_texts": "This metric is the same on both texts.",
}
"""The sentences of a finding about heads, and the entries of their lists, by kind."""

DOUBTFUL = {
    "former_search": "a search chose the seeds",
    "no_better_than_bigram": "not trained enough",
    "lost_text": "no loss in bits per byte",
    "still_falling": "not trained enough",
    "rates_matter": "learning rates matter",
}
"""The warnings that may make answers worth nothing, each with a heading."""

IN_DOUBT = {
    "untrained": "in doubt: none of these arms beats a bigram model, and such models cannot show what heads do",
    "falling": "in doubt: in the last tenth of training, the {metric} fell by more than this difference or the margin",
    "rates": "in doubt: another learning rate changes the {metric} by more than this difference or the margin",
}
"""The clause in the sentence of an answer by the kind of its doubt."""


def say(kind: str, /, **values: Value) -> str:
    """Return the sentence or the clause of a kind with the fillings of its template."""
    return filled(SENTENCES[kind], **values)


@dataclass(frozen=True)
class HeadStatement:
    """A sentence about heads, or an entry of a list in one.

    Attributes:
        kind: the key of its template in `FINDINGS`.
        values: the fillings of its template; names in lists are those of heads.
    """

    kind: str
    values: Mapping[str, Value]

    @property
    def parts(self) -> Iterator[Part]:
        """The pieces of the sentence, each with the head that it names."""
        return pieces(FINDINGS[self.kind], self.values)

    @property
    def sentence(self) -> str:
        """The sentence, or all of them if its template has several."""
        return "".join(text for text, _ in self.parts)


def statement(kind: str, /, **values: Value) -> HeadStatement:
    """Return the statement of a kind with the fillings of its template."""
    return HeadStatement(kind, values)


@dataclass(frozen=True, kw_only=True)
class Warning:
    """Something to read before a result is believed.

    Attributes:
        kind: the key of its template in `WARNINGS`.
        names: the names in its sentence: of arms, runs, metrics or files.
        numbers: the numbers in its sentence; shares and rates in per cent.
    """

    kind: str
    names: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    numbers: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The sentences of the warning."""
        return filled(WARNINGS[self.kind], **self.names, **self.numbers)


def warning(kind: str, **values: str | tuple[str, ...] | int | float) -> Warning:
    """Return the warning of a kind with its names and numbers."""
    numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
    names = {name: value for name, value in values.items() if isinstance(value, str | tuple)}
    return Warning(kind=kind, names=names, numbers=numbers)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on a difference of two sides, or on a contrast that has one name.

    Attributes:
        kind: the meaning of the interval.
        sides: the labels of both sides, or the label of a contrast.
        quantity: the name of the metric in sentences.
        change: the difference as a share of the second side, or in `unit`; None without a common seed.
        interval: the ends of its interval; None without one.
        unit: the unit of the difference; None if it is a share.
        interval_name: the kind of interval, such as `simultaneous 95 % CI`.
        seeds: the number of seeds that all arms have.
        awaited: the number of seeds that a verdict waits for.
        margin: the equivalence margin, in per cent or in `unit`.
        is_small: True if a clear difference lies within the margin.
        more_seeds: the number of further seeds that would settle an open difference; None if unknown.
        is_geometric: True if the change is a ratio of geometric means of runs whose spread is large.
        is_planned: True if a plan of interim analyses has one at that number of seeds.
        chance: the chance that they settle it.
    """

    kind: Kind
    sides: tuple[str, ...]
    quantity: str
    change: float | None
    interval: tuple[float, float] | None
    unit: str | None = None
    interval_name: str = "95 % CI"
    seeds: int
    awaited: int = 0
    margin: float
    is_small: bool = False
    more_seeds: int | None = None
    is_geometric: bool = False
    is_planned: bool = False
    chance: float | None = None


def verdict_sentence(verdict: Verdict) -> str:
    """Return the sentence of a verdict.

    Examples:
        >>> verdict = Verdict(kind="worse", sides=("1 head", "2 heads"), quantity="mean squared error", change=1.139,
        ...     interval=(1.131, 1.147), interval_name="simultaneous 95 % CI", seeds=3, margin=1.0)
        >>> verdict_sentence(verdict)
        '1 head vs 2 heads: worse, mean squared error +113.9 % (simultaneous 95 % CI 113.1 to 114.7; 3 seeds)'
    """
    sides = " vs ".join(verdict.sides)
    if verdict.change is None:
        return f"{sides}: {say('no_seeds', quantity=verdict.quantity)}"
    write = amount_of(verdict)
    kind = "factor" if write.prefix else "change"
    change = say(kind, quantity=verdict.quantity, change=signed(write, verdict.change))
    said = say("verdict", sides=sides, phrase=phrase(verdict), change=change, evidence=_evidence(verdict))
    if verdict.kind != "open" or verdict.more_seeds is None or verdict.chance is None:
        return said
    ahead = verdict.seeds + verdict.more_seeds if verdict.is_planned else None
    return f"{said}; {more_seeds(verdict.more_seeds, verdict.chance, ahead=ahead)}"


def several_sentence(verdicts: Sequence[Verdict], n: int, margin: float | None) -> str:
    """Return one sentence on comparisons none of which is clear.

    Args:
        verdicts: the verdicts of comparisons with an interval, at least one.
        n: the number of all comparisons.
        margin: the margin in per cent within which all arms are as good; None if a comparison is open.
    """
    first = verdicts[0]
    ends = [end for verdict in verdicts for end in verdict.interval or ()]
    write = amount_of(first)
    low, _, high = write(min(ends), max(ends)).partition(" to ")
    counts = sorted({verdict.seeds for verdict in verdicts})
    seeds = counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    if margin is None and is_too_wide(first.unit, (min(ends), max(ends))):
        return say("all_wide", quantity=first.quantity, seeds=seeds)
    span = say("span", low=write.prefix + low, high=high, interval=first.interval_name, seeds=seeds)
    if margin is not None:
        return say("all_same", n=n, margin=margin, quantity=first.quantity, span=span)
    every = f"all {n}" if len(verdicts) == n else f"{len(verdicts)} of {n}"
    return say("all_open", quantity=first.quantity, every=every, span=span)


def missing_intervals(quantity: str, seeds: int, n: int) -> str:
    """Return the sentence on several comparisons without an interval."""
    return say("no_intervals", quantity=quantity, seeds=seeds, n=n)


def others_sentence(outcomes: Counter[str]) -> str:
    """Return the sentence that counts further comparisons by their outcome in a few words.

    Examples:
        >>> others_sentence(Counter(["no clear difference"] * 2 + ["a clear difference"]))
        'The other 3 comparisons: 2 show no clear difference, 1 shows a clear difference.'
    """
    n = outcomes.total()
    if len(outcomes) == 1:
        return say("other" if n == 1 else "others_alike", n=n, outcome=next(iter(outcomes)))
    counts = [f"{times} {'shows' if times == 1 else 'show'} {outcome}" for outcome, times in outcomes.most_common()]
    return say("others", n=n, counts=", ".join(counts))


def agreement(says: str, kind: Kind) -> str:
    """Return whether a verdict is what a published claim says of the same sides.

    Examples:
        >>> agreement("better", "worse"), agreement("better", "open"), agreement("not better", "worse")
        ('does not agree', 'inconclusive', 'agrees')
    """
    if kind == says or (says == "not better" and kind in ("worse", "same")):
        return say("agrees")
    return say("does_not_agree" if kind in (*CLEAR, "same") else "inconclusive")


def phrase(verdict: Verdict) -> str:
    """Return a verdict in a few words."""
    margin = f"{verdict.margin:.3g} {'%' if verdict.unit is None else verdict.unit}".rstrip()
    said = PHRASES[verdict.kind].format(margin=margin)
    return say("small", phrase=said, margin=margin) if verdict.is_small else said


def amount_of(verdict: Verdict) -> Amount:
    """Return what writes the change and its interval: with the digits that the interval leaves certain."""
    assert verdict.change is not None
    margin = None if verdict.kind in CLEAR and not verdict.is_small else verdict.margin
    if verdict.unit is None:
        return Amount.of_share(verdict.change, verdict.interval, margin=margin)
    low, high = verdict.interval or sorted((0.8 * verdict.change, 1.2 * verdict.change))
    bounds = (0.0,) if margin is None else (0.0, margin, -margin)
    return Amount.within(low, high, unit=f" {verdict.unit}".rstrip(), bounds=bounds)


def signed(write: Amount, change: float) -> str:
    """Return a change with its sign and its unit."""
    said = write(change)
    return f"+{said}" if change > 0 and not write.prefix and set(said) & set("123456789") else said


def without_unit(verdict: Verdict) -> tuple[str, str]:
    """Return a change and its interval without their unit, which a column names; empty where they are unknown."""
    if verdict.change is None:
        return "", ""
    write = amount_of(verdict)
    interval = "" if verdict.interval is None else write(*verdict.interval).removesuffix(write.unit)
    if verdict.interval is not None and is_too_wide(verdict.unit, verdict.interval):
        interval = say("too_wide")
    return signed(write, verdict.change).removesuffix(write.unit), interval


def is_too_wide(unit: str | None, interval: tuple[float, float]) -> bool:
    """Return whether an interval of shares (the unit is None) has ends so far apart that it says nothing."""
    low, high = interval
    return unit is None and 1 + high > _WIDEST * (1 + low)


def _evidence(verdict: Verdict) -> str:
    seeds = counted(verdict.seeds, "seed")
    if verdict.interval is not None:
        evidence = f"{verdict.interval_name} {without_unit(verdict)[1]}; {seeds}"
        return say("geometric", evidence=evidence) if verdict.is_geometric else evidence
    return say("awaited", n=verdict.seeds, awaited=verdict.awaited) if verdict.kind == "waiting" else seeds


def about(n: int) -> str:
    """Return a number of seeds to two digits: the spread it rests on is known no better.

    Examples:
        >>> about(9), about(123), about(123_456)
        ('about 9', 'about 120', 'more than 1,000')
    """
    return f"about {n}" if n < 100 else f"about {float(f'{n:.1e}'):.0f}" if n < _FAR else "more than 1,000"


_WIDEST = 100
"""An interval of a ratio whose ends lie further apart than this factor says nothing."""

_FAR = 1_000
"""Numbers of seeds from which on it does not matter how many."""


def more_seeds(more: int, chance: float, *, ahead: int | None = None) -> str:
    """Return how many more seeds would settle a difference, by a planned analysis `ahead`, and with which chance.

    Examples:
        >>> more_seeds(5, 0.812)
        'about 5 more seeds would settle it with a chance of about 80 %'
    """
    tens = 10 * min(9, round(10 * chance))
    likely = f"of about {tens} %" if tens else "below 5 %"
    if ahead is not None:
        return say("look_ahead", seeds=ahead, chance=likely)
    return say("settling", more=about(more), seeds="seed" if more == 1 else "seeds", chance=likely)
