"""Human-readable reasons why a class has no finding, and what would show the rule that came nearest."""

from collections.abc import Mapping

from maabo_dist._util.text import format_count, printable
from maabo_dist.contract.document import SettingValue
from maabo_dist.contract.selection import MissingReason, NearestRecord

# Options that certified rules must meet, with the values that limit nothing.
_UNLIMITED = {"min_precision": 0, "min_lift": 1, "for_class": [], "min_samples": None, "gini": None}


def option_texts(settings: Mapping[str, SettingValue]) -> list[str]:
    """Settings as options: `--max-p 0.3`, `--all`."""
    return [
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {_value_text(value)}")
        for name, value in settings.items()
    ]


def limits_text(settings: Mapping[str, SettingValue]) -> str:
    """The options, with their values, that certified rules had to meet: `--min-precision 0.9, --for-class a,b`."""
    limits = {name: settings[name] for name, none in _UNLIMITED.items() if settings[name] != none}
    return ", ".join(option_texts(limits))


def missing_text(
    class_text: str,
    rows: int,
    reason: MissingReason,
    rules: tuple[int, int],
    nearest: NearestRecord | None,
    settings: Mapping[str, SettingValue],
) -> str:
    """Say why a class has no finding; `rules` are its supported rules, and of these the certified ones."""
    sentences = [f"No finding for {class_text}: {_reason_text(rows, reason, rules, settings)}"]
    if nearest is not None:
        sentences.append(_nearest_text(nearest))
    return " ".join(sentences)


def _nearest_text(nearest: NearestRecord) -> str:
    """The rule that came nearest, the options that show it, and an estimate of the rows that it would need."""
    p = "< 0.001" if nearest.p < 0.001 else f"{nearest.p:.2g}"
    if nearest.lacks_margin:
        p += ", too close to the limit"
    text = (
        f"The nearest is {printable(nearest.text)} (precision {nearest.precision:.2f} on {nearest.n:,} rows, base rate "
        f"{nearest.base_rate:.2f}, adjusted p {p})"
    )
    text += f"; {' '.join(option_texts(nearest.shown_by))} shows it." if nearest.shown_by else "."
    if nearest.rows_needed is not None:
        text += f" If it holds at the same rate, about {nearest.rows_needed:,} rows would be enough."
    return text


def _reason_text(rows: int, reason: MissingReason, rules: tuple[int, int], settings: Mapping[str, SettingValue]) -> str:
    if reason is MissingReason.RARE:
        return f"it has {format_count(rows, 'mined row')}, too few to certify even a rule without exceptions."
    if reason is MissingReason.UNSUPPORTED:
        return f"the rows support no condition at --significance {settings['significance']:g}."
    supported, certified = rules
    if reason is MissingReason.UNCERTIFIED:
        one = "the supported rule has too little evidence"
        text = one if supported == 1 else f"none of the {supported:,} supported rules has enough evidence"
        return f"{text}."
    text = "the certified rule is" if certified == 1 else f"all {certified:,} certified rules are"
    limits = limits_text(settings)
    if reason is MissingReason.EXCLUDED:
        return f"{text} left out by {limits}."
    if settings["max_rules"] is not None:
        return f"{text} left out by --max-rules {settings['max_rules']}."
    return (
        f"{f'those certified rules that meet {limits} are' if limits else text} hardly more precise than the base rate."
    )


def _value_text(value: SettingValue) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
