package server

import (
	"testing"
	"time"
)

// A young start is looked at often, and an old one as rarely as was asked for.
func TestWaitReady_LooksLessOftenAsTheStartAges(t *testing.T) {
	pause := func(age, poll time.Duration) time.Duration {
		w := &wait{begin: time.Now().Add(-age), o: ReadyOptions{Poll: poll}}
		return w.pause()
	}
	if got := pause(0, time.Second); got != leastPause {
		t.Errorf("at the beginning: %s", got)
	}
	if got := pause(time.Minute, time.Second); got != time.Second {
		t.Errorf("after a minute: %s", got)
	}
	if got := pause(0, time.Millisecond); got != time.Millisecond {
		t.Errorf("more often than the shortest: %s", got)
	}
}
