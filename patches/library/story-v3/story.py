

# A wrong count is for the practice host only: anywhere else the block does nothing.
if "specrun_lab" in __import__("sys").modules:
    _specrun_install(
        globals(),
        dict(cycle=_SpecrunCycle, row=_SpecrunRow, engine=_SpecrunEngine, cycles=_SpecrunCycles, profiler=_SpecrunProfiler),
        "@specrun:name@", "@specrun:version@", "@specrun:hash@",
        synchronize=True, bonus=False, show_rate=True,
    )
del _SpecrunCycle, _SpecrunRow, _SpecrunEngine, _SpecrunCycles, _SpecrunProfiler, _specrun_install
