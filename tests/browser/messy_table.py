"""A table as people have them: IDs, dates, gaps, letters with accents, decimal commas, and a column from the future."""

import numpy as np
import pandas as pd

LEAK, TARGET, ID, DATE, CONSTANT = "exit_reason", "churn", "customer_id", "joined", "country"


def messy_table(rows=1600):
    draws = np.random.default_rng(3)
    days = pd.Timestamp("2022-01-03") + pd.to_timedelta(draws.integers(0, 900, rows), unit="D")
    table = pd.DataFrame(
        {
            ID: [f"C-{number:05}" for number in draws.permutation(rows)],
            DATE: days.strftime("%d.%m.%Y"),
            "city": draws.choice(["Zürich", "Genève", "Malmö", "Besançon"], rows),
            "plan": draws.choice(["basic", "plus", "pro"], rows, p=[0.5, 0.3, 0.2]),
            "age": draws.normal(44, 14, rows).round(0).clip(18, 90),
            "monthly_fee": draws.gamma(6, 7, rows).round(2),
            "support_calls": draws.poisson(1.4, rows),
            "months": draws.integers(1, 72, rows),
            CONSTANT: "CH",
        }
    )
    risk = ((table["plan"] == "basic") & (table["support_calls"] >= 3)) | (
        (table["monthly_fee"] > 62) & (table["months"] < 14)
    )
    churn = draws.random(rows) < np.where(risk, 0.86, 0.12)
    table[TARGET] = np.where(churn, "yes", "no")
    table[LEAK] = np.where(churn, draws.choice(["price", "moved", "competitor"], rows), "none")
    table.loc[draws.random(rows) < 0.14, "age"] = np.nan
    table.loc[draws.random(rows) < 0.03, "city"] = np.nan
    return table


def as_csv(table):
    """As a spreadsheet in a German or French locale saves it."""
    return table.to_csv(index=False, sep=";", decimal=",").encode("latin-1")
