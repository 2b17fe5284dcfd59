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
from audit.mechanisms.broken.less_noise import GaussianLessNoise
from audit.mechanisms.gaussian import Gaussian
from audit.protocols import Holdout

MECHANISMS = {
    "count with 1 of the noise": Gaussian(eps=1, delta=0.01),
    "count with 0.5 of the noise": GaussianLessNoise(eps=1, delta=0.01, noise_fraction=0.5),
}


def plan(root: Path, name: str, mechanism: Gaussian) -> audit.Plan:
    """One audit of a noisy count that claims (1, 0.01)-DP."""
    return audit.Plan(
        name=name,
        config={},
        mechanism=mechanism,
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
    # name a folder that stays, and the next audit finds its trials there
    with TemporaryDirectory() as folder:
        for name, mechanism in MECHANISMS.items():
            result = audit.audit(plan(Path(folder), name, mechanism))
            print(f"{result.name}: {result.verdict.word}, mu_hat {result.mu_hat:.3f}")
            for bound in result.bounds:
                print(
                    f"    at least {bound.notion.label(bound.lower):20} {bound.estimator}, "
                    f"{bound.kind}"
                )
