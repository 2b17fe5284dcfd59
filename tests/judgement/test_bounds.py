import pytest

from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.ex_post import ExPost
from audit.estimators.exact import Exact
from audit.estimators.joint_bayes import JointBayes
from audit.estimators.whole_score import WholeScore
from audit.judgement.bounds import in_order


@pytest.mark.parametrize(
    "chosen", [WholeScore(significance=0.05), ExPost(significance=0.05)], ids=lambda e: e.name
)
def test_mu_emp_is_clopper_pearsons_where_the_chosen_estimator_has_no_mu(chosen):
    behind, *others = in_order(chosen, (Exact(), ClopperPearson()))
    assert behind == ClopperPearson(significance=0.05)
    assert [estimate.name for estimate in others] == [chosen.name, "exact"]


def test_any_other_estimator_gives_mu_emp_itself():
    assert in_order(JointBayes(), (Exact(),)) == (JointBayes(), Exact())
