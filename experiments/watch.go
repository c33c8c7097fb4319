package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"specrun/experiments/record"
	"specrun/remote"
)

// WatchHost is a host whose files can be followed; *remote.Host is one.
type WatchHost interface {
	RemoteHost
	Follow(ctx context.Context, path string, from remote.Cursor, poll time.Duration, f func(chunk []byte, at remote.Cursor) error) error
}

// WatchTarget says which server is watched: that of a launch, a process of
// whoever, or whatever writes a log. The first that is set counts.
type WatchTarget struct {
	Log    string // path on the host
	PID    int
	Launch string // "" with nothing else set: the one that runs
}

// Watched is what is known of a server at one moment. What the log has not told
// yet, or the server does not print, is absent.
type Watched struct {
	Host       string             `json:"host"`
	AtUs       int64              `json:"at_us"` // of this machine's clock
	Launch     string             `json:"launch,omitempty"`
	PID        int                `json:"pid,omitempty"`
	Log        string             `json:"log"`
	Sweep      string             `json:"sweep,omitempty"`
	Params     record.Params      `json:"params,omitempty"`
	Baseline   bool               `json:"baseline,omitempty"`
	Controller string             `json:"controller,omitempty"` // who works with it now
	Run        string             `json:"run,omitempty"`
	Load       string             `json:"load,omitempty"`      // of the run: 3 of 16 requests
	Values     map[string]float64 `json:"values"`              // newest of the log, by metric
	LastLine   string             `json:"last_line,omitempty"` // until there are values
}

// WatchedMetrics are those that a Watched may have, in the order in which people
// look at them, with what is printed behind the number.
func WatchedMetrics() []struct{ Name, Title, Unit string } {
	return []struct{ Name, Title, Unit string }{
		{"cycle_total", "TOTAL", "ms"}, {"accept_len", "accept", ""}, {"gen_throughput", "", "tok/s"},
		{"running_req", "", "running"}, {"queue_req", "", "queued"},
	}
}

// WatchEnd is how a watched server ended.
type WatchEnd struct {
	Host     string   `json:"host"`
	Launch   string   `json:"launch,omitempty"`
	PID      int      `json:"pid,omitempty"`
	ExitCode int      `json:"exit_code"` // -1 unknown
	Signal   int      `json:"signal,omitempty"`
	Crash    string   `json:"crash,omitempty"` // the line that says why
	Last     []string `json:"last"`            // lines of its log
}

// Watcher shows a server live. Its functions are called from one goroutine at a
// time.
type Watcher struct {
	Dial     func(context.Context) (WatchHost, error)
	StateDir string
	Now      func() time.Time
	Every    time.Duration // between two looks; 0 = 500 ms
	Patience time.Duration // how long a lost host is tried again; 0 = 2 min
	OnSight  func(Watched) // something of it is new
	OnNote   func(string)
}

// Watch follows a server until it ends, and says how that was; of a log alone
// nobody knows when it does. While a sweep is at work the next launch's server is
// followed after the one before. nil: ctx ended. A connection that is lost is made
// anew, and nothing of the log is missed. Errors: those of the host, and
// *NothingToWatchError.
func (w Watcher) Watch(ctx context.Context, t WatchTarget) (*WatchEnd, error) {
	if w.Every <= 0 {
		w.Every = 500 * time.Millisecond
	}
	if w.Patience <= 0 {
		w.Patience = 2 * time.Minute
	}
	h, err := w.Dial(ctx)
	if err != nil {
		return nil, err
	}
	v := &view{w: w, h: h}
	defer func() { v.h.Close() }() // nothing was changed over it
	for {
		err := v.find(ctx, t)
		if nothing := (*NothingToWatchError)(nil); errors.As(err, &nothing) && t == (WatchTarget{}) {
			// A sweep has no server between two launches.
			if t.Launch, err = v.launchOfSweep(ctx, err); err == nil && t.Launch != "" {
				err = v.find(ctx, t)
			}
			if ctx.Err() != nil {
				return nil, nil
			}
		}
		if err != nil {
			return nil, err
		}
		end, err := v.follow(ctx)
		if err != nil || end == nil || ctx.Err() != nil {
			return nil, err
		}
		next, err := v.nextLaunch(ctx)
		if err != nil || next == "" {
			return end, err
		}
		w.OnNote(fmt.Sprintf("launch %s has ended; sweep %s goes on with launch %s", end.Launch, v.now.Sweep, next))
		t = WatchTarget{Launch: next}
	}
}

// show says what is known; the caller holds mu.
func (v *view) show() {
	now := v.now
	now.AtUs = v.w.Now().UnixMicro()
	now.Values = make(map[string]float64, len(v.now.Values))
	for name, value := range v.now.Values {
		now.Values[name] = value
	}
	if len(now.Values) == 0 && len(v.last) > 0 {
		now.LastLine = v.last[len(v.last)-1]
	}
	v.w.OnSight(now)
}
