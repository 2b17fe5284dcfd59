"""The few types that every layer uses.

An audit plays a distinguishing game. A `Challenge` holds the two neighbouring data sets, a
`Mechanism` releases something about one of them, a `Source` turns releases into `Trials` (rows and
bits), an attack turns trials into `Scores`, a protocol arranges scores as `Evidence`, and an
estimator reads a `Bound` off the evidence.

Everything here is immutable. Arrays are read-only, whichever backend made them.
"""

from audit.core.data import FIX_IT as FIX_IT
from audit.core.data import RELEASE_NUMBERS as RELEASE_NUMBERS
from audit.core.data import Array as Array
from audit.core.data import AuditError as AuditError
from audit.core.data import Columns as Columns
from audit.core.data import Domain as Domain
from audit.core.data import Neighbours as Neighbours
from audit.core.data import Outputs as Outputs
from audit.core.data import Table as Table
from audit.core.data import Tables as Tables
from audit.core.data import UnreadableOutput as UnreadableOutput
from audit.core.data import read_only as read_only
from audit.core.data import relation as relation
from audit.core.mechanism import CanaryReleases as CanaryReleases
from audit.core.mechanism import Challenge as Challenge
from audit.core.mechanism import Claim as Claim
from audit.core.mechanism import HasNotes as HasNotes
from audit.core.mechanism import Isolated as Isolated
from audit.core.mechanism import Mechanism as Mechanism
from audit.core.mechanism import Releases as Releases
from audit.core.mechanism import ReportsSpending as ReportsSpending
from audit.core.results import Bound as Bound
from audit.core.results import ChecksDesign as ChecksDesign
from audit.core.results import Efficiency as Efficiency
from audit.core.results import Estimator as Estimator
from audit.core.results import Kind as Kind
from audit.core.results import LadderRun as LadderRun
from audit.core.results import MeasuredCoverage as MeasuredCoverage
from audit.core.results import NextStep as NextStep
from audit.core.results import NotApplicable as NotApplicable
from audit.core.results import Power as Power
from audit.core.results import Result as Result
from audit.core.results import Rung as Rung
from audit.core.results import Stage as Stage
from audit.core.results import Strength as Strength
from audit.core.results import Verdict as Verdict
from audit.core.results import Word as Word
from audit.core.results import WrongEvidence as WrongEvidence
from audit.core.setup import AuditProtocol as AuditProtocol
from audit.core.setup import ChecksSetup as ChecksSetup
from audit.core.setup import Setup as Setup
from audit.core.trials import TRIAL_ARRAYS as TRIAL_ARRAYS
from audit.core.trials import Attack as Attack
from audit.core.trials import Attacker as Attacker
from audit.core.trials import Counts as Counts
from audit.core.trials import Criterion as Criterion
from audit.core.trials import Design as Design
from audit.core.trials import Evidence as Evidence
from audit.core.trials import Fold as Fold
from audit.core.trials import RankedScores as RankedScores
from audit.core.trials import ReadsColumns as ReadsColumns
from audit.core.trials import Recorded as Recorded
from audit.core.trials import RecordedTable as RecordedTable
from audit.core.trials import Scores as Scores
from audit.core.trials import Source as Source
from audit.core.trials import Trials as Trials
from audit.core.trials import area as area
from audit.core.trials import progressive as progressive
