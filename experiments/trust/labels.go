package trust

// Names of the labels.
const (
	SyncProbe       = "sync-probe"
	Indicative      = "indicative"
	Noisy           = "noisy"
	Short           = "short"
	Partial         = "partial"
	Single          = "single"
	FewRounds       = "few-rounds"
	MixedBatch      = "mixed-batch"
	CacheWarm       = "cache-warm"
	JIT             = "jit"
	ConfigMismatch  = "config-mismatch"
	PatchUnverified = "patch-unverified"
	Throttled       = "throttled"
	Drift           = "drift"
	Tunnel          = "tunnel"
	SharedHost      = "shared-host"
	TotalUnknown    = "total-unknown"
	PreEdited       = "pre-edited"
	Imported        = "imported"
	Simulated       = "simulated"
)

// Limits of the rules. Fractions unless a name says otherwise.
const (
	minCycles      = 100  // counted cycles
	noisySpread    = 0.03 // of the requests of one launch
	mixedFraction  = 0.05 // of the cycles
	cachedFraction = 0.01 // of the prompt tokens
	throttledShare = 0.05 // of the samples
	fewLaunchesMax = 5    // launches
)

// Label is a row of the label table.
type Label struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"` // what to think of a number that carries it
	Rule    string `json:"rule"`    // when it is given
	Advice  string `json:"advice"`  // what to do about it
}

// notYet marks rules whose data nothing in this version collects.
const notYet = " (not given by this version)"

// Labels is the table of all labels, in the order in which they are printed.
// The caller owns the slice.
func Labels() []Label {
	return []Label{
		{SyncProbe, "the profiler waits for the GPU round each phase: the server is slower than without it",
			"a patch of the set has probe: sync", "quote speed from a run with patches=none or one with probe: light"},
		{Indicative, "times of phases are launch intervals, not work; TOTAL is not concerned",
			"phases were measured by a patch with probe: light", "trust TOTAL; profiling-v3 has true phases, with a distorted TOTAL"},
		{Noisy, "requests of the same launch disagree",
			"the medians of a launch's requests spread over more than 3 %", "look for other load on the host; measure again"},
		{Short, "too little was measured for the number of digits shown",
			"fewer than 100 decode cycles were counted", "more bench.requests or bench.max_tokens"},
		{Partial, "the load was not the one asked for",
			"at least one request failed", "look at the server log: specrun logs"},
		{Single, "nothing is known about the noise",
			"one run", "--rounds 3"},
		{FewRounds, "the interval rests on few launches and assumes a shape of the noise",
			"2 to 5 launches", "--rounds 6 for an interval that assumes no shape of the noise"},
		{MixedBatch, "the number of requests changed while it was measured: cycles of different sizes are mixed",
			"rows of the profiler whose least and greatest batch differ hold over 5 % of the cycles", "fewer bench.concurrency, or equal lengths with bench.ignore_eos"},
		{CacheWarm, "prompts were answered from the prefix cache",
			"over 1 % of the prompt tokens were cached", "other prompts or another seed, or a server without prefix cache"},
		{JIT, "kernels were compiled while it was measured",
			"the log or the compile caches changed within the benchmark window" + notYet, "measure again: the caches are warm now"},
		{ConfigMismatch, "the server runs with other settings than asked for",
			"the effective configuration differs from the flags", "see which with specrun show"},
		{PatchUnverified, "it is not proved that the server loaded the patches",
			"no sign of a patch in the running server", "see specrun status; restart the server"},
		{Throttled, "the GPU lowered its clocks",
			"a power or thermal reason in over 5 % of the samples" + notYet, "cooling, power limit, or fewer neighbours"},
		{Drift, "the host changed during the sweep",
			"the baseline moved between the earlier and the later rounds by more than the interval of that difference; 4 rounds or more", "more rounds, interleaved"},
		{Tunnel, "client times include the connection to the host",
			"the benchmark ran on the controller", "bench.where: host"},
		{SharedHost, "others used the GPUs at the same time",
			"a process that is not ours held GPU memory" + notYet, "ask for the machine alone"},
		{TotalUnknown, "there is no cycle time",
			"speculation was on and no cycle could be counted", "apply a profiling patch; longer outputs"},
		{PreEdited, "the engine's files differ from the release, and not by specrun",
			"a target file had the verdict pre-edited", "specrun status names the file"},
		{Imported, "specrun did not measure this",
			"the run was read from a file" + notYet, "compare with care: its provenance is unknown"},
		{Simulated, "not a real model on a real GPU",
			"the practice host, or an acceptance length set by the engine", "for trying specrun only"},
	}
}

// Advice gives what to do about a label, "" for a name that is not in the table.
func Advice(name string) string {
	for _, l := range Labels() {
		if l.Name == name {
			return l.Advice
		}
	}
	return ""
}
