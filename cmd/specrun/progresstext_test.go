package main

import (
	"testing"

	"specrun/experiments/record"
)

// The line of a run has the number that the table will have, of the same source.
func TestResultText_TakesTheSourceOfTheTable(t *testing.T) {
	r := &record.Result{Run: record.Run{State: record.RunDone}, Data: record.RunData{Metrics: []record.Metric{
		{Name: "accept_len", Value: 1.94, Source: "server_log"}, {Name: "accept_len", Value: 1.936, Source: "per_request"},
		{Name: "accept_len", Value: 1.932, Source: "profiler"}, {Name: "output_throughput", Value: 87.44, Source: "client"}}}}
	if got, want := resultText(r), "accept length 1.932, 87.4 tok/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
