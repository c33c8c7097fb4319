package bench

import "time"

// A client that was stopped, or had no CPU, times its own standstill: chunks that
// came meanwhile are read in one go. It can see that by itself, since its clock
// goes on: a ticker that is late was not run.
const (
	pulseEvery = 20 * time.Millisecond
	pulseStall = 200 * time.Millisecond // between two readings; shorter ones are usual on a busy host
)

// pulse adds up the time for which its goroutine was not run.
type pulse struct {
	us        func() int64
	last      int64
	stalledUs int64
	end, done chan struct{}
}

// startPulse begins to watch; us is a clock in microseconds that never stands
// still. Each pulse must be stopped.
func startPulse(us func() int64) *pulse {
	p := &pulse{us: us, last: us(), end: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		tick := time.NewTicker(pulseEvery)
		defer tick.Stop()
		for {
			select {
			case <-p.end:
				return
			case <-tick.C:
				p.beat(us())
			}
		}
	}()
	return p
}

// stop ends the watch and gives the ms for which the client stood still.
func (p *pulse) stop() float64 {
	close(p.end)
	<-p.done
	p.beat(p.us())
	return float64(p.stalledUs) / 1000
}

// beat is one reading. What a reading is late by counts, not what it waits.
func (p *pulse) beat(now int64) {
	if gap := now - p.last; gap > pulseStall.Microseconds() {
		p.stalledUs += gap - pulseEvery.Microseconds()
	}
	p.last = now
}
