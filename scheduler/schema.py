"""The ledger's tables and their versions."""

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

VERSION = 1

metadata = MetaData()

meta = Table(
    "maabo_meta",
    metadata,
    Column("key", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

jobs = Table(
    "maabo_jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(200), nullable=False),
    Column("priority", String(10), nullable=False),
    Column("state", String(12), nullable=False),
    Column("wanted", String(8), nullable=False),  # run, pause or cancel: what its owner asked for last
    Column("spec", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("finished", Float),
    Column("updated", Float, nullable=False),
    Column("trees", BigInteger, nullable=False),
    Column("planned", BigInteger),
    Column("best_score", Float),
    Column("reason", Text),  # of a failure or a refusal
    Column("digest", String(64)),
    Column("document", Text),  # the result
    Column("owner", String(80)),
    Column("fence", BigInteger, nullable=False),
    Column("lease_until", Float, nullable=False),
    Index("maabo_jobs_open", "state", "lease_until"),
    Index("maabo_jobs_created", "created"),
)

batches = Table(
    "maabo_batches",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("subsets", LargeBinary, nullable=False),
)

tasks = Table(
    "maabo_tasks",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("batch", Integer, primary_key=True),
    Column("start", Integer, primary_key=True),
    Column("stop", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("issued", Float, nullable=False),
)

results = Table(
    "maabo_results",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("batch", Integer, primary_key=True),
    Column("start", Integer, primary_key=True),
    Column("stop", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("trees", LargeBinary, nullable=False),  # packed; empty for a failed subset
    Column("reason", Text),  # why a subset failed
)
