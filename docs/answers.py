"""The answers of the shipped experiments: `make answers` runs what is due, one after the other, and writes the pages.

    python docs/answers.py FOLDER             # what is due: runs it below FOLDER, resumes what was stopped there
    python docs/answers.py FOLDER NAME ...    # these alone
    python docs/answers.py --gallery          # the gallery anew, from the answers that are there

An answer is a page, its picture, and NAME.json: the verdicts and the ids of the runs. It is due where the file that
ships today asks for other runs. Experiments on text read `train.txt` and `valid.txt` in FOLDER: TinyStories, as
docs/how-to.md fetches it.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

import headway
from headway.base.files import Content
from headway.config.experiment import Experiment
from headway.config.lm.run import is_text
from headway.config.load import load
from headway.config.yaml import shipped
from headway.report.experiment.page import write_answer
from headway.stats.results import write

ANSWERS = Path(__file__).with_name("answers")
TEXT = ("task.corpus=train.txt", "task.validation=valid.txt")
SOURCE = (
    "7,817 stories for training and 1,558 others for evaluation, of TinyStories (V1, V2-GPT4 and its 10M-token subset)"
)
"""The text of the answers that rest on one."""
UNTIL = dict.fromkeys(("icl-optimizer", "icl-anisotropic", "icl-linear-attention"), "1%")
"""Experiments whose shipped seeds leave a question open, and the margin until which seeds are added."""
SEEDS = {"head-order": 8, "head-progression": 8}
"""Experiments that need a fixed number of seeds above the shipped one."""

_NEXT = "not run yet with the current statistical rules; takes 5 to 35 minutes on two cores"
_LONG = "not run yet with the current statistical rules; takes more than an hour on two cores"
DUE: Mapping[str, str] = {"icl-depth": _LONG}
"""Experiments without an answer, and why."""

GROUPS = {
    "How many heads": ("head-progression", "icl-heads", "icl-paper", "icl-second-head", "heads-for-parity", "gqa"),
    "In which layers": ("head-order", "head-scaling", "heads-for-hops", "heads-for-induction", "heads-for-recall"),
    "How heads differ": ("x-ray", "regularized", "icl-two-tasks", "heads-for-retrieval", "heads-for-endpoints"),
    "Which heads can be pruned": ("prune-heads", "pruned-or-scratch", "when-heads-settle"),
    "Linear regression in context": (
        "icl-init", "icl-optimizer", "icl-anisotropic", "icl-linear-attention", "icl-depth",
    ),
    "Data lane and rank": ("data-lane", "data-lane-depth", "data-lane-data", "low-rank"),
}  # fmt: skip


def experiment_of(name: str) -> Experiment:
    """The experiment whose runs an answer rests on: the laptop scale, on TinyStories where it reads text."""
    plain = load(name)
    if not is_text(plain.arms[0].resolved_spec):
        return plain
    # A number of Headway's own stories is no number of documents of another text.
    takes_some = plain.document.task.get("stories") is not None
    return load(name, settings=(*TEXT, "task.stories=null") if takes_some else TEXT)


def answers() -> dict[str, dict[str, Any]]:
    """The numbers of the answers that are written, by experiment."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(ANSWERS.glob("*.json"))}


def is_current(name: str, answer: Mapping[str, Any]) -> bool:
    """Return whether the runs of an answer are those that the shipped file asks for."""
    if name not in shipped():
        return False
    arms = {arm.name: arm for arm in experiment_of(name).selected}
    runs = answer["runs"]
    return set(runs) == set(arms) and all(
        [arms[name].spec(seed).id for seed in runs[name]["seeds"]] == runs[name]["ids"] for name in arms
    )


def sentence(name: str) -> str:
    """The answer in a sentence: the first bold words of its page."""
    return (ANSWERS / f"{name}.md").read_text(encoding="utf-8").split("**")[1]


_RUNS = "- Runs: "
"""The beginning of the line that says how many runs an answer rests on."""


