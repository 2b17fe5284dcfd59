"""Bounds without a game: what four counts say, in every notion.

The counts are those behind a published μ_emp of 0.43; see docs/published.md.

python examples/bounds_from_counts.py
"""

import audit
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.joint_bayes import JointBayes
from audit.privacy import mu_hat

COUNTS = audit.Counts(fp=949, tn=1051, fn=743, tp=1257)

if __name__ == "__main__":
    print(
        f"fpr {COUNTS.fpr:.4f}, fnr {COUNTS.fnr:.4f}, mu_hat {mu_hat(COUNTS.fpr, COUNTS.fnr):.4f}"
    )
    smooth = (audit.GDP(), audit.ZCDP())
    for notion in (*smooth, audit.ApproximateDP(0.01), audit.PureDP()):
        exact = ClopperPearson(significance=0.1).lower(COUNTS, notion)
        print(f"clopper_pearson (finite-sample): at least {notion.label(exact)}")
    # near the kink of the others a joint bound over-claims, unless one side is chosen beforehand
    for notion in smooth:
        joint = JointBayes(significance=0.1).lower(COUNTS, notion)
        print(f"joint_bayes (Bayesian):          at least {notion.label(joint)}")
