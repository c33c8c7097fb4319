package experiments

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/bench"
	"specrun/experiments/metrics"
	"specrun/experiments/record"
	"specrun/remote"
)

//go:embed scripts/newestbench.sh
var newestBenchText string

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

// errServerEnded ends the following of a log.
var errServerEnded = errors.New("the server has ended")

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

// NothingToWatchError says that no server of ours runs, or none of the launch asked
// for.
type NothingToWatchError struct {
	Host   string
	Launch string   // that was asked for, "" for any
	Runs   []string // launches that run
}

func (e *NothingToWatchError) Error() string {
	if e.Launch != "" {
		return e.Host + ": no server of launch " + e.Launch + " runs"
	}
	return e.Host + ": no server that specrun started runs"
}

// Hint says what else can be watched.
func (e *NothingToWatchError) Hint() string {
	if len(e.Runs) > 0 {
		return "what runs is " + strings.Join(e.Runs, ", ")
	}
	return "--pid N watches any process, --log PATH any log on the host"
}

// NoLogError says that there is no such log on the host.
type NoLogError struct{ Host, Path string }

func (e *NoLogError) Error() string { return e.Host + ": there is no log " + e.Path }

// Hint says what to give.
func (e *NoLogError) Hint() string {
	if !path.IsAbs(e.Path) {
		return "--log takes the full path on the host"
	}
	return "--pid N finds the log of a process by itself"
}

// SeveralServersError says that more than one could be meant.
type SeveralServersError struct {
	Host     string
	Launches []string
}

func (e *SeveralServersError) Error() string {
	return fmt.Sprintf("%s: %d servers run: %s", e.Host, len(e.Launches), strings.Join(e.Launches, ", "))
}

// Hint says how to choose.
func (e *SeveralServersError) Hint() string {
	return "name one of them: specrun watch LAUNCH --host " + e.Host
}

// view is one server being watched.
type view struct {
	w Watcher
	h WatchHost

	id     server.Identity // of a process that is no launch of ours
	launch string          // of ours; "" else
	dir    string          // its folder

	mu     sync.Mutex // of what follows: log and looks are read side by side
	now    Watched
	log    *metrics.Follower
	last   []string // lines
	part   []byte   // of a line
	skip   bool     // what comes first is half a line
	cursor remote.Cursor
	state  server.State
}

// find settles what is watched.
func (v *view) find(ctx context.Context, t WatchTarget) error {
	v.id, v.launch, v.dir, v.cursor = server.Identity{}, "", "", remote.Cursor{}
	v.now = Watched{Host: v.h.Name(), Values: map[string]float64{}}
	v.log, v.last, v.part = nil, nil, nil
	switch {
	case t.Log != "":
		v.now.Log = t.Log
	case t.PID != 0:
		p, err := server.Describe(ctx, v.h, t.PID)
		if err != nil {
			return err
		}
		if p.Log == "" || p.LogGone {
			return fmt.Errorf("%s: process %d has no log that can be read: name it with --log PATH", v.h.Name(), t.PID)
		}
		v.id, v.now.PID, v.now.Log = p.Identity, t.PID, p.Log
	default:
		if err := v.findLaunch(ctx, t.Launch); err != nil {
			return err
		}
	}
	return v.beginAtEnd(ctx)
}

func (v *view) findLaunch(ctx context.Context, id string) error {
	all, err := Servers(ctx, v.h, v.w.StateDir)
	if err != nil {
		return err
	}
	var fit []RunningServer
	var names, runs []string
	for _, s := range all {
		runs = append(runs, s.Launch)
		if strings.HasPrefix(s.Launch, id) {
			fit, names = append(fit, s), append(names, s.Launch)
		}
		if s.Launch == id {
			fit, names = []RunningServer{s}, nil
			break
		}
	}
	switch {
	case len(fit) == 0:
		return &NothingToWatchError{Host: v.h.Name(), Launch: id, Runs: runs}
	case len(fit) > 1:
		return &SeveralServersError{v.h.Name(), names}
	}
	s := fit[0]
	v.launch, v.dir = s.Launch, path.Dir(s.LogPath)
	v.now.Launch, v.now.PID, v.now.Log = s.Launch, s.Identity.PID, s.LogPath
	v.now.Sweep, v.now.Params, v.now.Baseline, v.now.Controller = s.Sweep, s.Params, s.Baseline, s.Controller
	return nil
}

