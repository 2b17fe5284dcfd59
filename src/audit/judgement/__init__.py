"""Which word an audit ends with, on what evidence, and with which error rate."""
