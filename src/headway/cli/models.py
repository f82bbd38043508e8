"""The verbs on finished models: generate, export, xray, ablate, prune, patch, look."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.base.text import command_line
from headway.cli import options as opt
from headway.cli.options import app, check_out, check_writable, path_of, print_tables, say, tell, warn
from headway.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.heads.results import ModelOnText
    from headway.report.charts.page import Table
    from headway.report.models.page import ModelPage


def _page_folder(verb: str) -> Any:
    return opt.file_option("DIR", f"The folder to write the page to. Default: results/{verb}-NAME.")


LengthOf = Annotated[
    int | None, opt.whole_number(2, "Tokens per sequence. Default: the model's context length, at most 256.")
]
SequencesOf = "The maximum number of sequences to read. Default: enough for 8,192 tokens, but at least 32."
TrustCode = Annotated[bool, typer.Option("--trust-code", help="Run Python code that comes with the model.")]


@app.command()
def generate(
    checkpoint: opt.Checkpoint,
    prompt: Annotated[str, typer.Option(help="The text to continue.")] = "",
    tokens: Annotated[
        int | None,
        opt.whole_number(1, "The maximum number of tokens. Default: 200, or as many as fit into the training context."),
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(min=0, help="The sampling temperature, which divides the logits; 0: always the likeliest token."),
    ] = 0.9,
    top_k: Annotated[int | None, opt.whole_number(1, "Sample only from the K likeliest tokens.", metavar="K")] = None,
    top_p: Annotated[
        float | None,
        typer.Option(metavar="P", help="Sample only from the likeliest tokens, up to cumulative probability P."),
    ] = None,
    seed: Annotated[int, opt.whole_number(0, "The random seed.", most=2**63 - 1)] = 0,
    tokenizer: opt.TokenizerOf = None,
) -> None:
    """Generate text with a trained language model.

    Example: headway generate gpt2 --prompt "Once upon a time"
    """
    from headway.analysis.open import open_model

    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    say(open_model(checkpoint, tokenizer, for_="write").write(prompt, n_tokens=tokens, **sampling))


@app.command()
def export(
    checkpoint: opt.Checkpoint,
    directory: Annotated[Path, typer.Argument(callback=path_of, metavar="OUT", help="The folder to write to.")],
) -> None:
    """Write a language model to a folder that `transformers` can load.

    `transformers` contains the code of GPT-Neo, GPT-2, Llama and Mistral. For any other model, Headway also writes the
    code into the folder.

    Example: headway export results/head-progression/runs/constant-low/seed-0 OUT
    """
    from headway.analysis.open import open_model
    from headway.hf.write import export as write

    opened = open_model(checkpoint, for_="write")
    model = opened.own
    model_type = write(model.model, model.vocab_size, model.weights(), directory, opened.tokenizer)
    _say_written(model_type, directory)
    if opened.tokenizer is None:
        warn(f"{checkpoint} has no tokenizer, so {directory} has none")


def _say_written(model_type: str, folder: Path) -> None:
    code = "; it has its own code, so load it with trust_remote_code=True" if model_type == "headway" else ""
    say(f"{model_type}: {folder}{code}")


@app.command()
def xray(
    checkpoint: opt.Checkpoint,
    text: opt.TextOrOwn = None,
    decoder_text: Annotated[
        str | None,
        opt.file_option(
            "FILE",
            "For T5, BART and Marian: a file of decoder texts, one for each line of --text. Default: the "
            "decoder reads the encoder's text.",
        ),
    ] = None,
    out: Annotated[Path | None, _page_folder("xray")] = None,
    as_json: opt.AsJson = False,
    tokenizer: opt.TokenizerOf = None,
    sequences: Annotated[
        int | None, opt.whole_number(1, "The maximum number of sequences. Default: enough for 4,096 tokens.")
    ] = None,
    length: Annotated[
        int | None, opt.whole_number(2, "Tokens per sequence. Default: the model's context length, at most 512.")
    ] = None,
    draws: opt.Draws = None,
    plugin: opt.Plugins = None,
    device: opt.Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """Measure every attention head of a model on a text.

    Lists induction heads and other known kinds of heads, similar heads and idle heads. Plots each metric of each head.

    Example: headway xray gpt2 --text mine.txt
    """
    from headway.analysis.xray import xray as measure
    from headway.report.models.xray import layers, xray_page

    check_out(out, as_json=as_json)
    _run_plugins(plugin)
    found = measure(
        checkpoint,
        text=text,
        decoder_text=decoder_text,
        tokenizer=tokenizer,
        sequences=sequences,
        length=length,
        draws=draws,
        device=device,
        trust_code=trust_code,
    )
    switches = ["--trust-code"] * trust_code
    look = command_line("look", checkpoint, *switches, plugin=plugin, text=text, tokenizer=tokenizer)
    show_model(found, layers(found), lambda: xray_page(found, look), checkpoint, out, as_json)


def _run_plugins(files: list[str] | None) -> None:
    """Run files of a user's own metrics."""
    if not files:
        return
    from headway.config.plugins import load

    for file in files:
        tell(load(file).sentence)


