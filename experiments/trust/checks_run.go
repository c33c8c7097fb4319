package trust

import (
	"fmt"
	"strings"

	"specrun/experiments/record"
)

func checkRequests(in Input) record.TrustCheck {
	failed, sent := requestFailures(in)
	switch {
	case failed < 0, failed == 0 && sent < 0:
		return notCheckable(CheckRequests, "the number of requests is unknown")
	case sent < 0:
		return decided(CheckRequests, false, fmt.Sprintf("%.0f requests failed", failed))
	}
	return record.TrustCheck{Name: CheckRequests, Outcome: outcome(failed == 0), Left: sent - failed, Right: sent,
		Explanation: fmt.Sprintf("%.0f of %.0f requests completed", sent-failed, sent)}
}

func checkCycles(in Input) record.TrustCheck {
	if in.Cycles == nil {
		return notCheckable(CheckCycles, "no profiler")
	}
	return record.TrustCheck{Name: CheckCycles, Outcome: outcome(in.Cycles.Counted >= minCycles), Left: float64(in.Cycles.Counted), Right: minCycles,
		Explanation: fmt.Sprintf("%d decode cycles counted, %d wanted", in.Cycles.Counted, minCycles)}
}

func checkCache(in Input) record.TrustCheck {
	cached, prompt, from := cachedTokens(in)
	if prompt == 0 {
		return notCheckable(CheckCache, "the server does not tell cached tokens")
	}
	return record.TrustCheck{Name: CheckCache, Outcome: outcome(float64(cached) <= cachedFraction*float64(prompt)), Left: float64(cached), Right: float64(prompt),
		Explanation: fmt.Sprintf("%d of %d prompt tokens came from the cache, by the %s", cached, prompt, from)}
}

func checkConfig(in Input) record.TrustCheck {
	if !in.ConfigRead {
		return notCheckable(CheckConfig, "the server does not tell its configuration")
	}
	if len(in.Mismatches) > 0 {
		return decided(CheckConfig, false, mismatches(in.Mismatches))
	}
	return decided(CheckConfig, true, "the server runs with the flags asked for")
}

// checkSpeculation: a baseline that goes on speculating is none.
func checkSpeculation(in Input) record.TrustCheck {
	signs := strings.Join(in.SpeculationSigns, "; ")
	switch {
	case in.Steps > 0 && signs == "":
		return notCheckable(CheckSpeculation, "nothing tells whether the server speculates")
	case in.Steps > 0:
		return decided(CheckSpeculation, true, "asked for, and seen: "+signs)
	case signs != "":
		return decided(CheckSpeculation, false, "asked for none, but: "+signs)
	case !in.ConfigRead:
		return notCheckable(CheckSpeculation, "no sign of speculation, but the server does not tell its configuration")
	}
	return decided(CheckSpeculation, true, "none asked for, and no sign of it")
}

func checkPatch(in Input) record.TrustCheck {
	set := strings.Join(in.Patches, ", ")
	why := ""
	if in.PatchEvidence != "" {
		why = ": " + in.PatchEvidence
	}
	switch {
	case len(in.Patches) == 0:
		return notCheckable(CheckPatch, "no patches")
	case in.PatchLive == Unknown:
		return notCheckable(CheckPatch, "nothing tells whether the server loaded "+set+why)
	case in.PatchLive == No:
		return decided(CheckPatch, false, "the server runs without "+set+why)
	}
	return decided(CheckPatch, true, "the server loaded "+set+why)
}

// checkOneProfiler: rows of two profilers are of two servers, of a patch that
// was exchanged, or count each cycle twice.
func checkOneProfiler(in Input) record.TrustCheck {
	if len(in.Profilers) == 0 {
		return notCheckable(CheckOneProfiler, "no profiler")
	}
	if len(in.Profilers) > 1 {
		return decided(CheckOneProfiler, false, "rows of several profilers in one window: "+strings.Join(in.Profilers, "; "))
	}
	return decided(CheckOneProfiler, true, "all rows are of "+in.Profilers[0])
}

