"""What every test process needs."""

import logging
import os
import signal
import threading

import pytest
from hypothesis import settings

# The same examples in every run, so that no landing fails by a draw; HYPOTHESIS_PROFILE=search
# looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# A shell that starts tests in the background has them ignore Ctrl-C, and so would what they start
# and interrupt.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def log_levels():
    """A test with hydra.verbose makes no other test's errors longer."""
    loggers = [logging.getLogger(name) for name in (None, "audit")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
