"""What becomes of submitted jobs, one request after another, in plain Python: the twin of grouped submissions."""

from dataclasses import dataclass, field


@dataclass
class SlowSubmissions:
    """The jobs and keys of all tenants; no job ever starts. `queued` limits the waiting jobs of each tenant."""

    queued: int | None = None
    # (tenant, work, created, id)
    jobs: list[tuple[str, str, float, str]] = field(default_factory=list)
    # The body and the job of each tenant's key.
    keys: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def submit(self, request):
        """Return the job and whether it is new, or the kind of the error."""
        tenant, key = request.spec.tenant, request.key
        if (tenant, key) in self.keys:
            body, job = self.keys[tenant, key]
            return (job, False) if body == request.body else "key-reused"
        job = self._find(request)
        is_new = job is None
        if is_new:
            if self.queued is not None and sum(each[0] == tenant for each in self.jobs) >= self.queued:
                return "quota-exceeded"
            job = request.spec.id
            self.jobs.append((tenant, request.spec.work, request.now, job))
        if key is not None:
            self.keys[tenant, key] = request.body, job
        return job, is_new

    def _find(self, request):
        """The job of the same id or, unless a fresh one is asked for, the newest of the same work."""
        own = [each for each in self.jobs if each[0] == request.spec.tenant]
        if any(each[3] == request.spec.id for each in own):
            return request.spec.id
        same = [(created, job) for _, work, created, job in own if work == request.spec.work]
        return max(same)[1] if same and not request.fresh else None
