"""The TPEs of Optuna and hyperopt as searchers of subsets: D′ parameters, each a choice among all features.

They print a subset and read its score, until the input ends.
"""

import json
import logging
import sys


class _EndOfInput(Exception):  # noqa: N818 (not an error)
    """The input has ended."""


def _request_score(subset: list[int]) -> float:
    print(json.dumps(subset), flush=True)
    answer = sys.stdin.readline()
    if not answer.strip():
        raise _EndOfInput
    return float(json.loads(answer))


def _optuna(features: int, size: int, seed: int) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    choices = list(range(features))
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))

    def objective(trial: optuna.Trial) -> float:
        return _request_score([trial.suggest_categorical(f"place {k}", choices) for k in range(size)])

    try:
        study.optimize(objective, n_trials=None)
    except _EndOfInput:
        return


def _hyperopt(features: int, size: int, seed: int) -> None:
    import numpy as np
    from hyperopt import fmin, hp, tpe

    logging.disable(logging.CRITICAL)
    space = [hp.choice(f"place {k}", list(range(features))) for k in range(size)]
    try:
        fmin(
            lambda subset: -_request_score([int(feature) for feature in subset]),
            space,
            algo=tpe.suggest,
            max_evals=sys.maxsize,
            rstate=np.random.default_rng(seed),
            show_progressbar=False,
        )
    except _EndOfInput:
        return


SEARCHERS = {"optuna": _optuna, "hyperopt": _hyperopt}
