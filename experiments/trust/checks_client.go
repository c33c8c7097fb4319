package trust

import (
	"fmt"
	"math"
	"slices"

	"specrun/experiments/record"
)

// checkKeptUp: a client or a connection that stood still, or a server whose HTTP
// process had no CPU while its engine went on (vLLM has two), hands over what came
// meanwhile in one go, and the times are then of that. It is known from the
// client's own clock, or shows in tokens that came faster than they can have been
// made.
func checkKeptUp(in Input) record.TrustCheck {
	if why := outran(in); why != "" {
		return decided(CheckKeptUp, false, why)
	}
	if !in.ClientWatched || !positive(in.ClientMs) {
		return notCheckable(CheckKeptUp, "the client did not watch itself")
	}
	c := record.TrustCheck{Name: CheckKeptUp, Outcome: outcome(in.ClientStalledMs <= stalledShare*in.ClientMs), Left: in.ClientStalledMs / 1000, Right: in.ClientMs / 1000}
	c.Explanation = fmt.Sprintf("the client stood still for %.1f s of %.1f s", c.Left, c.Right)
	if in.ClientStalledMs == 0 {
		c.Explanation = fmt.Sprintf("the client was run all the time, %.1f s", c.Right)
	}
	return c
}

// outran names the first thing that came faster than possible; "" when nothing
// did.
func outran(in Input) string {
	for i, r := range in.Requests {
		if !r.Failed && r.MsHead > headLeast && float64(r.HeadChunks) > headShare*float64(r.Chunks) {
			return fmt.Sprintf("%d of the %d chunks of request %d came in one go with its first: the client, its connection or what the server sends with stood still for about %.1f s", r.HeadChunks, r.Chunks, i, r.MsHead/1000)
		}
	}
	chunk := msPerChunk(in.Requests)
	if chunk < fastestChunk {
		return fmt.Sprintf("a chunk came every %.3f ms, faster than a server sends them: the client, its connection or what the server sends with stood still", chunk)
	}
	// A server may send each token of a cycle as a chunk of its own.
	if total, ok := value(in.Metrics, "cycle_total", "profiler"); ok && in.Steps > 0 && in.TotalUnstated == "" && chunk*tooFast*float64(in.Steps+1) < total {
		return fmt.Sprintf("a chunk came every %.3f ms, of cycles of %.2f ms by the profiler: the client, its connection or what the server sends with stood still", chunk, total)
	}
	steady, okClient := value(in.Metrics, "steady_throughput", "client")
	server, okServer := value(in.Metrics, "gen_throughput", "server_log")
	if in.Concurrency == 1 && okClient && okServer && server > 0 && steady > tooFast*server {
		return fmt.Sprintf("the client received %.1f tok/s, the server made %.1f: the client, its connection or what the server sends with stood still", steady, server)
	}
	return ""
}

// msPerChunk is the median of the requests that have one, else NaN.
func msPerChunk(rs []Request) float64 {
	var v []float64
	for _, r := range rs {
		if !r.Failed && !math.IsNaN(r.MsPerChunk) && r.Chunks > 0 {
			v = append(v, r.MsPerChunk)
		}
	}
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// checkNobody: requests of others make the client's slower, and count in the
// profiler's and the server's numbers. Less than the client sent says nothing:
// logs lose lines, and counters may come late.
func checkNobody(in Input) record.TrustCheck {
	failed, _ := requestFailures(in)
	switch {
	case in.Imported || in.Concurrency <= 0:
		return notCheckable(CheckNobody, "what the client sent is unknown")
	case failed != 0:
		return notCheckable(CheckNobody, "the server may go on with failed requests")
	case in.RunningMost > in.Concurrency:
		return record.TrustCheck{Name: CheckNobody, Outcome: record.Fail, Left: float64(in.RunningMost), Right: float64(in.Concurrency),
			Explanation: fmt.Sprintf("others sent requests: the server had %d at once, the client sent %d", in.RunningMost, in.Concurrency)}
	}
	known := in.RunningMost > 0
	for _, c := range []struct {
		what         string
		server, sent float64
	}{
		{"prompt tokens by the server log", float64(in.LoggedPrompt), float64(in.PromptSent)},
		{"prompt tokens by the server's counter", float64(in.ServerPrompt), float64(in.PromptSent)},
		{"output tokens by the server's counter", float64(in.ServerTokens), float64(in.ClientTokens)},
	} {
		if c.server <= 0 || c.sent <= 0 {
			continue
		}
		if c.server > c.sent*(1+othersShare)+othersLeast {
			return record.TrustCheck{Name: CheckNobody, Outcome: record.Fail, Left: c.server, Right: c.sent,
				Explanation: fmt.Sprintf("others sent requests: %.0f %s, the client's were %.0f", c.server, c.what, c.sent)}
		}
		known = known || c.server >= c.sent*(1-othersShare)
	}
	if !known {
		return notCheckable(CheckNobody, "the server tells neither its requests nor all tokens")
	}
	return decided(CheckNobody, true, "the server had no more requests or tokens than the client sent")
}

// qualify says with each failed comparison with the client what is known to have
// spoilt it, so that it is not put down to the other side.
func qualify(checks []record.TrustCheck) []record.TrustCheck {
	why := ""
	if failedOf(checks, CheckKeptUp) {
		why += "; the client did not keep up, its times are no measure"
	}
	if failedOf(checks, CheckNobody) {
		why += "; others sent requests meanwhile"
	}
	for i, c := range checks {
		if c.Outcome == record.Fail && slices.Contains([]string{CheckTPOT, CheckThroughput, CheckSteady, CheckClaim, CheckTokens}, c.Name) {
			checks[i].Explanation += why
		}
	}
	return checks
}