@app.command()
def ablate(
    checkpoint: opt.Checkpoint,
    text: opt.TextOrOwn = None,
    circuit: Annotated[
        str | None,
        typer.Option(
            metavar="L0H0,L1H0", help="Also ablate all heads except these; compare with random sets of equal size."
        ),
    ] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="FILE.npy", help="The target of each token in --text FILE.npy (-1: none).")
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also list the interaction of every measured pair of heads.")
    ] = False,
    out: Annotated[Path | None, _page_folder("ablate")] = None,
    as_json: opt.AsJson = False,
    tokenizer: opt.TokenizerOf = None,
    sequences: Annotated[int | None, opt.whole_number(2, SequencesOf)] = None,
    length: LengthOf = None,
    device: opt.Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """Ablate each head, and measure how the loss changes.

    Ablates each head by three methods (zero, mean and resample ablation). Reports effects with confidence intervals,
    next to estimates from gradients. Also ablates several heads at once, and lists heads that compensate for each
    other. Before measuring, Headway checks that masking a head gives the same result as removing the head.

    Example: headway ablate gpt2 --text mine.txt
    """
    from headway.analysis.ablate import ablate as measure
    from headway.report.models.ablation import ablation_page, ways

    check_out(out, as_json=as_json)
    found = measure(
        checkpoint,
        text=text,
        targets=targets,
        pairs=pairs,
        circuit=None if circuit is None else [head.strip() for head in circuit.split(",") if head.strip()],
        tokenizer=tokenizer,
        sequences=sequences,
        length=length,
        device=device,
        trust_code=trust_code,
        tell=tell,
    )
    show_model(found, ways(found), lambda: ablation_page(found), checkpoint, out, as_json)


@app.command()
def prune(
    checkpoint: opt.Checkpoint,
    by: Annotated[
        Literal["taylor", "ablation", "gates", "budget", "alike", "alike-either", "output", "magnitude", "random"],
        typer.Option(
            help="How to choose the heads to prune. By importance: taylor (gradients of gates), ablation (measured "
            "effects), gates (learned gates, L0 penalty) or budget (learned gates, relaxed top-k). One of the two most "
            "similar heads: alike (the one with the smaller output) or alike-either (at random). Smallest first: "
            "output (norm of the output) or magnitude (norm of W_V W_O). random: in random order."
        ),
    ],
    keep: Annotated[str, typer.Option(metavar="N|SHARE", help="The number or share of heads to keep: 24, 50% or 0.5.")],
    out: Annotated[Path, opt.file_option("FOLDER", "The folder to write to.")],
    text: opt.TextOrExamples = None,
    steps: Annotated[
        int, opt.whole_number(1, "The number of pruning rounds; each round measures importance again.", most=10_000)
    ] = 1,
    tokenizer: opt.TokenizerOf = None,
    sequences: Annotated[int | None, opt.whole_number(1, SequencesOf)] = None,
    length: LengthOf = None,
    device: opt.Device = "auto",
    seed: Annotated[int, opt.whole_number(0, "The random seed.", most=2**63 - 1)] = 0,
) -> None:
    """Remove heads from a model, and write the smaller model.

    Query heads that share keys and values are pruned together. A layer may lose all of its heads. Headway measures the
    change in the loss, and how much time and memory the smaller model saves.

    Example: headway prune gpt2 --by taylor --keep 0.5 --text mine.txt --out pruned
    """
    from headway.analysis.prune import prune as take_heads

    found = take_heads(
        checkpoint,
        by=by,
        keep=keep,
        text=text,
        out=out,
        steps=steps,
        tokenizer=tokenizer,
        sequences=sequences,
        length=length,
        device=device,
        seed=seed,
        tell=tell,
    )
    for sentence in found.sentences:
        say(f"* {sentence}")
    assert found.folder is not None
    folder, model_type = found.folder
    _say_written(model_type, folder)


