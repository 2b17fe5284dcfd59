"""What an audit shows: figures, tables for the terminal, and one self-contained page. The only door
to matplotlib.

A result goes in; nothing here computes a bound or judges. Figures are drawn in named colours
(`style.PALETTE`), which the page replaces by CSS variables, so that one drawing serves light and
dark.
"""
