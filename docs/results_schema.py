"""The JSON schema of `results.json`, as a file for readers of results; `make docs` writes it."""

import json
import sys
from pathlib import Path

from headway.stats.results import json_schema

FILE = "results.schema.json"


def main(folder: str) -> None:
    """Write it into a folder."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / FILE).write_text(json.dumps(json_schema(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
