"""Initial batches are proposed without waiting for scores, and are the same as with waiting."""

import numpy as np
import pytest

from maabo_dist.mining import run as run_module
from maabo_dist.mining.run import SearchRun
from maabo_dist.screens.screen import compute_screen
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.training import depth_search
from tests import factories


def proposals(study):
    """Return the batches of a search, and how many were proposed before the first was observed."""
    screen = None
    if study.plan.screened:
        screen = compute_screen(study.columns, study.tree_split, study.table.root_scores, study.plan.screens)
    run, batches, observed, ahead = SearchRun(study, None, screen), [], 0, None
    while not run.finished:
        subsets = run.propose()
        if subsets is not None:
            batches.append(subsets)
            continue
        ahead = len(batches) if ahead is None else ahead
        run.observe(depth_search(study.table, batches[observed], study.settings.max_depth))
        observed += 1
    return [batch.tolist() for batch in batches], ahead


@pytest.mark.parametrize("preset", ["paper", "auto"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("batch", "in_flight"), [(1, 1), (3, 1), (2, 4)])
def test_initial_batches_do_not_depend_on_scores(preset, seed, batch, in_flight, monkeypatch):
    columns = factories.make_clear(np.random.default_rng(seed), 120, 9)
    changes = {"batch": batch, "in_flight": in_flight, "trees": 40, "initial": 12, "subset_size": 3, "seed": seed}
    study = Study.build(columns, MiningSettings.parse({"preset": preset} | changes))

    eager, ahead = proposals(study)
    monkeypatch.setattr(run_module, "INITIAL_AHEAD", 0)
    patient, waited = proposals(study)

    assert eager == patient
    assert (ahead, waited) == (-(-12 // batch), min(in_flight, -(-12 // batch)))


def test_a_search_with_patience_waits_for_scores():
    """It may end among its initial subsets."""
    columns = factories.make_clear(np.random.default_rng(1), 120, 9)
    settings = MiningSettings(preset="paper", trees=40, initial=12, subset_size=3, patience=5)
    study = Study.build(columns, settings)
    run = SearchRun(study, run_module.TreePool(study))

    assert run.propose() is not None
    assert run.propose() is None