func checkAlive(in Input) record.TrustCheck {
	switch in.ServerAlive {
	case Unknown:
		return notCheckable(CheckAlive, "the server's process is unknown")
	case No:
		return decided(CheckAlive, false, "the server ended during the benchmark")
	}
	return decided(CheckAlive, true, "the same process served to the end")
}

func checkPrompts(in Input) record.TrustCheck {
	if in.PromptsSHA == "" || in.SweepPromptsSHA == "" {
		return notCheckable(CheckPrompts, "nothing to compare with")
	}
	return decided(CheckPrompts, in.PromptsSHA == in.SweepPromptsSHA, hashes("prompts", in.PromptsSHA, in.SweepPromptsSHA))
}

func checkOutputs(in Input) record.TrustCheck {
	switch {
	case in.AcceptanceSimulated:
		return notCheckable(CheckOutputs, "the engine simulates acceptance, its text has no meaning")
	case in.OutputsSHA == "" || in.ShapeOutputsSHA == "":
		return notCheckable(CheckOutputs, "nothing to compare with")
	case in.Concurrency > 1 && !in.Deterministic:
		return notCheckable(CheckOutputs, "with several requests at once rounding depends on the batch, unless the server has --enable-deterministic-inference")
	}
	return decided(CheckOutputs, in.OutputsSHA == in.ShapeOutputsSHA, hashes("greedy outputs", in.OutputsSHA, in.ShapeOutputsSHA))
}

// checkBaseline never fails: a verify step of several tokens and a plain step of
// one round differently, so that greedy outputs may part without a fault.
func checkBaseline(in Input) record.TrustCheck {
	d := in.Baseline
	switch {
	case in.AcceptanceSimulated:
		return notCheckable(CheckBaseline, "the engine simulates acceptance, its text has no meaning")
	case in.Steps == 0 && !in.Imported:
		return notCheckable(CheckBaseline, "this is a baseline")
	case d == nil:
		return notCheckable(CheckBaseline, "no greedy outputs of a baseline to compare with")
	case d.Same:
		return decided(CheckBaseline, true, "the same greedy outputs as the baseline")
	}
	c := notCheckable(CheckBaseline, fmt.Sprintf("for information: request %d differs from the baseline's from character %d on", d.Request, d.At))
	c.Left, c.Right = float64(d.Request), float64(d.At)
	return c
}

func checkClocks(in Input) record.TrustCheck {
	if in.GPUSamples == 0 {
		return notCheckable(CheckClocks, "no readings of the GPU")
	}
	share := float64(in.ThrottledSamples) / float64(in.GPUSamples)
	text := fmt.Sprintf("clocks held back in %d of %d readings", in.ThrottledSamples, in.GPUSamples)
	if in.ThrottleReasons != "" {
		text += ": " + in.ThrottleReasons
	}
	return record.TrustCheck{Name: CheckClocks, Outcome: outcome(share <= throttledShare), Left: float64(in.ThrottledSamples), Right: float64(in.GPUSamples), Explanation: text}
}

// checkAlone tells "nobody else" from "could not be told".
func checkAlone(in Input) record.TrustCheck {
	switch {
	case len(in.Neighbours) > 0:
		return decided(CheckAlone, false, "on the GPUs too: "+strings.Join(in.Neighbours, ", "))
	case !in.NeighboursRead:
		return notCheckable(CheckAlone, "the processes on the GPUs could not be read, or not told from the server's")
	}
	return decided(CheckAlone, true, "only the server's processes were on the GPUs")
}

func checkCompile(in Input) record.TrustCheck {
	switch in.CompiledInWindow {
	case Unknown:
		return notCheckable(CheckCompile, "neither the log nor the compile caches of the window are known")
	case Yes:
		return decided(CheckCompile, false, "kernels were compiled during the benchmark: "+in.CompileEvidence)
	}
	return decided(CheckCompile, true, "no sign of a compilation during the benchmark")
}
