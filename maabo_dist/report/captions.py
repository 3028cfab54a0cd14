"""Comments of exports: a line on each rule, and lines on classes without one."""

from maabo_dist._util.text import printable
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.contract.wording import predicted_text
from maabo_dist.report.summary import evidence_text, no_rules_texts


def rule_caption(rule: RuleRecord, dataset: DatasetInfo) -> str:
    """A comment on one line, whatever the names contain."""
    return printable(f"{rule.id}: {predicted_text(rule, dataset)} ({evidence_text(rule)})")


def comment_lines(document: ResultDocument, sign: str) -> str:
    """Comment lines on classes without a finding, or on why there is no rule; without semicolons, as captions."""
    lines = [f"{title} {reason}" for title, reason in no_rules_texts(document)]
    lines += [record.text for record in document.missing_classes]
    return "".join(f"{sign} {printable(line).replace('; ', ', ').replace(';', ',')}\n" for line in lines)
