"""Complete and valid result documents as JSON values; tests override only the fields they check."""

from maabo_dist.contract.result import FORMAT


def support_json(n=10, hits=9, rows=100, **fields):
    counts = {"no": n - hits, "yes": hits}
    return {"rows": rows, "n": n, "counts": counts, "precision": hits / n, "recall": 0.5, "lift": 1.5} | fields


def holdout_json(n=10, hits=9, **fields):
    interval = {"precision_low": 0.5, "precision_high": 1.0, "p": 0.01, "q": 0.02}
    return support_json(n, hits) | interval | fields


def rule_json(*conditions, **fields):
    return {
        "id": "R1",
        "text": "IF a ≤ 1 THEN y = yes",
        "conditions": list(conditions),
        "class": "yes",
        "n": 10,
        "counts": {"no": 1, "yes": 9},
        "gini": 0.18,
        "train": support_json(),
        "validation": support_json(),
        "holdout": None,
        "unique": 3,
        "most_similar": None,
        "source": {"tree": 0, "subset": ["a"], "depth": 1, "score": 0.9},
        "displaced": [],
        "displaced_total": 0,
        "dropped": [],
        "stability": None,
        "verdict": "not tested",
        "certificate": None,
        "stand_ins": [],
    } | fields


def document_json(*rules, search=None, settings=None, **fields):
    return {
        "format": FORMAT,
        "version": "0",
        "digest": "ab" * 32,
        "dataset": {
            "name": "table",
            "rows": 20,
            "features": 4,
            "target": "y",
            "classes": ["no", "yes"],
            "fingerprint": "cd" * 32,
            "base_rates": {"no": 0.5, "yes": 0.5},
            "parts": {"train": 7, "validation": 3, "holdout": 10},
        },
        "settings": {"seed": 0, "split_seed": None} | (settings or {}),
        "space": {"features": 4, "subset_size": 3, "size": 4},
        "search": {
            "strategy": "maabo",
            "planned": 4,
            "initial": 4,
            "batch": 1,
            "in_flight": 1,
            "top_features": 4,
            "candidates": None,
            "explained": [],
            "trees": 4,
            "leaves": 16,
            "best_score": 0.9,
            "seconds": 0.1,
            "stopped": "budget",
        }
        | (search or {}),
        "funnel": {
            "leaves": 16,
            "large": 8,
            "pure": 4,
            "distinct": 2,
            "supported": 2,
            "certified": None,
            "rules": len(rules),
        },
        "dropping": None,
        "noise": None,
        "certificate": None,
        "missing_classes": [],
        "no_rules_reason": None if rules else "No tree was grown.",
        "repeats": None,
        "notes": [],
        "rules": list(rules),
    } | fields
