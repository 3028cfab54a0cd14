"""The local cluster: private Redis, workers, scheduler and Flower on one machine, watched by one process.

    options ──► Plan (parts: command, environment) ──► Supervisor (start, watch, restart, stop) ──► ready file, table
                                                            ▲
                                             health ────────┘

`python -m deploy.local up` starts it. It knows the scheduler and the workers by their command lines alone.
"""