// watchedTail is how much of what was written before is looked at, so that there
// is something to show at once.
const watchedTail = 64 << 10

func (v *view) beginAtEnd(ctx context.Context) error {
	_, size, err := v.h.ReadAt(ctx, v.now.Log, make([]byte, 1), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &NoLogError{Host: v.h.Name(), Path: v.now.Log}
	}
	if err != nil {
		return err
	}
	v.cursor.Offset = max(0, size-watchedTail)
	v.skip = v.cursor.Offset > 0
	v.log = metrics.NewFollowerAt(v.cursor.Offset)
	return nil
}

// follow reads log and process until the server ends; nil: ctx ended. A lost
// connection is made anew.
func (v *view) follow(ctx context.Context) (*WatchEnd, error) {
	for {
		err := v.both(ctx)
		switch {
		case errors.Is(err, errServerEnded):
			return v.end(ctx)
		case ctx.Err() != nil:
			return nil, nil
		case !hostLost(err):
			return nil, err
		}
		v.w.OnNote(fmt.Sprintf("%s: the connection is lost, trying again: %v", v.h.Name(), err))
		if err := v.reconnect(ctx, err); err != nil {
			if ctx.Err() != nil {
				return nil, nil
			}
			return nil, err
		}
		v.w.OnNote(v.h.Name() + ": connected again; nothing of the log was missed")
	}
}

