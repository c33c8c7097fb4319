package bench

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Readings come twice a second, from one program that goes on: to start it anew
// costs ten times as much. Where it cannot go on, or costs more than share of
// one CPU, they come less often.
const (
	sampleEvery = 500 * time.Millisecond
	usersEvery  = 10 * time.Second
	smiLimit    = 10 * time.Second // one answer; a wedged driver never gives it
	share       = 100              // one part in so many of a CPU
)

// watcher looks at the host while the load runs. Its goroutines end with stop.
// nil is one that watches nothing.
type watcher struct {
	job    Watch
	now    func() int64 // microseconds
	smi    string       // path; "" there is none
	proc   string       // /proc
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu         sync.Mutex
	samples    []GPUSample
	uuids      map[string]bool // of the GPUs that our processes use
	byIndex    map[int]string  // UUIDs
	neighbours map[GPUProcess]bool
	read       bool
	notes      []string
	caches     []Cache
}

// startWatch begins to watch, until stop. A nil job watches nothing.
func startWatch(ctx context.Context, job *Watch, now func() int64) *watcher {
	if job == nil {
		return nil
	}
	w := &watcher{job: *job, now: now, proc: "/proc", uuids: map[string]bool{}, byIndex: map[int]string{}, neighbours: map[GPUProcess]bool{}}
	for _, path := range job.Caches {
		w.caches = append(w.caches, Cache{Path: path, Before: lookAtCache(path, "", within(maxCacheLook))})
	}
	ctx, w.cancel = context.WithCancel(ctx)
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return w // no such GPU here
	}
	w.smi = path
	w.done.Go(func() { w.sample(ctx) })
	w.done.Go(func() { w.users(ctx) })
	return w
}

// stop ends the watching. It does not wait for a program that hangs.
func (w *watcher) stop() {
	if w == nil {
		return
	}
	w.cancel()
	w.done.Wait()
	for i := range w.caches {
		w.caches[i].After = lookAtCache(w.caches[i].Path, w.caches[i].Before.Last, within(maxCacheSecond))
	}
}

// report adds what was seen until stop.
func (w *watcher) report(r *Report) {
	if w == nil {
		return
	}
	r.Caches = w.caches
	r.GPU = w.ours()
	r.UsersRead = w.read
	r.Neighbours = slices.SortedFunc(maps.Keys(w.neighbours), func(a, b GPUProcess) int { return a.PID - b.PID })
	r.Notes = append(r.Notes, w.notes...)
}

// ours are the samples of the GPUs that the server was given, or uses.
func (w *watcher) ours() []GPUSample {
	asked := func(s GPUSample) bool {
		uuid := w.byIndex[s.Index]
		switch {
		case len(w.job.GPUs) > 0:
			return slices.Contains(w.job.GPUs, strconv.Itoa(s.Index)) || slices.Contains(w.job.GPUs, uuid)
		case len(w.uuids) > 0:
			return w.uuids[uuid]
		}
		return true
	}
	return slices.DeleteFunc(w.samples, func(s GPUSample) bool { return !asked(s) })
}

func (w *watcher) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, "nvidia-smi: "+fmt.Sprintf(format, args...))
}

// errRefused is a field that the driver does not know.
type errRefused struct{ field string }

func (e *errRefused) Error() string { return fmt.Sprintf("field %q is not known", e.field) }

var errCostly = errors.New("it costs too much")

// sample takes readings until ctx ends.
func (w *watcher) sample(ctx context.Context) {
	fields := slices.Clone(gpuFields[:])
	every, looping := sampleEvery, true
	for ctx.Err() == nil {
		cpu, rows, err := w.query(ctx, fields, every, looping)
		var refused *errRefused
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &refused):
			var again bool
			if fields, again = withoutField(fields, refused.field); !again {
				w.note("%v", err)
				return
			}
			continue
		case errors.Is(err, errCostly):
			every *= 2
			continue
		case rows == 0:
			w.note("no readings: %v", err)
			return
		}
		// It ended by itself: this one cannot go on, so it is started each time.
		looping = false
		select {
		case <-ctx.Done():
		case <-time.After(max(sampleEvery, share*cpu)):
		}
	}
}

// query runs the program once, taking its rows as they come. cpu is what that
// run cost.
func (w *watcher) query(ctx context.Context, fields []string, every time.Duration, looping bool) (cpu time.Duration, rows int, err error) {
	args := []string{"--query-gpu=" + strings.Join(fields, ","), "--format=csv,noheader,nounits"}
	if looping {
		args = append(args, "-lms", strconv.FormatInt(every.Milliseconds(), 10))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := smiCommand(ctx, w.smi, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	// Silence is what a wedged driver looks like.
	silent := time.AfterFunc(smiLimit+every, cancel)
	defer silent.Stop()
	meter := meter{began: time.Now(), pid: cmd.Process.Pid}
	said := ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		silent.Reset(smiLimit + every)
		line := lines.Text()
		if m := unknownField.FindStringSubmatch(line); m != nil && err == nil {
			err = &errRefused{m[1]}
		}
		s, uuid, ok := parseGPU(fields, line, w.now())
		if !ok {
			said = cmp.Or(said, strings.TrimSpace(line))
			continue
		}
		rows++
		w.keep(s, uuid)
		if looping && meter.costly(every) {
			err = errCostly
			break
		}
	}
	if err != nil {
		cancel()
	}
	waitErr := cmd.Wait()
	if cmd.ProcessState != nil {
		cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err == nil && rows == 0 {
		err = errors.New(cmp.Or(said, fmt.Sprint(waitErr)))
	}
	return cpu, rows, err
}

func (w *watcher) keep(s GPUSample, uuid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, s)
	w.byIndex[s.Index] = uuid
}

// smiCommand is in a group of its own, which is ended as a whole: where it is a
// script, what the script started holds the pipe open.
func smiCommand(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 200 * time.Millisecond
	return cmd
}

// meter sees what a program that goes on costs after it has begun.
type meter struct {
	began  time.Time
	pid    int
	first  time.Duration // its CPU time when it was first looked at
	looked time.Time
	next   time.Time
}

func (m *meter) costly(every time.Duration) bool {
	now := time.Now()
	if now.Before(m.next) || every >= usersEvery {
		return false
	}
	m.next = now.Add(5 * time.Second)
	used, ok := cpuTime(m.pid)
	if !ok {
		return false
	}
	if m.looked.IsZero() { // its start does not count
		m.first, m.looked = used, now
		return false
	}
	// One clock tick is all that can be told apart.
	return used-m.first > now.Sub(m.looked)/share+20*time.Millisecond
}

// cpuTime is what a process has used, in clock ticks of 10 ms.
func cpuTime(pid int) (time.Duration, bool) {
	f := statFields("/proc", pid)
	if len(f) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, err1 == nil && err2 == nil
}

// statFields are those of /proc/PID/stat behind the command's name, which may
// hold anything; nil when there is no such process.
func statFields(proc string, pid int) []string {
	raw, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	text := string(raw)
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}
