package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/internal/tier"
	"specrun/remote"
)

// foreign is a stand-in that somebody started by hand, in a session of its own.
type foreign struct {
	pid  int
	port int
	log  string
	env  []string
}

// foreign starts one and waits until it listens. It is reaped as soon as it ends,
// and ended with the test.
func (b *bench) foreign(env []string, switches ...string) foreign {
	return b.foreignOn(freePort(b.t), env, switches...)
}

func (b *bench) foreignOn(port int, env []string, switches ...string) foreign {
	b.t.Helper()
	f := foreign{port: port, log: filepath.Join(b.t.TempDir(), "by hand.log"), env: env}
	out, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(b.python, append([]string{b.script, strconv.Itoa(f.port)}, switches...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = append([]string{"PATH=" + os.Getenv("PATH")}, env...), out, out, b.t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	f.pid = cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait() // how it ends is the test's to say
	}()
	b.t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	eventually(b.t, "the foreign server listens", func() bool {
		h, err := PortHolder(b.t.Context(), b.h, f.port)
		return err == nil && h != nil
	})
	return f
}

func (b *bench) describe(pid int) Process {
	b.t.Helper()
	p, err := Describe(b.t.Context(), b.h, pid)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) stopForeign(f foreign, id string) (ProcessProof, error) {
	return StopProcess(b.t.Context(), b.h, b.describe(f.pid), ProcessStop{StateDir: b.state, Save: id, About: "by hand",
		StopOptions: StopOptions{Grace: 300 * time.Millisecond}})
}

func TestStopProcess_EndsAllOfItAndKeepsHowItWasStarted(t *testing.T) {
	for _, shell := range shells(t)[:tier.Size(1, 3)] {
		t.Run(filepath.Base(filepath.Dir(shell)), func(t *testing.T) {
			b := newBench(t)
			b.h = localShell(t, t.TempDir(), []string{shell})
			b.endsAndKeeps()
		})
	}
}

func (b *bench) endsAndKeeps() {
	t := b.t
	f := b.foreign([]string{"HF_TOKEN=hf_secret", "LINES=one\ntwo"}, "--ignore-term")
	id := b.id("s")
	proof, err := b.stopForeign(f, id)
	if err != nil {
		t.Fatal(err)
	}
	if living(f.pid) || !slices.Equal(proof.Killed, []int{f.pid}) || proof.Port != f.port || proof.Other != nil || proof.Saved != id {
		t.Errorf("proof = %+v, lives %v", proof, living(f.pid))
	}
	all, err := SavedServers(t.Context(), b.h, b.state)
	if err != nil || len(all) != 1 {
		t.Fatalf("saved = %+v, %v", all, err)
	}
	s := all[0]
	if !s.Pending() || s.PID != f.pid || s.Port != f.port || s.Log != f.log || s.About != "by hand" ||
		!slices.Equal(s.Argv, []string{b.python, b.script, strconv.Itoa(f.port), "--ignore-term"}) {
		t.Errorf("saved = %+v", s)
	}
	read, environ, err := ReadSaved(t.Context(), b.h, b.state, id)
	if err != nil || read.ID != id || environ["HF_TOKEN"] != "hf_secret" || environ["LINES"] != "one\ntwo" {
		t.Errorf("read = %+v, %v, %v", read, environ, err)
	}
	dir := filepath.Join(b.state, "saved", id)
	for path, want := range map[string]os.FileMode{dir: 0o700, dir + "/environ": 0o600} {
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, st, err, want)
		}
	}
	var gone *GoneError
	if _, err := StopProcess(t.Context(), b.h, Process{Identity: proof.Identity}, ProcessStop{StateDir: b.state, Save: b.id("again")}); !errors.As(err, &gone) {
		t.Errorf("second stop: %v", err)
	}
	if err := ForgetSaved(t.Context(), b.h, b.state, id); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(b.state, "saved")); err != nil || len(left) != 0 {
		t.Errorf("left = %v, %v", left, err)
	}
	var unknown *NotSavedError
	if _, _, err := ReadSaved(t.Context(), b.h, b.state, id); !errors.As(err, &unknown) {
		t.Errorf("read what was forgotten: %v", err)
	}
}

