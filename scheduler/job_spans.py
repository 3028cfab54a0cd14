"""`JobSpans`: a span for every job, from when this scheduler holds it until it does so no more."""

from collections.abc import Collection

from maabo_dist.cluster.tracing import Span, Tracing
from scheduler.active import HeldJob


class JobSpans:
    """Under the span of whoever asked for the job, where there is one; the job's tasks belong under it."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._open: dict[str, Span] = {}

    def begin(self, job: HeldJob) -> None:
        """The job is held. A search goes on with the span of its screen."""
        name = job.lease.job
        if name not in self._open:
            correlation, tenant = job.spec.correlation, job.spec.tenant
            self._open[name] = self._tracing.span(
                "job", job.spec.trace, job=name, correlation=correlation, tenant=tenant
            )
        job.trace = self._open[name].traceparent

    def end(self, job: HeldJob) -> None:
        """The job has ended."""
        span = self._open.pop(job.lease.job, None)
        if span is not None:
            span.note(state=job.state.value, trees=job.trees)
            span.end()

    def settle(self, held: Collection[str]) -> None:
        """Whatever is not held any more went elsewhere, was paused, or could not be run."""
        for name in [name for name in self._open if name not in held]:
            self._open.pop(name).end()
