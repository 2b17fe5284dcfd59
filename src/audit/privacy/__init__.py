"""Notions of privacy as families of tradeoff curves, conversions between them, and an accountant.

T(P, Q)(alpha) is the least FNR of a test of P (absent) against Q (present) whose FPR is at most
alpha. A notion is a one-parameter family of such curves: a mechanism that keeps it at a parameter
allows no attack below its curve.

One concern a module, each imports only those above it:

- `audit.privacy.parameters`: ranges of parameters, arrays and labels;
- `audit.privacy.notions`: what a notion is; GDP, (ε, δ)-DP and pure DP;
- `audit.privacy.zcdp`: the curve of zCDP;
- `audit.privacy.conversions`: ε, δ, μ and ρ;
- `audit.privacy.operational`: what a claim means for a test and for a posterior;
- `audit.privacy.adaptive`: adaptive composition of Gaussian and selection steps.

References:
    Dong, Roth, Su, Gaussian differential privacy, arXiv:1905.02383 (tradeoff functions, GDP, Eq. 6,
        Corollary 1).
    Bun, Steinke, Concentrated differential privacy, arXiv:1605.02065 (zCDP).
    Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, arXiv:2004.00010
        (Corollary 13).
    Dong, Durfee, Rogers, Optimal differential privacy composition for exponential mechanisms,
        arXiv:1909.13830.
"""

from audit.privacy.adaptive import (
    AdaptiveBranch,
    GaussianStep,
    SelectionStep,
    Step,
    adaptive_mu,
    adaptive_profile,
)
from audit.privacy.conversions import (
    direct_mu,
    eps_from_rho,
    gdp_delta,
    gdp_epsilon,
    implied_mu,
    rho_from_eps_delta,
    simple_eps_from_rho,
)
from audit.privacy.notions import GDP, ApproximateDP, ApproximateDPSide, Notion, PureDP
from audit.privacy.operational import (
    least_fnr,
    max_accuracy,
    max_posterior,
    max_posterior_at_fpr,
    max_tpr,
    mu_hat,
)
from audit.privacy.parameters import LARGEST, LEAST, STRICT, Delta, Floats, PrivacyParameter
from audit.privacy.zcdp import ZCDP, ZCDPSide

__all__ = [
    "GDP",
    "LARGEST",
    "LEAST",
    "STRICT",
    "ZCDP",
    "AdaptiveBranch",
    "ApproximateDP",
    "ApproximateDPSide",
    "Delta",
    "Floats",
    "GaussianStep",
    "Notion",
    "PrivacyParameter",
    "PureDP",
    "SelectionStep",
    "Step",
    "ZCDPSide",
    "adaptive_mu",
    "adaptive_profile",
    "direct_mu",
    "eps_from_rho",
    "gdp_delta",
    "gdp_epsilon",
    "implied_mu",
    "least_fnr",
    "max_accuracy",
    "max_posterior",
    "max_posterior_at_fpr",
    "max_tpr",
    "mu_hat",
    "rho_from_eps_delta",
    "simple_eps_from_rho",
]
