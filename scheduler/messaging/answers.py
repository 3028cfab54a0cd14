"""`read_answer`: decodes and validates one entry of a job's stream."""

import json
from collections.abc import Mapping

from maabo_dist.cluster.streams import BODY, HEADER, RULES_HEADER, SCREEN_HEADER
from maabo_dist.contract.messages import EvaluationAnswer, RulesAnswer, ScreenAnswer
from maabo_dist.errors import FormatError

Answer = EvaluationAnswer | ScreenAnswer | RulesAnswer


def read_answer(fields: Mapping[bytes, bytes]) -> tuple[Answer, bytes]:
    """Return the answer and its body: trees, pairs or a result document. Raise FormatError if it is invalid."""
    body = fields.get(BODY, b"")
    if SCREEN_HEADER in fields:
        return ScreenAnswer.read(fields[SCREEN_HEADER]), body
    if RULES_HEADER not in fields:
        return EvaluationAnswer.read(fields.get(HEADER, b"")), body
    answer = RulesAnswer.read(fields[RULES_HEADER])
    if answer.kind == "done":
        try:
            json.loads(body)
        except ValueError as error:
            raise FormatError(f"The result document is invalid: {error}.") from None
    return answer, body
