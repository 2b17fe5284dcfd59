"""``python -m audit``: the same program as ``audit``."""

import sys


def start() -> int:
    """Run the command line; a Ctrl-C while it is still being imported leaves as quietly as a later one."""
    try:
        from audit.cli import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(start())