// A worker that left the session and was orphaned has nothing that ties it to the
// server: it is left alone, and named as who has the port.
func TestStopProcess_EscapedWorkerIsNamed(t *testing.T) {
	b := newBench(t)
	f := b.foreign(nil, "--double-fork")
	worker, err := PortHolder(t.Context(), b.h, f.port)
	if err != nil || worker == nil || worker.PID == f.pid {
		t.Fatalf("worker = %+v, %v", worker, err)
	}
	t.Cleanup(func() { syscall.Kill(worker.PID, syscall.SIGKILL) })
	// The port is the worker's: what the server itself has says nothing of it.
	p := b.describe(f.pid)
	p.Listens = []int{f.port}
	proof, err := StopProcess(t.Context(), b.h, p, ProcessStop{StateDir: b.state, StopOptions: StopOptions{Grace: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if living(f.pid) || !living(worker.PID) || proof.Other == nil || proof.Other.PID != worker.PID || proof.Saved != "" {
		t.Errorf("proof = %+v", proof)
	}
}

// A supervisor has it back at once: the port is free until the new one listens,
// which no stop should call a success.
func TestStopProcess_StartedAgainByItsParentIsNamed(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "while [ ! -e stop ]; do sleep 100; done")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Wait() })
	first := 0
	eventually(t, "its child runs", func() bool {
		p, err := Describe(t.Context(), b.h, cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Children) == 1 && len(b.describe(p.Children[0]).Argv) == 2 {
			first = p.Children[0]
		}
		return first != 0
	})
	proof, err := StopProcess(t.Context(), b.h, b.describe(first), ProcessStop{StateDir: b.state})
	if err != nil {
		t.Fatal(err)
	}
	if proof.Again == 0 || proof.Again == first || !living(proof.Again) || proof.Parent != cmd.Process.Pid {
		t.Errorf("proof = %+v, child of %d", proof, cmd.Process.Pid)
	}
	// Once it does not, there is nothing to name.
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if proof, err = StopProcess(t.Context(), b.h, b.describe(proof.Again), ProcessStop{StateDir: b.state}); err != nil || proof.Again != 0 {
		t.Errorf("proof = %+v, %v", proof, err)
	}
}

