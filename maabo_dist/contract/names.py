"""Names that processes share. They are explicit, so that moving a module orphans no message."""

EVALUATE = "maabo.evaluate"
"""Task: grow the trees of some subsets."""
RULES = "maabo.rules"
"""Task: GS-MRM over the pooled trees of a job."""
SUBMIT = "maabo.submit"
"""Task: take in a job document."""

EVALUATE_QUEUE = "maabo.evaluate"
RULES_QUEUE = "maabo.rules"
JOBS_QUEUE = "maabo.jobs"

RESULTS_STREAM = "maabo:results"
"""Redis streams, one for each job (`maabo:results:<job>`): what workers answer to the scheduler."""
INTAKE_STREAM = "maabo:intake"
"""Redis stream: job documents and controls on their way to the scheduler."""
JOB_RECORD = "maabo:job"
"""Redis keys, one for each job: its public record, for clients that have only the queue."""
