"""What every test process needs."""

import os
import signal
import threading

from hypothesis import settings

# The same examples in every run, so that no landing fails by a draw; HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# A shell that starts tests in the background has them ignore Ctrl-C, and so would what they start and interrupt.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
