"""What every test process needs."""

import signal
import threading

# A shell that starts tests in the background has them ignore Ctrl-C, and so would what they start and interrupt.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
