"""``python -m audit``: the same program as ``audit``."""

import sys

from audit.cli import main

sys.exit(main())
