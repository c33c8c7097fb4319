package deploy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"specrun/patches"
)

// patchedContents gives what the workers hold with the patch.
func (s *site) patchedContents(p *patches.Patch) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for i, path := range []string{s.v1, s.v2} {
		data, err := patches.Apply(p, p.Targets[i], []byte(s.read(path)))
		if err != nil {
			s.t.Fatal(err)
		}
		out[path] = string(data)
	}
	return out
}

func (s *site) removeStages() {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.folder, ".specrun-*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range found {
		if filepath.Base(f) == ".specrun-claim" {
			continue
		}
		if err := os.RemoveAll(f); err != nil {
			s.t.Fatal(err)
		}
	}
}

// restore puts content back by hand, with the mode and time that it had.
func (s *site) restore(path, content string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		s.t.Fatal(err)
	}
	old := time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC)
	if err := os.Chtimes(path, old, old); err != nil {
		s.t.Fatal(err)
	}
}

// applyChanged plans, lets something happen, and applies.
func (s *site) applyChanged(t Target, p *patches.Patch, meanwhile func()) error {
	ctx := context.Background()
	f, err := ReadFacts(ctx, t, s.where, []*patches.Patch{p})
	if err != nil {
		return err
	}
	plan, err := NewPlan(f, Change{Add: []*patches.Patch{p}}, Options{})
	if err != nil {
		return err
	}
	meanwhile()
	_, err = Apply(ctx, t, plan, ApplyOptions{})
	return err
}

// fakeTool puts a tool of that name first into the PATH of the site's host;
// an empty body takes it away.
func (s *site) fakeTool(name, body string) {
	s.t.Helper()
	path := filepath.Join(s.bin, name)
	if body == "" {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			s.t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// fakeMv makes someone else write into a file right after it was replaced.
func (s *site) fakeMv(content string) {
	if content == "" {
		s.fakeTool("mv", "")
		return
	}
	s.fakeTool("mv", `PATH=${PATH#*:}
mv "$@" || exit
for last; do :; done
case $last in */worker_v2.py) printf '%s' '`+content+`' >"$last" ;; esac`)
}

func (s *site) lockFolder() string {
	return filepath.Join(s.state, "locks", "install-"+folderKey(s.folder))
}

// plantLock makes a generation of the folder's lock; values given replace
// those of a holder on this machine. nil, or "young", leaves it without owner.
func (s *site) plantLock(generation int, values map[string]string) {
	s.t.Helper()
	dir := filepath.Join(s.lockFolder(), fmt.Sprintf("lock.%d", generation))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if values["young"] != "" {
		return
	}
	if values == nil {
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(dir, old, old); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	f, err := ReadFacts(context.Background(), s.host, s.where, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{"host": f.HostID, "boot": strings.TrimSpace(string(boot)), "user": "someone", "what": s.folder, "tx": "none"}
	for k, v := range values {
		all[k] = v
	}
	for k, v := range all {
		if err := os.WriteFile(filepath.Join(dir, k), []byte(v+"\n"), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) dropLocks() {
	if err := os.RemoveAll(s.lockFolder()); err != nil {
		s.t.Fatal(err)
	}
}

// plantHolder lets a stopped script with a child hold the lock.
func (s *site) plantHolder() {
	s.t.Helper()
	s.spawn("sleep 1000 & kill -STOP $$; wait")
	s.await("the holder to stop", func() bool { return stateOf(s.holder.Process.Pid) == "T" })
	s.plantLock(1, map[string]string{"pid": fmt.Sprint(s.holder.Process.Pid), "ticks": startOf(s.holder.Process.Pid), "session": fmt.Sprint(s.holder.Process.Pid)})
}

// plantRemnant lets a killed script hold the lock whose child still lives.
func (s *site) plantRemnant() {
	s.t.Helper()
	s.spawn("sleep 1000 & echo ready; wait")
	pid := s.holder.Process.Pid
	s.plantLock(1, map[string]string{"pid": fmt.Sprint(pid), "ticks": startOf(pid), "session": fmt.Sprint(pid)})
	if err := s.holder.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	s.holder.Wait()
}

// rivalGeneration lets a living script make the next higher generation
// between our look and our mkdir.
func (s *site) rivalGeneration() {
	s.t.Helper()
	s.spawn("echo ready; sleep 1000")
	pid := s.holder.Process.Pid
	s.plantLock(7, map[string]string{"pid": fmt.Sprint(pid), "ticks": startOf(pid), "session": "1"})
	hidden := filepath.Join(s.bin, "rival")
	if err := os.MkdirAll(s.lockFolder(), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.lockFolder(), "lock.7"), hidden); err != nil {
		s.t.Fatal(err)
	}
	s.fakeTool("mkdir", `PATH=${PATH#*:}
mkdir "$@" || exit
for last; do :; done
case $last in */lock.1) mv '`+strings.ReplaceAll(hidden, "'", `'\''`)+`' "${last%1}7" ;; esac`)
}

// spawn starts a shell in a session of its own and waits for its first word
// or, when it stops itself, leaves that to the caller.
func (s *site) spawn(code string) {
	s.t.Helper()
	s.endHolder()
	var out bytes.Buffer
	cmd := exec.Command("sh", "-c", code)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if strings.Contains(code, "echo ready") {
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			s.t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		if _, err := pipe.Read(make([]byte, 1)); err != nil {
			s.t.Fatal(err)
		}
	} else if err := cmd.Start(); err != nil {
		s.t.Fatal(err, out.String())
	}
	s.holder = cmd
	s.t.Cleanup(s.endHolder)
}

// endHolder kills what spawn started, with its whole session, and forgets the
// lock if that is what it had.
func (s *site) endHolder() {
	if s.holder == nil {
		return
	}
	syscall.Kill(-s.holder.Process.Pid, syscall.SIGKILL)
	s.holder.Wait()
	s.holder = nil
}

func (s *site) await(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited 20 s for %s", what)
		}
	}
}

// startOf is the start of a process in clock ticks since boot.
func startOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "0"
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))[19]
}

// stateOf is the state letter of a process, "" when there is none.
func stateOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(data[bytes.LastIndexByte(data, ')')+2])
}

// openInState lists transactions and unreleased locks. A transaction that was
// cut off before it named its folders goes by its age only.
func (s *site) openInState() []string {
	s.t.Helper()
	open, err := filepath.Glob(filepath.Join(s.state, "tx", "*", "folder-*"))
	if err != nil {
		s.t.Fatal(err)
	}
	locks, err := LockStatus(context.Background(), s.host, s.state)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range locks {
		if l.Held && l.Reason != "unowned" { // that goes by age, too
			open = append(open, fmt.Sprintf("lock %s held: %s", l.Name, l.Reason))
		}
	}
	return open
}