// Descendants end too; strangers and this session do not.
func TestStopProcess_DescendantsAndNobodyElse(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(t.TempDir(), "child")
	cmd := exec.Command("sh", "-c", fmt.Sprintf("sh -c 'trap \"\" TERM; echo $$ >%s; while :; do sleep 0.1; done' & wait", out))
	if err := cmd.Start(); err != nil { // not a leader of a session
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stranger := sleeper(t)
	child := 0
	eventually(t, "the child runs", func() bool {
		text, err := os.ReadFile(out)
		child, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && child > 0
	})
	t.Cleanup(func() { syscall.Kill(child, syscall.SIGKILL) })
	p := b.describe(cmd.Process.Pid)
	whom, err := WhomOf(t.Context(), b.h, p)
	if err != nil || !slices.ContainsFunc(whom.Members, func(m Member) bool { return m.PID == child }) ||
		slices.ContainsFunc(whom.Members, func(m Member) bool { return m.PID == stranger }) {
		t.Errorf("whom = %+v, %v; child %d", whom, err, child)
	}
	proof, err := StopProcess(t.Context(), b.h, p, ProcessStop{StateDir: b.state, StopOptions: StopOptions{Grace: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	if living(child) || !slices.Contains(proof.Killed, child) || !living(stranger) {
		t.Errorf("proof = %+v: child lives %v, stranger lives %v", proof, living(child), living(stranger))
	}
}

// A stop that would end itself, or everything, is refused before the first signal.
func TestStopProcess_NeverAboveItself(t *testing.T) {
	b := newBench(t)
	for pid, first := range map[int]bool{os.Getpid(): false, 1: true} {
		var protected *ProtectedError
		if _, err := StopProcess(t.Context(), b.h, b.describe(pid), ProcessStop{StateDir: b.state, Save: b.id("s")}); !errors.As(err, &protected) || protected.First != first {
			t.Errorf("process %d: %v", pid, err)
		}
		protected = nil
		if _, err := WhomOf(t.Context(), b.h, b.describe(pid)); !errors.As(err, &protected) || protected.First != first {
			t.Errorf("who is concerned by process %d: %v", pid, err)
		}
	}
	if _, err := os.Stat(filepath.Join(b.state, "saved")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was saved: %v", err)
	}
}

// asRoot skips what takes another user or a PID namespace. CI runs as root, and
// there nothing may be left out.
func asRoot(t *testing.T) {
	t.Helper()
	switch {
	case os.Getuid() == 0:
	case os.Getenv("CI") != "":
		t.Fatal("needs root")
	default:
		t.Skip("needs root: another user, or a PID namespace")
	}
}

// Its command line and folder mean something else outside of its container.
func TestStopProcess_InAContainerIsNotSaved(t *testing.T) {
	asRoot(t)
	unshare := exec.Command("unshare", "--pid", "--fork", "--kill-child", "sleep", "600")
	b := newBench(t)
	if err := unshare.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unshare.Process.Kill(); unshare.Wait() })
	var inside []int
	eventually(t, "it runs", func() bool {
		inside = b.describe(unshare.Process.Pid).Children
		return len(inside) == 1
	})
	p := b.describe(inside[0])
	var unsaved *UnsavedError
	if _, err := StopProcess(t.Context(), b.h, p, ProcessStop{StateDir: b.state, Save: b.id("s")}); !errors.As(err, &unsaved) || !living(inside[0]) {
		t.Errorf("with save: %v, lives %v", err, living(inside[0]))
	}
	if _, err := StopProcess(t.Context(), b.h, p, ProcessStop{StateDir: b.state, StopOptions: StopOptions{Grace: 200 * time.Millisecond}}); err != nil || living(inside[0]) {
		t.Errorf("without: %v, lives %v", err, living(inside[0]))
	}
}

func TestClaimSaved_OneLaunchStartsItAgain(t *testing.T) {
	b := newBench(t)
	f := b.foreign(nil)
	id := b.id("s")
	if err := SaveProcess(t.Context(), b.h, b.state, id, b.describe(f.pid), "kept"); err != nil {
		t.Fatal(err)
	}
	all, err := SavedServers(t.Context(), b.h, b.state)
	if err != nil || len(all) != 1 || all[0].Pending() || !living(f.pid) {
		t.Fatalf("saved while it runs = %+v, %v", all, err)
	}
	claim := func(launch, instead, want string) {
		t.Helper()
		if got, err := ClaimSaved(t.Context(), b.h, b.state, id, launch, instead); err != nil || got != want {
			t.Errorf("claim for %s instead of %q = %q, %v; want %s", launch, instead, got, err, want)
		}
	}
	claim("one", "", "one")
	claim("two", "", "one")
	claim("two", "other", "one")
	claim("two", "one", "two")
	user := filepath.Join(b.state, "saved", id, "user")
	mine, err := os.ReadFile(user)
	must(t, err)
	must(t, writeFile(user, "somebody\n"))
	var other *OwnerError
	if _, err := ClaimSaved(t.Context(), b.h, b.state, id, "three", "two"); !errors.As(err, &other) || other.Owner != "somebody" || other.Me != strings.TrimSpace(string(mine)) {
		t.Errorf("claim of another user's: %v", err)
	}
	must(t, writeFile(user, string(mine)))
	claim("three", "", "two")
	if err := SavedStopped(t.Context(), b.h, b.state, id); err != nil {
		t.Fatal(err)
	}
	if err := SavedRestored(t.Context(), b.h, b.state, id, "two"); err != nil {
		t.Fatal(err)
	}
	if all, err = SavedServers(t.Context(), b.h, b.state); err != nil || all[0].Pending() || all[0].Restored != "two" {
		t.Errorf("restored = %+v, %v", all, err)
	}
}

func TestAttach_FollowsThatVeryServer(t *testing.T) {
	for _, shell := range shells(t)[:tier.Size(1, 3)] {
		t.Run(filepath.Base(filepath.Dir(shell)), func(t *testing.T) {
			b := newBench(t)
			b.h = localShell(t, t.TempDir(), []string{shell})
			b.followsIt()
		})
	}
}

func (b *bench) followsIt() {
	t := b.t
	f := b.foreign([]string{"SGLANG_X=1"})
	to := AttachTo{StateDir: b.state, Launch: b.id("at"), Port: f.port}
	at, err := Attach(t.Context(), b.h, to)
	if err != nil {
		t.Fatal(err)
	}
	size, err := os.Stat(f.log)
	if err != nil {
		t.Fatal(err)
	}
	if at.State.Phase != Running || at.State.Identity.PID != f.pid || at.State.LogPath != f.log || at.State.LogFrom != size.Size() ||
		at.Holder.PID != f.pid || at.Process == nil || at.Process.Environ["SGLANG_X"] != "1" || len(at.Unread) != 0 {
		t.Fatalf("attached = %+v", at)
	}
	st := b.lookID(to.Launch)
	if st.Phase != Running || !st.Attached || st.Identity != at.State.Identity || st.LogPath != f.log || st.Dir != filepath.Join(b.state, "runs", to.Launch) {
		t.Errorf("look = %+v", st)
	}
	if closely, err := LookClosely(t.Context(), b.h, b.state, to.Launch, f.port, true); err != nil || !closely.Listens(at.Holder.Socket) {
		t.Errorf("look closely = %+v, %v", closely, err)
	}
	if all, err := List(t.Context(), b.h, b.state); err != nil || len(all) != 0 {
		t.Errorf("it is listed as ours: %+v, %v", all, err)
	}
	again, err := Attach(t.Context(), b.h, to)
	if err != nil || again.State.Identity != at.State.Identity {
		t.Errorf("again = %+v, %v", again, err)
	}
	if _, err := Stop(t.Context(), b.h, b.state, to.Launch, StopOptions{Grace: 10 * time.Millisecond}); err != nil || !living(f.pid) {
		t.Fatalf("the end of the binding: %v, the server lives: %v", err, living(f.pid))
	}
	// Another server in its place is another one.
	syscall.Kill(f.pid, syscall.SIGKILL)
	eventually(t, "the port is free", func() bool {
		h, err := PortHolder(t.Context(), b.h, f.port)
		return err == nil && h == nil
	})
	if st := b.lookID(to.Launch); st.Phase != Exited || st.Replaced != nil {
		t.Errorf("after its end: %+v", st)
	}
	next := b.foreignOn(f.port, nil)
	if st := b.lookID(to.Launch); st.Phase != Exited || st.Replaced == nil || st.Replaced.PID != next.pid || st.Replaced.Port != f.port {
		t.Errorf("after a restart: %+v", st)
	}
}

func TestAttach_Refuses(t *testing.T) {
	b := newBench(t)
	f := b.foreign(nil)
	var nothing *AttachError
	if _, err := Attach(t.Context(), b.h, AttachTo{StateDir: b.state, Launch: b.id("a"), Port: freePort(t)}); !errors.As(err, &nothing) || nothing.Holder != nil {
		t.Errorf("nobody listens: %v", err)
	}
	stranger := sleeper(t)
	if _, err := Attach(t.Context(), b.h, AttachTo{StateDir: b.state, Launch: b.id("b"), Port: f.port, PID: stranger}); !errors.As(err, &nothing) || nothing.Holder == nil || nothing.Holder.PID != f.pid {
		t.Errorf("another process listens: %v", err)
	}
	var gone *GoneError
	if _, err := Attach(t.Context(), b.h, AttachTo{StateDir: b.state, Launch: b.id("c"), Port: f.port, PID: 1 << 22}); !errors.As(err, &gone) {
		t.Errorf("no such process: %v", err)
	}
	at, err := Attach(t.Context(), b.h, AttachTo{StateDir: b.state, Launch: b.id("d"), Port: f.port, PID: f.pid, Log: "/nonexistent/log"})
	if err != nil || at.State.LogPath != "" || len(at.Unread) != 1 || !strings.Contains(at.Unread[0], "/nonexistent/log") {
		t.Errorf("a log that is not there: %+v, %v", at, err)
	}
	if st := b.lookID(b.id("d")); st.Phase != Running || st.LogPath != "" {
		t.Errorf("look = %+v", st)
	}
	if left, _ := os.ReadDir(filepath.Join(b.state, "runs")); len(left) != 1 {
		t.Errorf("refused ones left something: %v", left)
	}
}

// A process of another user: identity by what may be seen, nothing done to it.
func TestStopProcess_OfAnotherUserIsDenied(t *testing.T) {
	asRoot(t)
	b := newBench(t)
	home := openDir(t)
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	h := asUser(t, nobody, home)
	roots := sleeper(t)
	p, err := Describe(t.Context(), h, roots)
	if err != nil || !p.EnvironHidden || p.UID != 0 {
		t.Fatalf("described = %+v, %v", p, err)
	}
	var denied *DeniedError
	if _, err := StopProcess(t.Context(), h, p, ProcessStop{StateDir: filepath.Join(home, "state"), Save: b.id("x")}); !errors.As(err, &denied) || !living(roots) {
		t.Errorf("stop: %v, lives %v", err, living(roots))
	}
	if _, err := os.Stat(filepath.Join(home, "state")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was saved: %v", err)
	}
	var unsaved *UnsavedError
	if err := SaveProcess(t.Context(), h, filepath.Join(home, "state"), b.id("y"), p, ""); !errors.As(err, &unsaved) {
		t.Errorf("save: %v", err)
	}
}

// What may not be seen of a server is said; the socket alone tells it from another.
func TestAttach_ToAnotherUsersServer(t *testing.T) {
	asRoot(t)
	b := newBench(t)
	f := b.foreign(nil)
	home := openDir(t)
	b.h = asUser(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, home)
	b.state = filepath.Join(home, "state")
	at, err := Attach(t.Context(), b.h, AttachTo{StateDir: b.state, Launch: b.id("a"), Port: f.port})
	if err != nil || at.Process != nil || at.Holder.PID != 0 || at.State.Phase != Running || len(at.Unread) != 1 || !strings.Contains(at.Unread[0], "server.attach.pid") {
		t.Errorf("by its port: %+v, %v", at, err)
	}
	at, err = Attach(t.Context(), b.h, AttachTo{StateDir: b.state, Launch: b.id("b"), Port: f.port, PID: f.pid})
	if err != nil || at.State.Identity.PID != f.pid || at.State.Phase != Running || at.State.LogPath != "" || len(at.Unread) != 2 {
		t.Errorf("by its process: %+v, %v", at, err)
	}
	syscall.Kill(f.pid, syscall.SIGKILL)
	eventually(t, "both have ended", func() bool {
		return b.lookID(b.id("a")).Phase == Exited && b.lookID(b.id("b")).Phase == Exited
	})
}

// openDir is a folder for everybody.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// asUser is this machine as another user sees it.
func asUser(t *testing.T, as *syscall.SysProcAttr, home string) Host {
	t.Helper()
	shell := filepath.Join(t.TempDir(), "sh")
	if err := os.WriteFile(shell, fmt.Appendf(nil, "#!/bin/sh\nexec setpriv --reuid %d --regid %d --clear-groups /bin/sh \"$@\"\n", as.Credential.Uid, as.Credential.Gid), 0o755); err != nil {
		t.Fatal(err)
	}
	h := remote.Local(remote.LocalConfig{Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, Dir: home, Shell: []string{shell}})
	t.Cleanup(func() { h.Close() })
	return h
}
