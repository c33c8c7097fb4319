package experiments

import (
	"bytes"
	"slices"

	"specrun/experiments/bench"
	"specrun/experiments/metrics"
	"specrun/experiments/trust"
)

// clientInput adds what tells whether the client kept up with the server, and
// whether the server worked for it alone.
func clientInput(in *trust.Input, w Window, r bench.Report, seen sights) {
	in.ClientWatched, in.ClientStalledMs, in.ClientMs = r.ClientWatched, r.ClientStalledMs, float64(r.EndUs-r.StartUs)/1000
	heads(in.Requests, r)
	in.RunningMost = runningMost(seen)
	in.ServerPrompt = int64(r.ServerCounters["prompt_tokens"])
	for _, q := range r.Requests {
		if q.PromptTokens < 0 || q.Error != "" {
			in.PromptSent = 0 // a part of it says nothing
			break
		}
		in.PromptSent += q.PromptTokens
	}
	if !severalRanks(seen) && !retracted(w.Log) {
		_, in.LoggedPrompt = metrics.CachedTokens(seen.prefill, seen.window)
	}
}

// inOneGo is the share of a usual gap below which a chunk came with the one
// before.
const inOneGo = 0.2

// heads counts the chunks that each request got in one go with its first one:
// what a client reads that was not run, or that was not reached, while they were
// made. Such a request waited long for its first token, and the time per token
// comes out too short.
func heads(requests []trust.Request, r bench.Report) {
	undisturbed := r.Undisturbed()
	own := make([]float64, len(requests)) // us, long gaps of each request
	var all []float64
	for i, gaps := range undisturbed {
		if len(gaps) < fewChunks {
			continue
		}
		us := make([]int64, len(gaps))
		for k, g := range gaps {
			us[k] = g.ToUs - g.FromUs
		}
		slices.Sort(us)
		own[i] = float64(us[len(us)*9/10])
		all = append(all, own[i])
	}
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	for i, q := range r.Requests {
		requests[i].Chunks = len(q.ChunkUs)
		usual := max(own[i], all[len(all)/2])
		k := 1
		for k < len(q.ChunkUs) && float64(q.ChunkUs[k]-q.ChunkUs[k-1]) < inOneGo*usual {
			k++
		}
		if own[i] > 0 && k > fewChunks {
			requests[i].HeadChunks, requests[i].MsHead = k, float64(k)*usual/1000
		}
	}
}

// runningMost is the greatest number of requests that one scheduler had at once
// within the window, by its decode lines and by the profiler's batches; 0 when
// neither says.
func runningMost(seen sights) int {
	most := 0
	for _, d := range seen.decode {
		if inWindow(d, seen.window) && d.RunningReq > 0 {
			most = max(most, int(d.RunningReq))
		}
	}
	for _, r := range seen.rows {
		most = max(most, r.BatchMax)
	}
	return most
}

func inWindow(d metrics.DecodeLine, w metrics.Window) bool {
	return d.Offset >= w.LogStart && (w.LogEnd <= 0 || d.End <= w.LogEnd)
}

// severalRanks says whether several schedulers write decode lines: then the
// prompts of one request may stand in the log more than once.
func severalRanks(seen sights) bool {
	return slices.ContainsFunc(seen.decode, func(d metrics.DecodeLine) bool {
		return d.Rank != seen.decode[0].Rank || d.Server != seen.decode[0].Server
	})
}

// retracted says whether the server took requests out of its batch, for want of
// memory: they are prefilled once more.
func retracted(log []byte) bool { return bytes.Contains(log, []byte("Retract requests")) }
