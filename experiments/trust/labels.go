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
	OutputChanged   = "output-changed"
	Disagree        = "disagree"
	LogCut          = "log-cut"
	DiedAfter       = "died-after"
	Throttled       = "throttled"
	Drift           = "drift"
	Tunnel          = "tunnel"
	Attached        = "attached"
	SharedHost      = "shared-host"
	TotalUnknown    = "total-unknown"
	PreEdited       = "pre-edited"
	Imported        = "imported"
	Simulated       = "simulated"
)

// Limits of the rules. Fractions unless a name says otherwise.
const (
	minCycles      = 100  // counted cycles
	noisySpread    = 0.03 // of three requests of one launch
	silentLeast    = 1000 // ms without a chunk
	silentTimes    = 20   // usual times between two chunks
	mixedFraction  = 0.05 // of the cycles
	rampFraction   = 0.25 // of the cycles of the whole benchmark
	cachedFraction = 0.01 // of the prompt tokens
	throttledShare = 0.05 // of the samples
	stalledShare   = 0.01 // of the measured time
	headShare      = 0.1  // of a request's chunks
	headLeast      = 200  // ms
	fastestChunk   = 0.05 // ms
	tooFast        = 1.5  // times the server's speed
	othersShare    = 0.01 // of the client's tokens,
	othersLeast    = 16   // and so many of them
	fewLaunchesMax = 5    // launches
)

// Label is a row of the label table.
type Label struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"` // what to think of a number that carries it
	Rule    string `json:"rule"`    // when it is given
	Advice  string `json:"advice"`  // what to do about it
}

// Labels is the table of all labels, in the order in which they are printed.
// The caller owns the slice.
func Labels() []Label {
	return []Label{
		{SyncProbe, "the profiler waits for the GPU round each phase: the server is slower than without it",
			"a patch of the set has probe: sync", "quote speed from a run with patches=none or one with probe: light"},
		{Indicative, "times of phases are launch intervals, not work",
			"phases were measured by a patch with probe: light", "trust TOTAL, unless a check of it failed; profiling-v3 has true phases, with a distorted TOTAL"},
		{Noisy, "requests of the same launch disagree",
			"time per streamed chunk at equal positions spreads over more than 3 % (of more than three requests: what three of them would on average; with several at once: of those within the steady part, while none was being prefilled), a request got nothing for over 1 s, the client did not keep up (it was not run for over 1 % of the time, or its chunks came faster than the server makes them), or the automatic warm-up did not settle", "look for other load on the host; measure again"},
		{Short, "too little was measured for the number of digits shown",
			"fewer than 100 decode cycles were counted", "more bench.requests or bench.max_tokens"},
		{Partial, "the load was not the one asked for",
			"at least one request failed", "look at the server log: specrun logs"},
		{Single, "nothing is known about the noise",
			"one run", "--rounds 3"},
		{FewRounds, "the interval rests on few launches and assumes a shape of the noise",
			"2 to 5 launches", "--rounds 6 for an interval that assumes no shape of the noise"},
		{MixedBatch, "the number of requests changed while it was measured: cycles of different sizes are mixed",
			"over 5 % of the counted cycles, or with ramp and drain over 25 %, had another batch size than most, or stand in rows of several sizes", "with shared-host see to that first; else fewer bench.concurrency, or equal lengths with bench.ignore_eos"},
		{CacheWarm, "prompts were answered from the prefix cache",
			"over 1 % of the prompt tokens were cached", "other prompts or another seed, or a server without prefix cache"},
		{JIT, "kernels were compiled while it was measured",
			"the log tells of a compilation, or the compile caches changed, within the benchmark window", "measure again: the caches are warm now"},
		{ConfigMismatch, "the server runs with other settings than asked for",
			"the effective configuration differs from the flags, a patch that was not asked for is at work, or a baseline speculates", "see which with specrun show"},
		{PatchUnverified, "it is not proved that the server loaded the patches",
			"no row of a patch in the benchmark, and no word of it when the server became ready", "see specrun status; restart the server"},
		{OutputChanged, "a change that should only concern speed changed the text",
			"greedy output differs from that of the sweep's first run with the same speculative flags and benchmark; with several requests at once only on a server with --enable-deterministic-inference", "compare the outputs in bench.json; do not call it faster"},
		{Disagree, "two measurements of the same thing differ: one of them is wrong",
			"a check that compares two measurements failed; the reason names it", "where client-kept-up or nobody-else failed, believe no speed and measure again; else believe the client's numbers; see the checks with specrun show"},
		{LogCut, "a part of the server's log of this benchmark is missing: what is read out of it (TOTAL, accept length) rests on what is left",
			"the log was cut, replaced or removed, or its writer held lines back in a block", "no log rotation while it is measured; PYTHONUNBUFFERED=1 in server.env"},
		{DiedAfter, "the server ended by itself after the last response: the numbers are whole, the server is not to be trusted",
			"its process was found ended after the last response and before the stop", "read the end of its log: specrun logs"},
		{Throttled, "the GPU lowered its clocks",
			"a power, thermal or hardware reason in over 5 % of the readings", "cooling, power limit, or fewer neighbours"},
		{Drift, "the host changed during the sweep",
			"the baseline moved by more than noise while the cell was measured; from 4 rounds on, or from 2 where the noise of the host is remembered", "more rounds, interleaved"},
		{Tunnel, "client times include the connection to the host",
			"the benchmark ran on the controller", "bench.where: host"},
		{Attached, "specrun did not start the server: its command line is not known for sure",
			"the runs were made on a server that was running already (server.attach)", "compare with care, or measure on a server of specrun's own"},
		{SharedHost, "others used the GPUs, the server or the rest of the host at the same time",
			"a process that is not the server's held GPU memory during the benchmark, or the server had more requests at once or more tokens than the client sent", "ask for the machine alone, and for a port that nobody else knows"},
		{TotalUnknown, "TOTAL is missing, or nobody says what it spans; the reason names which",
			"a profiling patch was at work, speculation was on, and no cycle could be counted; or the TOTAL is from a log whose profiler does not say from where to where it goes",
			"when it is missing: longer outputs, and specrun status for the patch; of unknown span: compare it with none but its own log's"},
		{PreEdited, "the engine's files differ from the release, and not by specrun",
			"a target file had the verdict pre-edited", "specrun status names the file"},
		{Imported, "specrun did not measure this",
			"the run was read from a file", "compare with care: its provenance is unknown"},
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
