"""Ways to run the whole system: `local`, everything on this machine; `examples`, services that use it."""
