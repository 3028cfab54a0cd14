"""What can go wrong between a client and its server.

MaaboError
├── ProblemError             the server answered with a problem document (RFC 9457)
│   └── RefusedError         … that says what the caller did wrong (4xx); also an InputError
├── JobFailedError           the job that was waited for failed or was cancelled
├── WaitTimeoutError         the job did not end in time; it goes on
└── InputError
    └── ServerUnreachableError   no server answers there, or something that is none
"""

from maabo_dist.contract.problem import TYPE_PREFIX, Problem
from maabo_dist.errors import InputError, MaaboError, SettingsError

_REMEDIES = {
    401: "Give a valid token: token=… in Python, --token-file or MAABO_TOKEN on the command line.",
}
"""For a caller of this client, who does not write headers."""


class ProblemError(MaaboError):
    """The server did not do what was asked, and says why. `type` is stable and for programs."""

    def __init__(self, problem: Problem) -> None:
        remedy = _REMEDIES.get(problem.status, problem.remedy)
        super().__init__(f"{problem.detail} {remedy}" if remedy else problem.detail)
        self.type, self.title, self.status = problem.type, problem.title, problem.status
        self.detail, self.field, self.remedy = problem.detail, problem.field, remedy
        self.instance = problem.instance
        """The id of the request, which the logs of the server have too."""

    @property
    def name(self) -> str:
        """The end of the type, as `quota-exceeded`."""
        return self.type.removeprefix(TYPE_PREFIX)


class RefusedError(ProblemError, InputError):
    """What was asked for cannot be had: the caller has to ask for something else."""


class ServerUnreachableError(SettingsError):
    """No server answers, or something that is no maabo server does."""

    kind = "unavailable"


class JobFailedError(MaaboError):
    """The job failed or was cancelled; `reason` says why."""

    def __init__(self, job: str, state: str, reason: str | None) -> None:
        verb = "failed" if state == "failed" else "was cancelled"
        super().__init__(f"Job {job} {verb}{f': {reason}' if reason else '.'}")
        self.job, self.state, self.reason = job, state, reason


class WaitTimeoutError(MaaboError, TimeoutError):
    """The job did not end in time. It goes on."""

    def __init__(self, job: str, seconds: float) -> None:
        super().__init__(f"Job {job} has not ended within {seconds:g} s. It goes on; wait again, or cancel it.")
        self.job, self.seconds = job, seconds


def problem_error(problem: Problem) -> ProblemError:
    """The error of a problem document."""
    return RefusedError(problem) if 400 <= problem.status < 500 else ProblemError(problem)
