"""All experiments, in the order of the README. To add one, write a module with an `Experiment` and list it here."""

from bench.quality.complete import COMPLETE
from bench.quality.experiment import Experiment
from bench.quality.growth import GROWTH
from bench.quality.planted import PLANTED, WIDE
from bench.quality.power import POWER
from bench.quality.probes import PROBES
from bench.quality.shuffled import SHUFFLED
from bench.quality.stability import STABILITY
from bench.quality.table_comparison import TABLES
from bench.quality.titanic import TITANIC
from bench.quality.top_subsets import TOP_SUBSETS

_ALL = (PLANTED, WIDE, POWER, COMPLETE, GROWTH, TITANIC, SHUFFLED, PROBES, STABILITY, TOP_SUBSETS, TABLES)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
