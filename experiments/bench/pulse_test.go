package bench

import (
	"encoding/json"
	"sync/atomic"
	"testing"
)

func TestPulse_CountsOnlyStandstills(t *testing.T) {
	p := &pulse{last: 1_000_000}
	for _, now := range []int64{1_020_000, 1_041_000, 1_240_000, 4_260_000, 4_280_000, 4_480_000} { // late by 179 ms, 3 s, nothing, 180 ms
		p.beat(now)
	}
	if p.stalledUs != 3_000_000 {
		t.Errorf("%d us", p.stalledUs)
	}
}

// The clock of a process goes on while it is stopped: so does this one, before
// any tick could be noticed.
func TestPulse_SeesAStandstillUpToItsEnd(t *testing.T) {
	var now atomic.Int64
	p := startPulse(now.Load)
	now.Store(3_020_000)
	if ms := p.stop(); ms != 3000 {
		t.Errorf("%v ms", ms)
	}
}

// A report of a worker that did not watch itself says nothing about it.
func TestReport_AnOldWorkerDidNotWatchItself(t *testing.T) {
	var r Report
	if err := json.Unmarshal([]byte(`{"schema":2}`), &r); err != nil || r.ClientWatched {
		t.Errorf("%v, %v", r.ClientWatched, err)
	}
}
