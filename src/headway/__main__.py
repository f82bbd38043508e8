"""The command line, as `headway` and as `python -m headway`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while its modules are imported ends it without a traceback."""
    try:
        from headway.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; type the command again\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
