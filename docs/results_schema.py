"""The JSON schema of `results.json`, as a file for readers of results; `make docs` writes it."""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from headway.base.identity import DIGEST
from headway.stats.results import SCHEMA, Results

FILE = "results.schema.json"
UNIT = (
    "unit of estimate, interval, se and detectable: '100 ln' (100 times a difference of logarithms, close to per "
    "cent), or else the unit of the metric"
)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of `results.json`."""
    described = TypeAdapter(Results).json_schema()
    described["properties"]["schema"] |= {"const": SCHEMA}
    described["properties"][DIGEST] = {"type": "string", "description": "of the rest, by which damage is noticed"}
    for kind in ("Comparison", "ComparedAtBest", "JudgedContrast"):
        properties = described["$defs"][kind]["properties"]
        properties["unit"] = dict(sorted({**properties["unit"], "description": UNIT}.items()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}


def main(folder: str) -> None:
    """Write it into a folder."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / FILE).write_text(json.dumps(json_schema(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
