"""Optuna's and hyperopt's TPE as searchers of subsets: D′ places, each a choice among all features.

Who asks decides when it is enough: a subset goes out, its score comes in, until the input ends.
"""

import json
import logging
import sys


class _NoMore(Exception):  # noqa: N818 (it is an end, no error)
    """Nobody asks any more."""


def _scored(subset: list[int]) -> float:
    print(json.dumps(subset), flush=True)
    answer = sys.stdin.readline()
    if not answer.strip():
        raise _NoMore
    return float(json.loads(answer))


def _optuna(features: int, size: int, seed: int) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    choices = list(range(features))
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))

    def objective(trial: optuna.Trial) -> float:
        return _scored([trial.suggest_categorical(f"place {k}", choices) for k in range(size)])

    try:
        study.optimize(objective, n_trials=None)
    except _NoMore:
        return


def _hyperopt(features: int, size: int, seed: int) -> None:
    import numpy as np
    from hyperopt import fmin, hp, tpe

    logging.disable(logging.CRITICAL)
    space = [hp.choice(f"place {k}", list(range(features))) for k in range(size)]
    try:
        fmin(
            lambda subset: -_scored([int(place) for place in subset]),
            space,
            algo=tpe.suggest,
            max_evals=sys.maxsize,
            rstate=np.random.default_rng(seed),
            show_progressbar=False,
        )
    except _NoMore:
        return


SEARCHERS = {"optuna": _optuna, "hyperopt": _hyperopt}
