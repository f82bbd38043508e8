"""Door: `python -m headway` is the command line."""

from headway.cli import main

if __name__ == "__main__":
    main()
