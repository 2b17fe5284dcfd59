"""Two audits without the command line: a mechanism, and a broken one that words describe.

python examples/audit_from_python.py
"""

from tempfile import TemporaryDirectory

import audit
from audit.mechanisms.gaussian import Gaussian

if __name__ == "__main__":
    # name a folder that stays, and the next audit finds its trials there
    with TemporaryDirectory() as root:
        honest = audit.audit(mechanism=Gaussian(eps=1, delta=0.01), root=root)
        broken = audit.audit(
            audit.compose(
                "mechanism=broken/gaussian_less_noise",
                "mechanism.noise_fraction=0.5",
                "backend=serial",
                f"root={root}",
            )
        )
        for share, result in ((1, honest), (0.5, broken)):
            print(
                f"count with {share} of the noise: {result.verdict.word}, "
                f"mu_hat {result.mu_hat:.3f}"
            )
            for bound in result.bounds:
                print(f"    at least {bound.notion.label(bound.lower)}, {bound.estimator}")
