"""What the rules of a result document explain together: rows of each class, and rows that several rules share."""

from maabo_dist.contract.document import Count, Counts, Record
from maabo_dist.contract.rules import ClassName

# Rules whose overlaps are counted; more could not be read in a figure.
MAX_COMPARED = 12


class ClassCoverage(Record):
    """The rows of a class, and those that rules explain.

    Attributes
    ----------
    label : str
        The class.
    rows : int
        Its rows, of all parts of the table.
    explained : int
        Of these, the rows that at least one rule about this class covers.
    """

    label: ClassName
    rows: Count
    explained: Count

    @property
    def share(self) -> float:
        """The share of the rows that is explained."""
        return self.explained / self.rows if self.rows else 0.0


class OverlapRecord(Record):
    """Rows that exactly these rules cover.

    Attributes
    ----------
    rules : tuple of str
        Ids of the rules; none for rows that no rule covers.
    rows : int
        The number of rows.
    counts : dict of str to int
        Of these, the rows of each class.
    """

    rules: tuple[str, ...]
    rows: Count
    counts: Counts


class CoverageInfo(Record):
    """What the rules explain together. Findings that failed on held-out rows do not count.

    Attributes
    ----------
    classes : tuple of ClassCoverage
        The classes.
    compared : tuple of str
        Ids of the rules whose overlaps are counted: the first ones.
    overlaps : tuple of OverlapRecord
        Rows by the rules that cover them, most rows first; of many combinations, those with most rows.
    """

    classes: tuple[ClassCoverage, ...]
    compared: tuple[str, ...]
    overlaps: tuple[OverlapRecord, ...]
