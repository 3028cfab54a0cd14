"""Names of tasks, queues and Redis keys. Task names are explicit, so that moving a module orphans no message."""

# Task: grow the trees of some subsets.
EVALUATE = "maabo.evaluate"
# Task: find the strongest pairs of a block of features. It uses the queue of evaluations.
SCREEN = "maabo.screen"
# Task: repeat the search on shuffled labels. It uses the queue of evaluations.
SHUFFLE = "maabo.shuffle"
# Task: read some of the rows of a dataset, to draw a sample or to count rules. It uses the queue of evaluations.
COUNT = "maabo.count"
# Task: mine the rules from all trees of a job.
RULES = "maabo.rules"
# Task: submit a job document.
SUBMIT = "maabo.submit"

EVALUATE_QUEUE = "maabo.evaluate"
RULES_QUEUE = "maabo.rules"
JOBS_QUEUE = "maabo.jobs"
# The prefix of all queue names.
QUEUE_PREFIX = "maabo."

# Redis streams, one for each job (`maabo:results:<job>`): answers of workers to the scheduler.
RESULTS_STREAM = "maabo:results"
# Redis stream: requests (`messages.Request`) to the schedulers.
INTAKE_STREAM = "maabo:intake"
# Redis stream of bounded length: rejected requests, each with its reason and problem document.
REFUSED_STREAM = "maabo:refused"
# Redis keys, one for each job (`maabo:job:<job>`): its public record (`record.JobRecord`) as JSON.
JOB_RECORD = "maabo:job"
# Redis keys, one for each job (`maabo:document:<job>`): the rules, so far or final, as the JSON of `maabo mine`.
JOB_DOCUMENT = "maabo:document"
# Redis streams of bounded length, one per job (`maabo:events:<job>`): its events (`scheduler.messaging.publishers`).
JOB_EVENTS = "maabo:events"
# Redis key with a random value. If it is missing or changed, Redis was emptied and events may be missing.
EVENTS_EPOCH = "maabo:events-epoch"
# Prefixes of all keys that are deleted with a job.
JOB_KEYS = (JOB_RECORD, JOB_DOCUMENT, JOB_EVENTS)
# Redis keys, one for each job that failed or was cancelled (`maabo:ended:<job>`), so that workers stop; they expire.
JOB_ENDED = "maabo:ended"
# Redis sorted set: ids of the jobs that have a record, by their time of submission.
JOB_LIST = "maabo:jobs"
# Redis key: the record of the cluster (`record.ClusterRecord`) as JSON; expires when no scheduler runs.
CLUSTER = "maabo:cluster"
# Redis keys, one for each worker (`maabo:workers:<node>`): its heartbeat (`record.WorkerRecord`) as JSON; expires.
WORKERS = "maabo:workers"
# Redis keys, one for each scheduler (`maabo:meters:<host>:<pid>`): its metrics as JSON; expires when it stops.
METERS = "maabo:meters"
# Redis keys, one for each chunk of an object in a `redis://` store (`maabo:artifact:…`).
ARTIFACT = "maabo:artifact"
