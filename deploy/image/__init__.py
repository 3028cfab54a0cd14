"""What runs in the image: one entry for every role, its probe, and the kernels that were compiled when it was built.

    build:  bake ──► /opt/maabo/kernels
    start:  unpack kernels ──► environment and command of the role ──► first process, or in its place

`python -m deploy.image ROLE` starts it. It knows the scheduler and the workers by their command lines alone.
"""
