package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrTaken says that another worker has the run folder.
var ErrTaken = errors.New("another worker has this run folder")

// Serve is the worker: it leaves the session it was started in, takes the run
// folder (ErrTaken when another did), does the job that lies there, keeps the
// progress file fresh and writes the report. When ctx ends it stops without a
// report. It needs linux.
func Serve(ctx context.Context, dir string) error {
	// Fails only for a process that leads its group already, as one does that was
	// started by hand.
	if _, err := syscall.Setsid(); err != nil && !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("leave the session: %w", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, jobFile))
	if err != nil {
		return fmt.Errorf("benchmark job: %w", err)
	}
	var j Job
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields() // a field this build ignores would change the measurement
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("benchmark job %s: %w", filepath.Join(dir, jobFile), err)
	}
	if err := claim(dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, stoppedFile)); err == nil {
		return errors.New("stopped before it began")
	}
	heartbeat := func(p Progress) {
		// A heartbeat that cannot be written is missed by whoever reads it; the
		// measurement goes on, and the report's own failure is told below.
		if b, err := json.Marshal(p); err == nil {
			_ = replace(filepath.Join(dir, progressFile), append(b, '\n'), false)
		}
	}
	r, err := Run(ctx, j, Options{OnProgress: heartbeat})
	if err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("benchmark report: %w", err)
	}
	if err := replace(filepath.Join(dir, reportFile), append(b, '\n'), true); err != nil {
		return fmt.Errorf("benchmark report: %w", err)
	}
	return nil
}

// claim takes the folder by writing who we are: link makes name and content
// appear at once.
func claim(dir string) error {
	me, err := Identity()
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, fmt.Sprintf("%s.%d.new", identityFile, os.Getpid()))
	if err := os.WriteFile(temp, []byte(me), 0o600); err != nil {
		return fmt.Errorf("benchmark identity: %w", err)
	}
	defer os.Remove(temp)
	name := filepath.Join(dir, identityFile)
	err = os.Link(temp, name)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return ErrTaken
	}
	// No hard links on this file system. Readers take an empty file for none.
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return ErrTaken
	}
	if err == nil {
		_, err = f.WriteString(me)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("benchmark identity: %w", err)
	}
	return nil
}

// Identity names this process on its host: boot id, pid and start ticks, in a
// line. A pid alone may be given to another process later. It is what
// boot_identity and alive of remote.HostLib go by.
func Identity() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("identity of this process: %w", err)
	}
	id := strings.TrimSpace(string(boot))
	if os.Getenv("SPECRUN_CONTAINER") != "" { // which boots when its first process starts
		first, err := startTicks("1")
		if err != nil {
			return "", err
		}
		id += "." + first
	}
	ticks, err := startTicks("self")
	if err != nil {
		return "", err
	}
	return id + " " + strconv.Itoa(os.Getpid()) + " " + ticks + "\n", nil
}

// startTicks is field 22 of a process's stat.
func startTicks(pid string) (string, error) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", fmt.Errorf("identity of this process: %w", err)
	}
	// The command name may hold blanks and brackets; fields count from behind it.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 20 {
		return "", fmt.Errorf("identity of this process: /proc/%s/stat has %d fields", pid, len(f))
	}
	return f[19], nil
}

// replace writes a file so that readers see the old content or the new. A durable
// one is whole after a crash of the machine, too; a heartbeat is not, since it is
// not worth a disk access in a measurement.
func replace(path string, data []byte, durable bool) error {
	temp := fmt.Sprintf("%s.%d.new", path, os.Getpid())
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}
