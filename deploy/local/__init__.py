"""The local cluster: a private Redis, workers, scheduler, HTTP API and Flower on one machine, run by one supervisor.

    options ──► Plan (components: command, environment) ──► Supervisor (start, watch, restart, stop)
                                                                ▲
                                                 health ────────┘

`python -m deploy.local up` starts it. It starts the scheduler and the workers by their command lines and imports
neither.
"""