def text_named(folder: Path) -> str:
    """Return the line on the text that language models were trained on: its source, and hashes to compare with."""
    hashes = {name: Content.of_file(folder / name).sha256[:16] for name in ("train.txt", "valid.txt")}
    return f"- Text: {SOURCE}; SHA-256 {' and '.join(f'{found}... ({name})' for name, found in hashes.items())}."


def answered(name: str, folder: Path) -> None:
    """Run an experiment to its end below a folder, and write its page, picture and numbers.

    Raises:
        UserError: when it cannot be run.
    """
    experiment = experiment_of(name)
    seeds, until = SEEDS.get(name), UNTIL.get(name)
    directory = headway.run(
        experiment, folder / name, seeds=seeds, until=until, look=False, figures=False, progress=True
    )
    results = write(directory)
    page = write_answer(directory, results)
    text = page.read_text(encoding="utf-8")
    if is_text(experiment.arms[0].resolved_spec):
        text = text.replace(_RUNS, f"{text_named(folder)}\n{_RUNS}")
    (ANSWERS / page.name).write_text(text, encoding="utf-8")
    picture = page.with_suffix(".png")
    if picture.is_file():  # few colours are enough for a figure, and a fifth of the bytes
        Image.open(picture).convert("RGB").quantize(64).save(ANSWERS / picture.name, optimize=True)
    told = json.loads((directory.path / "results.json").read_text(encoding="utf-8"))
    kept = {key: told[key] for key in ("experiment", "scale", "primary", "contrasts")}
    kept["comparisons"] = [one for one in told["comparisons"] if one["metric"] == told["primary"]]
    kept["runs"] = {}
    for run in told["runs"]:
        of_arm = kept["runs"].setdefault(run["arm"], {"seeds": [], "ids": [], "values": []})
        of_arm["seeds"].append(run["seed"])
        of_arm["ids"].append(run["id"])
        of_arm["values"].append(run["metrics"].get(told["primary"]))
    (ANSWERS / f"{name}.json").write_text(json.dumps(kept, separators=(",", ":")) + "\n", encoding="utf-8")


def write_gallery() -> None:
    """Write the table of answers, grouped as a reader thinks."""
    there = answers()
    lines = ["# Answers", "", "Each page answers one question. A JSON file beside the page has its numbers.", ""]
    lines += [
        "**[Four published sources, claim by claim](sources.md)** is the shortest way to what Headway found. Every "
        "claim stands there with the published number, Headway's number and the verdict.",
        "",
        "A comparison is *clear* if its interval excludes 0, *as good within 1 %* if the interval lies between −1 and "
        "1 %, and otherwise *open*: no clear difference yet. An answer *in doubt* comes with its reason.",
        "",
    ]
    for group, names in GROUPS.items():
        rows = [name for name in names if name in there]
        if rows:
            lines += [f"## {group}", "", "| question | answer | |", "|---|---|---|"]
        for name in rows:
            picture = f'<img src="{name}.png" alt="figure" width="160">' if (ANSWERS / f"{name}.png").is_file() else ""
            lines.append(f"| [{load(name).document.question}]({name}.md) | {sentence(name)} | {picture} |")
        lines += [""] if rows else []
    if due := [name for name in shipped() if name not in there]:
        lines += ["## Not answered yet", "", *(f"* `{name}`: {DUE.get(name, _NEXT)}" for name in due), ""]
    (ANSWERS / "README.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def main() -> None:
    """Run what is due, and write the gallery."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where the results directories are")
    parser.add_argument("names", nargs="*", help="experiments; by default those whose answers are due")
    parser.add_argument("--gallery", action="store_true", help="only the gallery")
    asked = parser.parse_args()
    if not asked.gallery:
        if asked.folder is None:
            parser.error("give the folder of the results directories, or --gallery")
        there = answers()
        names = asked.names or [name for name in shipped() if name not in there or not is_current(name, there[name])]
        asked.folder.mkdir(parents=True, exist_ok=True)
        os.chdir(asked.folder)
        for name in names:
            print(f"== {name}", file=sys.stderr)
            answered(name, Path())
            write_gallery()
    write_gallery()


if __name__ == "__main__":
    main()