func (v *view) reconnect(ctx context.Context, lost error) error {
	v.h.Close() // it is gone
	until := v.w.Now().Add(v.w.Patience)
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		h, err := v.w.Dial(ctx)
		if err == nil {
			v.h = h
			return nil
		}
		if !hostLost(err) || v.w.Now().After(until) {
			return errors.Join(lost, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// both follows the log and looks at the process, until one of them ends it.
func (v *view) both(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if err := v.looks(ctx); err != nil {
			cancel(err)
		}
	}()
	err := v.h.Follow(ctx, v.now.Log, v.cursor, v.w.Every, v.take)
	cause := context.Cause(ctx)
	cancel(nil)
	<-looked
	if cause != nil && !hostLost(err) {
		return cause
	}
	return err
}

// take reads the next bytes of the log.
func (v *view) take(chunk []byte, at remote.Cursor) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at.Gap {
		v.w.OnNote(v.now.Log + " was rotated or cut: going on with what is there now")
		v.log, v.part, v.skip = metrics.NewFollower(), nil, false
	}
	v.cursor = at
	if v.skip {
		_, rest, found := bytes.Cut(chunk, []byte("\n"))
		if !found {
			return nil
		}
		v.log, v.skip, chunk = metrics.NewFollowerAt(at.Offset-int64(len(rest))), false, rest
	}
	v.log.Write(chunk)
	v.lines(chunk)
	v.log.Rows()
	v.log.Decode()
	v.log.Speculation()
	fresh := false
	for _, s := range v.log.Samples() {
		for _, m := range WatchedMetrics() {
			if s.Name == m.Name {
				v.now.Values[s.Name], fresh = s.Value, true
			}
		}
	}
	if fresh || len(v.now.Values) == 0 {
		v.show()
	}
	return nil
}

// keptLines is how many of a server's last words are shown.
const keptLines = 8

func (v *view) lines(chunk []byte) {
	v.part = append(v.part, chunk...)
	for {
		line, rest, found := bytes.Cut(v.part, []byte("\n"))
		if !found {
			break
		}
		v.part = rest
		if text := strings.TrimRight(string(line), "\r \t"); text != "" {
			v.last = append(v.last, shorten(text))
		}
	}
	v.part = bytes.Clone(v.part)
	if len(v.part) > 64<<10 {
		v.part = nil // no line
	}
	if over := len(v.last) - keptLines; over > 0 {
		v.last = append([]string(nil), v.last[over:]...)
	}
}

func shorten(line string) string {
	const most = 300
	if text := []rune(line); len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return line
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

// looks at the process, and at the benchmark that loads it.
func (v *view) looks(ctx context.Context) error {
	tick := time.NewTicker(max(v.w.Every, 500*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := v.look(ctx); err != nil {
			return err
		}
	}
}

func (v *view) look(ctx context.Context) error {
	switch {
	case v.launch != "":
		st, err := server.Look(ctx, v.h, v.w.StateDir, v.launch)
		if err != nil {
			return err
		}
		if st.Phase != server.Running {
			v.state = st
			return errServerEnded
		}
		return v.load(ctx)
	case v.id.PID != 0:
		_, err := server.Argv(ctx, v.h, v.id)
		if errors.Is(err, server.ErrGone) {
			return errServerEnded
		}
		return err
	}
	return nil
}

// load reads how far the benchmark is that was begun last.
func (v *view) load(ctx context.Context) error {
	res, err := v.h.Run(ctx, remote.Script{Name: "newest-bench", Text: newestBenchText, Vars: []remote.Var{{Name: "DIR", Value: v.dir}}})
	if err != nil {
		return err
	}
	dir := strings.TrimSpace(string(res.Stdout))
	if dir == "" {
		return nil
	}
	p, err := bench.Poll(ctx, v.h, dir)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.now
	v.now.Run, v.now.Load = "", ""
	if p.State == bench.StateRunning {
		v.now.Run, v.now.Load = strings.TrimSuffix(strings.TrimPrefix(path.Base(dir), "bench-"), "-warm"), describe(p)
	}
	if was.Run != v.now.Run || was.Load != v.now.Load {
		v.show()
	}
	return nil
}

// end says how a server ended, with what it wrote last.
func (v *view) end(ctx context.Context) (*WatchEnd, error) {
	if err := v.drain(ctx); err != nil {
		return nil, err
	}
	v.log.Close()
	e := &WatchEnd{Host: v.h.Name(), Launch: v.launch, PID: v.now.PID, ExitCode: -1, Last: v.last}
	if v.launch != "" {
		e.ExitCode, e.Signal = v.state.ExitCode, v.state.Signal
	}
	if c := v.log.Crash(); c != nil {
		e.Crash = c.Evidence
	}
	if e.Last == nil {
		e.Last = []string{}
	}
	return e, nil
}

// drain reads what the server wrote since the last look.
func (v *view) drain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, size, err := v.h.ReadAt(ctx, v.now.Log, make([]byte, 1), 0)
	if err != nil {
		return err
	}
	if v.cursor.Offset >= size {
		return nil
	}
	enough := errors.New("enough")
	err = v.h.Follow(ctx, v.now.Log, v.cursor, v.w.Every, func(chunk []byte, at remote.Cursor) error {
		if err := v.take(chunk, at); err != nil {
			return err
		}
		if at.Offset >= size || at.Gap {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		return nil
	}
	return err
}

// nextLaunch waits for the server that a sweep starts after the one that ended;
// "" when the sweep is not at work any more.
func (v *view) nextLaunch(ctx context.Context) (string, error) {
	if v.now.Sweep == "" {
		return "", nil
	}
	for {
		all, err := Servers(ctx, v.h, v.w.StateDir)
		if err != nil {
			return "", err
		}
		for _, s := range all {
			if s.Sweep == v.now.Sweep && s.Launch != v.launch && s.State != ServerStopping {
				return s.Launch, nil
			}
		}
		working, err := sweepWorks(ctx, v.h, v.w.StateDir, v.now.Sweep)
		if err != nil || !working {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", nil
		case <-time.After(v.w.Every):
		}
	}
}

// launchOfSweep waits for a server of the sweep that is at work on the host;
// nothing, when there is none.
func (v *view) launchOfSweep(ctx context.Context, nothing error) (string, error) {
	leases, err := server.Leases(ctx, v.h, v.w.StateDir)
	if err != nil {
		return "", err
	}
	for _, l := range leases {
		if !strings.HasPrefix(l.Name, "patches-") || l.Expired || ControllerGone(l.Owner.Controller) {
			continue
		}
		v.now.Sweep = l.Owner.Launch
		v.w.OnNote(fmt.Sprintf("%s: %s is between two launches", v.h.Name(), firstOf(l.Owner.What, "sweep "+v.now.Sweep)))
		if launch, err := v.nextLaunch(ctx); err != nil || launch != "" {
			return launch, err
		}
	}
	return "", nothing
}

// sweepWorks says that a sweep holds a lease on the host, and that its controller
// is not known to have ended.
func sweepWorks(ctx context.Context, h RemoteHost, stateDir, sweep string) (bool, error) {
	leases, err := server.Leases(ctx, h, stateDir)
	if err != nil {
		return false, err
	}
	for _, l := range leases {
		if l.Owner.Launch == sweep && !l.Expired && !ControllerGone(l.Owner.Controller) {
			return true, nil
		}
	}
	return false, nil
}
