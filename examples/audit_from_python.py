"""One audit without the command line: compose a plan, play it, read the result.

python examples/audit_from_python.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import audit
from audit.attackers import LikelihoodRatio
from audit.canaries.worst_case import WorstCase
from audit.criteria import Advantage
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.joint_bayes import JointBayes
from audit.features import WhiteBox
from audit.game import Serial
from audit.mechanisms.gaussian import Gaussian
from audit.protocols import Holdout


def plan(root: Path, noise_scale: float) -> audit.Plan:
    """A noisy count that claims (1, 0.01)-DP, and adds ``noise_scale`` of the noise that this takes."""
    return audit.Plan(
        name=f"count with {noise_scale:g} of the noise",
        config={},
        mechanism=Gaussian(eps=1, delta=0.01, noise_scale=noise_scale),
        challenge=WorstCase(),
        features=WhiteBox(),
        attacker=LikelihoodRatio(),
        criterion=Advantage(),
        estimators=(JointBayes(significance=0.1), ClopperPearson(significance=0.1)),
        accusing=ClopperPearson(significance=0.01),
        protocol=Holdout(trials=10_000),
        backend=Serial(),
        seed=0,
        root=root,
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:  # name a folder that stays, and the next audit finds its trials there
        for noise_scale in (1, 0.5):
            result = audit.audit(plan(Path(folder), noise_scale))
            print(f"{result.name}: {result.verdict.word}, mu_hat {result.mu_hat:.3f}")
            for bound in result.bounds:
                print(f"    at least {bound.notion.label(bound.lower):20} {bound.estimator}, {bound.kind}")
