

_specrun_install(
    globals(),
    dict(cycle=_SpecrunCycle, row=_SpecrunRow, engine=_SpecrunEngine, cycles=_SpecrunCycles, profiler=_SpecrunProfiler),
    "@specrun:name@", "@specrun:version@", "@specrun:hash@",
)
del _SpecrunCycle, _SpecrunRow, _SpecrunEngine, _SpecrunCycles, _SpecrunProfiler, _specrun_install
