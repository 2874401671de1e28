"""Suggestions of changes that would help a compiled program, with their expected gains."""

from workbench.suggestions.accuracy import Spared as Spared
from workbench.suggestions.accuracy import spared_by as spared_by
from workbench.suggestions.granularity import coarser_by as coarser_by
from workbench.suggestions.ranking import KINDS as KINDS
from workbench.suggestions.ranking import Measurements as Measurements
from workbench.suggestions.ranking import ranked as ranked
from workbench.suggestions.ranking import suggest as suggest
from workbench.suggestions.suggestion import ExpectedGain as ExpectedGain
from workbench.suggestions.suggestion import Gain as Gain
from workbench.suggestions.suggestion import ModuleSaving as ModuleSaving
from workbench.suggestions.suggestion import Suggestion as Suggestion
from workbench.suggestions.suggestion import Written as Written
from workbench.suggestions.suggestion import module_cells as module_cells
from workbench.suggestions.trials import Figures as Figures
from workbench.suggestions.trials import candidates as candidates
from workbench.suggestions.trials import enough_db as enough_db
from workbench.suggestions.trials import further as further
from workbench.suggestions.trials import is_better as is_better
from workbench.suggestions.trials import tried as tried
