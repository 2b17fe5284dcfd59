"""The auditor audited: how often each bound exceeds the truth, where the truth is known.
``audit coverage``

A cell is an estimator, a notion, a law with a known tradeoff curve, a number of trials and a way to
choose the threshold. Thousands of audits are simulated in each. Only over-claiming, a lower bound
above the truth, is an error:

- bounds from counts are held to the point (FPR*, FNR*) of their threshold, the hardest truth for
  them;
- bounds from all thresholds are held to the whole curve, the notion's least parameter that allows
  all of it.

Counts at a threshold that was fixed before they are drawn are binomial, so they are drawn as such.
The joint Bayesian bound is not solved for: it exceeds m if and only if P(parameter ≤ m |
counts) < significance, and that probability grows with the errors, so one critical FN for every FP
says all.
"""
