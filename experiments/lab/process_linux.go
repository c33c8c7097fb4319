package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supported says whether the practice host runs on this system.
func supported() error { return nil }

// Process is one process, told apart from a later one with the same number.
type Process struct {
	BootID     string `json:"boot_id"`
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
}

// self identifies this process.
func self() (Process, error) { return identify(os.Getpid()) }

// identify reads the identity of a living process; os.ErrNotExist when there
// is none, or only a zombie.
func identify(pid int) (Process, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Process{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, gone(err)
	}
	// The name, in parentheses, may hold blanks and parentheses itself.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return Process{}, fmt.Errorf("process %d: unexpected stat line %q", pid, stat)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return Process{}, os.ErrNotExist
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return Process{strings.TrimSpace(string(boot)), pid, ticks}, nil
}

// gone turns the ways in which /proc says "no such process" into one.
func gone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return os.ErrNotExist
	}
	return err
}

func (p Process) alive() bool {
	now, err := identify(p.PID)
	return err == nil && now == p
}

// signal sends to this very process, never to a later one with its number;
// os.ErrNotExist when it has ended.
func (p Process) signal(s unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	if !p.alive() { // looked at after the handle was taken: what is alive now is what it points to
		return os.ErrNotExist
	}
	return gone(unix.PidfdSendSignal(fd, s, nil, 0))
}

// end stops the process: TERM, up to grace, KILL, and waits until it is gone.
func (p Process) end(ctx context.Context, grace time.Duration) error {
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := p.signal(s); errors.Is(err, os.ErrNotExist) {
			return nil
		} else if err != nil {
			return fmt.Errorf("end process %d: %w", p.PID, err)
		}
		if await(ctx, grace, func() bool { return !p.alive() }) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("end process %d: %w", p.PID, ctx.Err())
		}
	}
	return fmt.Errorf("end process %d: still alive after SIGKILL", p.PID)
}

// await polls until ok, at most so long; it returns whether it became so.
func await(ctx context.Context, limit time.Duration, ok func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(limit)
	defer end.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return false
		case <-end.C:
			return ok()
		case <-tick.C:
		}
	}
	return true
}

// withEnv finds the living processes of this user whose environment at start
// had this entry: whatever the practice host started, however far detached.
func withEnv(entry string) ([]Process, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	needle := []byte("\x00" + entry + "\x00")
	var found []Process
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, err := identify(pid)
		if err != nil {
			continue // ended meanwhile
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue // another user's, or ended meanwhile
		}
		if bytes.Contains(append([]byte{0}, env...), needle) {
			found = append(found, p)
		}
	}
	return found, nil
}

// endAll ends all processes that have the entry, those too that they start
// meanwhile.
func endAll(ctx context.Context, entry string, grace time.Duration) error {
	for range 10 {
		found, err := withEnv(entry)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, p := range found { // all at once: parents end their children
			if err := p.signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("end process %d: %w", p.PID, err)
			}
		}
		await(ctx, grace, func() bool {
			for _, p := range found {
				if p.alive() {
					return false
				}
			}
			return true
		})
		for _, p := range found {
			if err := p.end(ctx, grace); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("processes of the practice host keep coming back (%s)", entry)
}

// lockFile takes the lock of a practice host's folder; held says that another
// process has it. Closing the file gives it back, and so does the process's end.
func lockFile(path string) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, true, nil
		}
		return nil, false, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, false, nil
}

// detach makes a command a session of its own, which no terminal ends.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
