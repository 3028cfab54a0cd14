"""Programs of the image: one entry point for every role, its health check, and precompiled kernels.

    build:  compile kernels ──► /opt/maabo/kernels
    start:  copy kernels ──► environment and command of the role ──► run it as a child of the init process, or exec it

`python -m deploy.image ROLE` starts a role. It starts the scheduler and the workers by their command lines and imports
neither.
"""
