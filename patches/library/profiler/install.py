

def _specrun_install(scope, parts, name, version, digest, synchronize=False, bonus=True, show_rate=False):
    """Put the profiler around the worker that the patched module defines.

    Without EAGLE3_PROFILE=1 nothing is wrapped. bonus says whether the token that
    the target model yields in each cycle is counted; show_rate adds a row of tok/s.
    """
    import functools
    import os

    if os.environ.get("EAGLE3_PROFILE") != "1":
        return
    file = scope.get("__file__", scope.get("__name__"))

    def own(class_name):
        cls = scope.get(class_name)
        return cls if getattr(cls, "__module__", None) == scope.get("__name__") else None

    v1, v2, drafter = own("EAGLEWorker"), own("EAGLEWorkerV2"), own("EagleDraftWorker")
    main = v1 if v2 is None else v2
    if v2 is not None:
        wanted = [(v2 if drafter is None else drafter, "draft", "draft"), (v2, "verify", "verify"), (drafter, "_draft_extend_for_decode", "extend")]
    else:
        wanted = [(v1, "draft", "draft"), (v1, "verify", "verify"), (v1, "forward_draft_extend_after_decode", "extend")]
    found = [(cls, method, phase) for cls, method, phase in wanted if callable(getattr(cls, method, None))]
    entries = [n for n in ("forward_batch_generation", "forward_batch_speculative_generation") if main is not None and n in vars(main)]

    identity = {
        "name": name, "version": version, "hash": digest, "rank": 0, "dp_rank": None,
        "worker": "v2" if v2 is not None else "v1", "found": [phase for _, _, phase in found],
        "phases": "sync" if synchronize else "launch" if v2 is not None else "wall",
        "synchronize": synchronize, "bonus": bonus, "show_rate": show_rate,
    }
    every = os.environ.get("EAGLE3_PROFILE_EVERY", "100")
    every = int(every) if every.isdigit() and int(every) > 0 else 100
    profiler = parts["profiler"](parts, parts["engine"](scope), identity, every, file)
    if not entries or not found:
        profiler.say("specrun-profiler: no phases found in %s" % file)
        return

    def outer(original):
        @functools.wraps(original)
        def call(self, *args, **kwargs):
            token = profiler.enter(self, args, kwargs)
            if token is None:
                return original(self, *args, **kwargs)
            try:
                result = original(self, *args, **kwargs)
            except BaseException:
                profiler.abandon()
                raise
            profiler.leave(token, result)
            return result

        return call

    def timed(original, phase):
        @functools.wraps(original)
        def call(self, *args, **kwargs):
            cycle = profiler.current
            if cycle is None:
                return original(self, *args, **kwargs)
            started = profiler.phase_begin(cycle, phase, self)
            result = original(self, *args, **kwargs)
            profiler.phase_end(cycle, phase, started, result)
            return result

        return call

    def reporting(original):
        @functools.wraps(original)
        def call(self, *args, **kwargs):
            profiler.on_verify_complete(args, kwargs)
            return original(self, *args, **kwargs)

        return call

    for cls, method, phase in found:
        setattr(cls, method, timed(getattr(cls, method), phase))
    report = getattr(v2, "on_verify_complete_cpu", None)
    if callable(report):
        profiler.hooked = True
        v2.on_verify_complete_cpu = reporting(report)
    for method in entries:
        setattr(main, method, outer(getattr(main, method)))
