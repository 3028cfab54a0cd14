"""Every experiment, in the order of the report. A further one is a module with an `Experiment`, named here."""

from bench.quality.beside import BESIDE
from bench.quality.experiment import Experiment
from bench.quality.growth import GROWTH
from bench.quality.planted import PLANTED, WIDE
from bench.quality.probes import PROBES
from bench.quality.shuffled import SHUFFLED
from bench.quality.stability import STABILITY
from bench.quality.titanic import TITANIC
from bench.quality.top_subsets import TOP_SUBSETS

_ALL = (PLANTED, WIDE, GROWTH, TITANIC, SHUFFLED, PROBES, STABILITY, TOP_SUBSETS, BESIDE)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
