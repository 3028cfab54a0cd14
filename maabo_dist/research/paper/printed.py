"""The figures that the paper prints, as data. Values that it only plots are not included."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrintedRule:
    """A line of the paper's table of extracted rules."""

    table: str
    arm: str
    id: str
    label: str
    n: int
    gini: float  # to two digits
    text: str


# Rules on average, by arm; `half` is MAABO-MT with half of the trees.
EXP1 = {"all": "approximately 6", "single": "approximately 1", "half": "almost all rules"}

EXP2_RANDOM_FROM = 15
EXP2_RANDOM = "only 1"  # the number of rules from random trees with more noise columns than `EXP2_RANDOM_FROM`

# Leaf nodes and extracted rules by table and arm.
SIZES: dict[tuple[str, str], tuple[int, int]] = {
    ("titanic", "maabo"): (459, 10),
    ("boston", "maabo"): (524, 16),
    ("diabetes", "maabo"): (269, 7),
    ("titanic", "single"): (16, 2),
    ("boston", "single"): (4, 2),
    ("diabetes", "single"): (8, 1),
}

RULES = (
    PrintedRule("titanic", "maabo", "P1", "Survival", 59, 0.00, "Sex/female, Age/high, Fare/large"),
    PrintedRule("titanic", "maabo", "P2", "Survival", 110, 0.02, "Sex/female, Fare/large, Pclass/good"),
    PrintedRule("titanic", "maabo", "P3", "Survival", 72, 0.04, "Sex/female, ParCh/small, Pclass/good"),
    PrintedRule("titanic", "maabo", "P4", "Death", 103, 0.11, "Sex/male, Age/high, Pclass/bad"),
    PrintedRule("titanic", "maabo", "P5", "Death", 79, 0.14, "Sex/male, Fare/small"),
    PrintedRule("titanic", "single", "S1", "Survival", 108, 0.01, "Sex/female, Age/high, Fare/large, Pclass/good"),
    PrintedRule("titanic", "single", "S2", "Death", 103, 0.11, "Sex/male, Age/high, Pclass/bad"),
    PrintedRule("boston", "maabo", "P1", "High price", 100, 0.03, "LSTAT/small, RM/large"),
    PrintedRule("boston", "maabo", "P2", "Low price", 56, 0.05, "AGE/large, NOX/large"),
    PrintedRule("boston", "maabo", "P3", "High price", 75, 0.04, "NOX/small, RM/large"),
    PrintedRule("boston", "maabo", "P4", "Low price", 139, 0.11, "PTRATIO/large, LSTAT/large"),
    PrintedRule("boston", "maabo", "P5", "High price", 101, 0.11, "CRIM/small, RM/large"),
    PrintedRule("boston", "single", "S1", "Low price", 139, 0.11, "PTRATIO/large, LSTAT/large"),
    PrintedRule("boston", "single", "S2", "High price", 131, 0.12, "RM/large, LSTAT/small"),
    PrintedRule("diabetes", "maabo", "P1", "Low progression", 81, 0.03, "HDL/large, BMI/small, LTG/small"),
    PrintedRule("diabetes", "maabo", "P2", "Low progression", 89, 0.06, "AGE/small, BMI/small, LTG/small"),
    PrintedRule("diabetes", "maabo", "P3", "Low progression", 58, 0.08, "TC/small, HDL/large, BMI/small"),
    PrintedRule("diabetes", "maabo", "P4", "High progression", 54, 0.14, "GLU/large, BMI/large, LTG/large"),
    PrintedRule("diabetes", "maabo", "P5", "Low progression", 81, 0.14, "AGE/small, HDL/large, BMI/small"),
    PrintedRule("diabetes", "single", "S1", "Low progression", 89, 0.06, "AGE/small, BMI/small, LTG/small"),
)

APP1_DEPTH = "approximately 3"
APP2_LAST_COUNT = 0  # a_4: no two subsets of 4 out of 7 features differ in all four
APP3_TIME = "some 50 %"  # the time with 1,000 candidates, relative to the time without sampling