def show_model(
    found: "ModelOnText",
    overview: "Table",
    drawn: "Callable[[], ModelPage]",
    checkpoint: Path,
    out: Path | None,
    as_json: bool,
) -> None:
    """Print the result of an analysis: sentences and a table, then its page; or all of it as JSON."""
    from headway.report.models.page import folder_of, terminal_table

    if as_json:
        import json

        if out is not None:
            drawn().write(out, checkpoint, opt.typed_command())
        say(json.dumps(found.to_json(), allow_nan=False))
        return
    for said in [finding.sentence for finding in found.findings] or [found.nothing]:
        say(f"* {said}")
    for finding in found.not_found:
        say(f"- {finding.sentence}")
    say()
    print_tables(terminal_table(overview))
    for note in found.notes:
        say(f"note: {note}")
    say(f"measured on {found.read}")
    tell("drawing ...")
    page = drawn()
    folder = out or folder_of(page.verb, found, checkpoint)
    replaced = " (replaced an earlier page; --out DIR keeps both)" if (folder / f"{page.verb}.html").exists() else ""
    say(f"page: {page.write(folder, checkpoint, opt.typed_command())}{replaced}")


@app.command()
def patch(
    checkpoint: opt.Checkpoint,
    clean: Annotated[
        str,
        typer.Option(
            metavar="TEXT|FILE", help="The prompt that --answer completes correctly, or a file with a prompt per line."
        ),
    ],
    corrupted: Annotated[
        str,
        typer.Option(
            metavar="TEXT|FILE",
            help="A prompt for which --answer is wrong, with as many tokens as --clean; or a file of prompts.",
        ),
    ],
    answer: Annotated[
        str,
        typer.Option(
            metavar="WORD|FILE", help="The correct next word (first token only), or a file with one word per line."
        ),
    ],
    wrong: Annotated[
        str | None,
        typer.Option(
            metavar="WORD|FILE",
            help="A wrong next word, for a logit difference. Default: measure the log probability of --answer.",
        ),
    ] = None,
    sites: Annotated[
        str, typer.Option(metavar="A,B", help="Parts of a head to patch, one at a time: z (output), q, k, v, pattern.")
    ] = "z,q,k,v,pattern",
    by_position: Annotated[bool, typer.Option("--by-position", help="Patch each position separately.")] = False,
    paths: Annotated[bool, typer.Option(help="Also do path patching through queries, keys and values.")] = True,
    out: Annotated[Path | None, _page_folder("patch")] = None,
    as_json: opt.AsJson = False,
    tokenizer: opt.TokenizerOf = None,
    device: opt.Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """Patch activations from a clean prompt into a corrupted prompt.

    Measures how much of the logit difference each head restores, and which heads affect which later heads. With files
    of several prompts, each effect has a confidence interval.

    Example: headway patch gpt2 --clean "He said that" --corrupted "She said that" --answer " he"
    """
    from headway.analysis.patch import patch_texts
    from headway.analysis.text_pairs import text_or_lines
    from headway.report.models.patching import most_restoring, patch_page

    check_out(out, as_json=as_json)
    texts = {"clean": clean, "corrupted": corrupted, "answer": answer, "wrong": wrong}
    given = {name: None if text is None else text_or_lines(text, f"--{name}") for name, text in texts.items()}
    found = patch_texts(
        checkpoint,
        **given,  # type: ignore[arg-type]
        sites=tuple(site.strip() for site in sites.split(",") if site.strip()),
        by_position=by_position,
        paths=paths,
        tokenizer=tokenizer,
        device=device,
        trust_code=trust_code,
        tell=tell,
    )
    show_model(found, most_restoring(found), lambda: patch_page(found), checkpoint, out, as_json)


def _paths_of(given: list[Path]) -> list[Path]:
    return [path_of(path) for path in given]


@app.command()
def look(
    models: Annotated[
        list[Path],
        typer.Argument(
            callback=_paths_of,
            metavar="MODEL...",
            help="The folder of a run or of a Hugging Face model, or a results directory. The page shows up to "
            "two models side by side.",
        ),
    ],
    text: opt.TextOrOwn = None,
    heads: Annotated[
        str | None, typer.Option(metavar="L0H3,L2", help="Show patterns of these heads and layers only. Default: all.")
    ] = None,
    out: Annotated[
        Path | None, opt.file_option("FILE", "The page to write. Default: results/look-NAME.html, or DIR/look.html.")
    ] = None,
    tokenizer: opt.TokenizerOf = None,
    sequences: Annotated[
        int | None, opt.whole_number(1, "Number of text sequences, and of repeated-token sequences. Default: 4 each.")
    ] = None,
    length: Annotated[
        int | None, opt.whole_number(2, "Tokens per sequence. Default: the model's context length, at most 128.")
    ] = None,
    draws: opt.Draws = None,
    plugin: opt.Plugins = None,
    largest: Annotated[
        float,
        typer.Option(
            min=0.6, max=2000, metavar="MB", help="The size limit of the page; patterns that do not fit are left out."
        ),
    ] = 10,
    device: opt.Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """Write an interactive page of every head's attention patterns.

    Pick a head on the page to see its patterns, circuits and metrics, and the heads most similar to it. The page shows
    patterns on your text and on repeated tokens, and each metric next to its value for random heads. If the run
    measured heads during training, a slider replays training.

    Example: headway look gpt2 --text mine.txt
    """
    from headway.analysis.look import look as look_at
    from headway.analysis.look import models_in
    from headway.api import look_page_of
    from headway.report.models.look import look_page

    chosen, page = models_in(models), _page_of(out, models)
    _run_plugins(plugin)
    n_bytes, views = int(largest * 1e6), []
    for path in chosen:
        if len(chosen) > 1:
            tell(f"looking at {path} ...")
        view = look_at(
            path,
            text=text,
            heads=heads,
            tokenizer=tokenizer,
            sequences=sequences,
            length=length,
            draws=draws,
            largest=n_bytes // len(chosen),
            device=device,
            trust_code=trust_code,
        )
        views.append(view)
    draw = look_page if len(models) > 1 else partial(look_page_of, models=models[0])
    drawn = draw(views, command=opt.typed_command(), largest=n_bytes)
    for cut in drawn.cuts:
        say(f"note: {cut}")
    drawn.write(page)
    say(f"page: {page} ({len(drawn.html.encode()) / 1e6:.1f} MB)")
    _link(page)


def _page_of(out: Path | None, models: list[Path]) -> Path:
    """Return the file of the page."""
    from headway.analysis.model import ModelFolder

    if out is not None:
        if out.is_dir():
            raise UserError(f"--out {out}: it is a folder; give a file, such as {out / 'look.html'}")
        check_writable(out.parent, f"--out {out}")
        return out
    if len(models) == 1 and (models[0] / "experiment.yaml").is_file():
        check_writable(models[0], f"the page would go to {models[0]}, and")
        return models[0] / "look.html"
    names = [ModelFolder(asked=path, path=path, kind="other").name for path in models]
    return Path("results") / f"look-{'-beside-'.join(names[:2])}.html"


def _link(page: Path) -> None:
    """The report beside a page, if there is one, is written anew: it links to the page."""
    if page.name != "look.html" or not all((page.parent / f).is_file() for f in ("report.html", "experiment.yaml")):
        return
    from headway.api import finish
    from headway.store.directory import Store

    finish(Store.open(page.parent), figures=False, look=False)
    say(f"linked from {page.parent / 'report.html'}")
