"""Kernels without a writable cache, as on a read-only root file system."""

from numba.core.caching import CacheImpl

from maabo_dist._util.jit import kernel


def test_a_kernel_works_where_no_cache_can_be_written(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])

    @kernel
    def double(x):
        return 2 * x

    assert double(21) == 42
