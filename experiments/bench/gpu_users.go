package bench

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// users looks at who holds memory on the GPUs, at the start and then now and
// again.
func (w *watcher) users(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		cpu, err := w.lookAtUsers(ctx)
		if err != nil && ctx.Err() == nil {
			w.note("processes: %v", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(usersEvery, 2*share*cpu) - time.Since(began)):
		}
	}
}

func (w *watcher) lookAtUsers(ctx context.Context) (cpu time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, smiLimit)
	defer cancel()
	cmd := smiCommand(limited, w.smi, "--query-compute-apps="+appFields, "--format=csv,noheader,nounits")
	var out strings.Builder
	cmd.Stdout = &limitedWriter{w: &out, left: 1 << 20}
	err = cmd.Run()
	if cmd.ProcessState != nil {
		cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
		return cpu, errors.New(cmp.Or(first, err.Error()))
	}
	for line := range strings.Lines(out.String()) {
		p, ok := parseApp(line)
		if !ok {
			continue
		}
		ours, known := w.isOurs(p.PID)
		w.mu.Lock()
		switch {
		case ours:
			w.uuids[p.GPU] = true
			w.read = true
		case known:
			p.User = w.owner(p.PID)
			w.addNeighbour(p)
			w.read = true
		}
		w.mu.Unlock()
	}
	if strings.TrimSpace(out.String()) == "" && w.job.Session > 0 {
		w.mu.Lock()
		w.read = true
		w.mu.Unlock()
	}
	return cpu, nil
}

// addNeighbour keeps one entry for each process and GPU, with the most memory.
func (w *watcher) addNeighbour(p GPUProcess) {
	for o := range w.neighbours {
		if o.PID == p.PID && o.GPU == p.GPU {
			p.MiB = max(p.MiB, o.MiB)
			delete(w.neighbours, o)
		}
	}
	w.neighbours[p] = true
}

// isOurs says whether a process belongs to the server: to its session, or below
// its first process. known is false for one that cannot be seen: in a container
// the driver names processes by numbers of the machine.
func (w *watcher) isOurs(pid int) (ours, known bool) {
	if w.job.Session == 0 {
		return false, false
	}
	for range 64 {
		if pid == w.job.Session {
			return true, true
		}
		f := statFields(w.proc, pid)
		if len(f) < 4 {
			return false, known
		}
		if f[3] == strconv.Itoa(w.job.Session) {
			return true, true
		}
		known = true
		parent, err := strconv.Atoi(f[1])
		if err != nil || parent <= 1 {
			return false, true
		}
		pid = parent
	}
	return false, true
}

func (w *watcher) owner(pid int) string {
	st, err := os.Stat(filepath.Join(w.proc, strconv.Itoa(pid)))
	if err != nil {
		return ""
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	uid := strconv.FormatUint(uint64(sys.Uid), 10)
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}

// limitedWriter drops what is too much.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	if n > 0 {
		if _, err := l.w.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
