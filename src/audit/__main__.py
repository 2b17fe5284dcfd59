"""``python -m audit``: the same program as ``audit``."""

import sys

from audit import interrupted


def start() -> int:
    """Run the command line; a Ctrl-C while it is still being imported leaves as quietly as a later
    one."""
    try:
        from audit.cli import main

        return main()
    except BaseException as error:
        if interrupted(error):
            return 130
        raise


if __name__ == "__main__":
    sys.exit(start())
