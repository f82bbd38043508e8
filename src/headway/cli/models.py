"""Door: the verbs that take a finished model: generate, export, xray, ablate, prune."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.cli.options import (
    MOST,
    AsJson,
    Checkpoint,
    Device,
    Draws,
    TextOrExamples,
    TextOrOwn,
    TokenizerOf,
    app,
    path_of,
)
from headway.cli.output import check_out, print_tables, warn
from headway.runs.worker import share_cores

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.heads.model_on_text import ModelOnText
    from headway.show.shared.model_page import ModelPage
    from headway.show.shared.table import Table

LengthOf = Annotated[
    int | None,
    typer.Option(min=2, max=MOST, metavar="N", help="Tokens of each; by default its context, at most 256."),
]


@app.command()
def generate(
    checkpoint: Checkpoint,
    prompt: Annotated[str, typer.Option(help="How the text begins; nothing: at the start of a text.")] = "",
    tokens: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, metavar="N", help="At most so many; by default 200, or what fits its training context."
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Divides the logits; 0: always the likeliest token.")] = 0.9,
    top_k: Annotated[
        int | None, typer.Option(min=1, max=MOST, metavar="K", help="Only the K likeliest tokens.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="Only the likeliest tokens of this joint probability.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The same seed, the same text.")] = 0,
    stop: Annotated[bool, typer.Option(help="Whether the text ends at its end-of-text token.")] = True,
    tokenizer: TokenizerOf = None,
) -> None:
    """Let a trained language model write."""
    from headway.finished.opening import open_own

    share_cores()
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    print(open_own(checkpoint, tokenizer).write(prompt, n_tokens=tokens, stop=stop, **sampling))


@app.command()
def export(
    checkpoint: Checkpoint,
    directory: Annotated[Path, typer.Argument(callback=path_of, metavar="OUT", help="A folder that is made.")],
    to: Annotated[Literal["hf"], typer.Option(help="hf: a folder that Hugging Face's transformers loads.")] = "hf",
) -> None:
    """Write a trained language model for other libraries.

    A model that is a GPT-Neo, GPT-2, Llama or Mistral becomes a stock folder; any other takes its code along.
    """
    from headway.finished.opening import open_own
    from headway.hf.export import export as to_hugging_face

    share_cores()
    write = {"hf": to_hugging_face}[to]
    opened = open_own(checkpoint)
    model = opened.own
    model_type = write(model.model, model.vocab_size, model.weights(), directory, opened.tokenizer)
    code = "; load it with trust_remote_code=True, for its code goes along" if model_type == "headway" else ""
    print(f"{model_type}: {directory}{code}")
    if opened.tokenizer is None:
        warn(f"{checkpoint} has no tokenizer, so {directory} has none")


@app.command()
def xray(
    checkpoint: Checkpoint,
    text: TextOrOwn = None,
    out: Annotated[
        Path | None,
        typer.Option(callback=path_of, metavar="DIR", help="A folder that is made; by default results/xray-NAME."),
    ] = None,
    as_json: AsJson = False,
    tokenizer: TokenizerOf = None,
    sequences: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, metavar="N", help="At most so many sequences of the text; by default 4,096 tokens."
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=2, max=MOST, metavar="N", help="Tokens of each; by default its context, at most 512."),
    ] = None,
    draws: Draws = None,
    device: Device = "auto",
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Run code that comes with the folder, where it needs some.")
    ] = False,
) -> None:
    """What every head of a finished model does on a text.

    Names heads that are special, alike or idle; draws the atlas of all heads and maps of their pairs.
    """
    from headway.finished.xray import xray as measure
    from headway.show.xray.drawing import layers
    from headway.show.xray.page import xray_page
    from headway.words import command_line

    share_cores()
    check_out(out, draws=out is not None or not as_json)
    options: dict[str, Any] = {"tokenizer": tokenizer, "sequences": sequences, "length": length, "draws": draws}
    found = measure(checkpoint, text=text, device=device, trust_code=trust_code, **options)
    command = command_line("xray", checkpoint, text=text, out=out, **options) + " --trust-code" * trust_code
    look = command_line("look", checkpoint, text=text, tokenizer=tokenizer) + " --trust-code" * trust_code
    show_model(found, layers(found), lambda: xray_page(found, look), checkpoint, out, command, as_json)


@app.command()
def ablate(
    checkpoint: Checkpoint,
    text: TextOrOwn = None,
    reference: Annotated[
        str | None,
        typer.Option(
            callback=path_of,
            metavar="FILE",
            help="Another text, that stands in for heads; by default more of the text.",
        ),
    ] = None,
    mean: Annotated[
        Literal["positions", "per-position"], typer.Option(help="What the mean of a head is over, of that other text.")
    ] = "positions",
    circuit: Annotated[
        str | None,
        typer.Option(metavar="L0H0,L1H0", help="Also what these heads keep alone, beside random ones of their number."),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also what the most alike and the most important pairs do together.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(callback=path_of, metavar="DIR", help="A folder that is made; by default results/ablate-NAME."),
    ] = None,
    as_json: AsJson = False,
    tokenizer: TokenizerOf = None,
    sequences: Annotated[
        int | None,
        typer.Option(min=2, max=MOST, metavar="N", help="At most so many of each text; by default 8,192 tokens."),
    ] = None,
    length: LengthOf = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of which sequences stand in for which.")] = 0,
) -> None:
    """What the loss does without each head: at zero, at its mean, resampled.

    Every head is taken away in all three ways, with intervals; cheap estimates stand beside, and how far they agree.
    With --circuit everything outside some heads is taken away, too.
    Before any number the model is checked: a head masked must be the head removed.
    """
    from headway.finished.ablate import ablate as measure
    from headway.show.ablate.ablation_page import ablation_page
    from headway.show.ablate.effect_tables import ways
    from headway.words import command_line

    share_cores()
    check_out(out, draws=out is not None or not as_json)
    found = measure(
        checkpoint,
        text=text,
        reference=reference,
        mean=mean,
        pairs=pairs,
        circuit=None if circuit is None else [head.strip() for head in circuit.split(",") if head.strip()],
        tokenizer=tokenizer,
        sequences=sequences,
        length=length,
        device=device,
        seed=seed,
        tell=partial(typer.echo, err=True),
    )
    given = {"reference": reference, "mean": None if mean == "positions" else mean, "seed": seed or None, "out": out}
    given["circuit"] = circuit
    read = {"tokenizer": tokenizer, "sequences": sequences, "length": length}
    command = command_line("ablate", checkpoint, *["--pairs"] * pairs, text=text, **given, **read)
    show_model(found, ways(found), lambda: ablation_page(found), checkpoint, out, command, as_json)


@app.command()
def prune(
    checkpoint: Checkpoint,
    by: Annotated[
        Literal["taylor", "ablation", "gates", "budget", "alike", "alike-either", "output", "magnitude", "random"],
        typer.Option(
            help="taylor: gradients of gates; ablation: exact effects; gates: learned, with an L0 penalty; budget: "
            "learned, a relaxed top-k; alike: of the most alike two the one that adds less; alike-either: one of them "
            "that is drawn; output: what adds least; magnitude: the norm of what a head can write; random: the floor "
            "of all others."
        ),
    ],
    keep: Annotated[str, typer.Option(metavar="N|SHARE", help="Heads that stay: 24, 50% or 0.5.")],
    out: Annotated[Path, typer.Option(callback=path_of, metavar="FOLDER", help="A folder that is made.")],
    text: TextOrExamples = None,
    held_out: Annotated[
        str | None,
        typer.Option(callback=path_of, metavar="FILE", help="Another text: the loss on it, before and after."),
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="Importance is measured anew after each.")
    ] = 1,
    tokenizer: TokenizerOf = None,
    sequences: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, metavar="N", help="At most so many of each text; by default 8,192 tokens."),
    ] = None,
    length: LengthOf = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of what is drawn.")] = 0,
) -> None:
    """Write a model without some of its heads: an ordinary one of another layout.

    Heads that share keys and values go together; a layer may lose all. What it costs in loss and saves in time and
    memory is measured.
    """
    from headway.finished.prune import prune as take_heads

    share_cores()
    found = take_heads(
        checkpoint,
        by=by,
        keep=keep,
        text=text,
        out=out,
        held_out=held_out,
        steps=steps,
        tokenizer=tokenizer,
        sequences=sequences,
        length=length,
        device=device,
        seed=seed,
        tell=partial(typer.echo, err=True),
    )
    for sentence in found.sentences:
        print(f"* {sentence}")
    assert found.folder is not None
    folder, model_type = found.folder
    code = "; load it with trust_remote_code=True, for its code goes along" if model_type == "headway" else ""
    print(f"{model_type}: {folder}{code}")


def show_model(
    found: "ModelOnText",
    overview: "Table",
    drawn: "Callable[[], ModelPage]",
    checkpoint: Path,
    out: Path | None,
    command: str,
    as_json: bool,
) -> None:
    """What was found of a finished model: sentences and a table, then its page; or all of it as JSON."""
    from headway.show.shared.model_page import folder_of, terminal_table

    if as_json:
        import json

        if out is not None:
            drawn().write(out, checkpoint, command)
        print(json.dumps(found.to_json(), allow_nan=False))
        return
    for said in [finding.sentence for finding in found.findings] or [found.nothing]:
        print(f"* {said}")
    for finding in found.not_found:
        print(f"- {finding.sentence}")
    print()
    print_tables(terminal_table(overview))
    for note in found.notes:
        print(f"note: {note}")
    print(f"measured on {found.read}")
    typer.echo("drawing ...", err=True)
    page = drawn()
    print(f"page: {page.write(out or folder_of(page.verb, found, checkpoint), checkpoint, command)}")
