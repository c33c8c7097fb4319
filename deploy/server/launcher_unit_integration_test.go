//go:build integration

package server

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/internal/tier"
	"specrun/remote"
)

// units is a bench whose host has the test's service manager.
type units struct {
	*bench
	dir     string // of the manager
	dropins string
}

const unitFile = `[Unit]
Description=a server
[Service]
Type=notify
Restart=always
Environment=FROM_UNIT=1
ExecStart=/bin/false
`

func newUnits(t *testing.T, shell ...string) *units {
	t.Helper()
	b := newBench(t)
	home, dir, runtime := t.TempDir(), t.TempDir(), t.TempDir()
	here, err := filepath.Abs("testdata")
	must(t, err)
	h := remote.Local(remote.LocalConfig{Dir: home, Shell: shell, Env: []string{"HOME=" + home, "FAKE_SYSTEMD=" + dir,
		"XDG_RUNTIME_DIR=" + runtime, "PATH=" + here + ":" + os.Getenv("PATH")}})
	t.Cleanup(func() { h.Close() })
	b.h = h
	u := &units{bench: b, dir: dir, dropins: runtime + "/systemd/user/sglang.service.d"}
	must(t, writeFile(dir+"/sglang.service", unitFile))
	return u
}

func (u *units) unit(name string, port int, switches ...string) Launch {
	l := u.launch(name, port, switches...)
	l.Unit = &Unit{Name: "sglang.service", User: true}
	u.t.Cleanup(func() { u.stopID(l.ID, StopOptions{Grace: 10 * time.Millisecond}) }) // the host is still open
	return l
}

// asFound says that the unit is what it was.
func (u *units) asFound() {
	u.t.Helper()
	if left, err := filepath.Glob(u.dropins + "*"); err != nil || len(left) > 0 {
		u.t.Errorf("drop-ins are left: %v, %v", left, err)
	}
	for _, f := range []string{"", ".loaded"} {
		if text, err := os.ReadFile(u.dir + "/sglang.service" + f); err != nil || string(text) != unitFile {
			u.t.Errorf("unit%s is now %q, %v", f, text, err)
		}
	}
}

func TestUnit_StartReadyStop(t *testing.T) {
	for _, shell := range shells(t)[:tier.Size(1, 3)] {
		t.Run(filepath.Base(filepath.Dir(shell)), func(t *testing.T) {
			u := newUnits(t, shell)
			port := freePort(t)
			record := filepath.Join(t.TempDir(), "record")
			words := []string{"", "two words", `"`, `\`, "100%", "$HOME ${HOME} $$", "line\nbreak", "tab\t", "ä€", "-x=~/y", ";", "#"}
			l := u.unit("l1", port, append([]string{"--record", record, "--"}, words...)...)
			l.Cwd = t.TempDir()
			l.HostEnv = map[string]string{"LAYER": "host", "HOST": "a b"}
			l.Env = map[string]string{"LAYER": "env", "HARD": "it's \"$HOME\" `x` \\ \n 100%", "EMPTY": ""}
			l.EnvFile = filepath.Join(t.TempDir(), "env file")
			must(t, writeFile(l.EnvFile, "LAYER=file\nFILE='x \"y\" $z'\n"))
			l.GPUs = []string{"0", "3"}
			st := u.start(l)
			got := u.recorded(record)
			if want := append([]string{u.script, itoa(port), "--record", record, "--"}, words...); strings.Join(got.Argv, "\x00") != strings.Join(want, "\x00") {
				t.Errorf("argv %q, want %q", got.Argv, want)
			}
			for name, want := range map[string]string{"LAYER": "env", "HOST": "a b", "HARD": l.Env["HARD"], "EMPTY": "", "FILE": `x "y" $z`,
				"CUDA_VISIBLE_DEVICES": "0,3", "SPECRUN_RUN_ID": l.ID, "PATH": filepath.Dir(u.python) + ":/usr/bin:/bin"} {
				if v, ok := got.Env[name]; !ok || v != want {
					t.Errorf("%s=%q, want %q", name, v, want)
				}
			}
			if got.Cwd != l.Cwd || got.PID != st.Identity.PID || st.Phase != Running {
				t.Errorf("recorded %+v, state %+v", got, st)
			}
			if file, err := os.Stat(u.dropins + "/zz-specrun." + l.ID + ".env"); err != nil || file.Mode().Perm() != 0o600 {
				t.Errorf("the environment beside the drop-in: %v, %v", file, err)
			}
			if again, err := Start(t.Context(), u.h, l); err != nil || again != st.Identity {
				t.Errorf("second start %+v, %v", again, err)
			}
			ready, err := u.waitReady(st, port)
			if err != nil || ready.Listener.PID != st.Identity.PID {
				t.Fatalf("ready %+v, %v", ready, err)
			}
			proof, err := u.stop("l1", StopOptions{})
			if err != nil || !proof.Terminated || len(proof.Killed) > 0 || proof.Signal != int(syscall.SIGTERM) {
				t.Errorf("proof %+v, %v", proof, err)
			}
			u.asFound()
			if proof, err := u.stop("l1", StopOptions{}); err != nil || proof.Terminated {
				t.Errorf("second stop %+v, %v", proof, err)
			}
		})
	}
}

func (u *units) recorded(path string) recorded {
	u.t.Helper()
	eventually(u.t, "the server has recorded what it got", func() bool { _, err := os.Stat(path); return err == nil })
	return readRecorded(u.t, path)
}

// A server that ends is not started again, and its end is known.
func TestUnit_EndIsSeen(t *testing.T) {
	u := newUnits(t)
	u.start(u.unit("l1", freePort(t), "--exit", "3"))
	eventually(t, "the unit has ended", func() bool { return u.look("l1").Phase == Exited })
	if st := u.look("l1"); st.ExitCode != 3 {
		t.Errorf("state %+v", st)
	}
	if _, err := u.stop("l1", StopOptions{}); err != nil {
		t.Error(err)
	}
	u.asFound()
}

// What ignores the manager's signal, and what left the unit, is ended all the same.
func TestUnit_StopEndsWhatTheManagerLeaves(t *testing.T) {
	u := newUnits(t)
	port := freePort(t)
	st := u.start(u.unit("l1", port, "--ignore-term"))
	if _, err := u.waitReady(st, port); err != nil {
		t.Fatal(err)
	}
	proof, err := u.stop("l1", StopOptions{Grace: 200 * time.Millisecond})
	if err != nil || len(proof.Killed) == 0 || living(st.Identity.PID) {
		t.Errorf("proof %+v, %v", proof, err)
	}
	u.asFound()
}

func TestUnit_Refuses(t *testing.T) {
	u := newUnits(t)
	var refused *RefusedError
	l := u.unit("absent", freePort(t))
	l.Unit = &Unit{Name: "nobody.service", User: true}
	if _, err := Start(t.Context(), u.h, l); !errors.As(err, &refused) || refused.Reason != "unit" {
		t.Errorf("a unit that is not there: %v", err)
	}
	u.asFoundOrUnloaded()

	must(t, writeFile(u.dir+"/refuse", ""))
	if _, err := Start(t.Context(), u.h, u.unit("refused", freePort(t))); !errors.As(err, &refused) || !strings.Contains(err.Error(), "Job failed.") {
		t.Errorf("a start that fails: %v", err)
	}
	u.asFound()
	must(t, os.Remove(u.dir+"/refuse"))

	// Somebody else's, as it was started before we came.
	port := freePort(t)
	first := u.unit("first", port)
	st := u.start(first)
	var busy *UnitBusyError
	if _, err := Start(t.Context(), u.h, u.unit("second", freePort(t))); !errors.As(err, &busy) || busy.PID != st.Identity.PID || busy.Hint() == "" {
		t.Errorf("a unit that runs: %v", err)
	}
	// The one that was refused takes nothing of the first away.
	if _, err := u.stop("second", StopOptions{}); err != nil {
		t.Error(err)
	}
	if u.look("first").Phase != Running {
		t.Error("the first one is gone")
	}
	if _, err := os.Stat(u.dropins + "/zz-specrun.conf"); err != nil {
		t.Error(err)
	}
	for _, bad := range []Launch{
		{Unit: &Unit{Name: "../x.service"}}, {Unit: &Unit{Name: "x.timer"}}, {Unit: &Unit{Name: "x.service"}, LoginEnv: true},
		{Unit: &Unit{Name: "x.service"}, Commands: &Commands{Start: []string{"a"}}},
		{Unit: &Unit{Name: "x.service"}, Env: map[string]string{"A": "\xff"}}, {Unit: &Unit{Name: "x.service"}, Env: map[string]string{"A-B": ""}},
		{Unit: &Unit{Name: "x.service"}, Env: map[string]string{"A": "\r"}},
	} {
		bad.ID, bad.Argv, bad.StateDir = u.id("bad"), []string{"true"}, u.state
		if _, err := Start(t.Context(), u.h, bad); err == nil {
			t.Errorf("%+v was started", bad)
		}
	}
}

func (u *units) asFoundOrUnloaded() {
	u.t.Helper()
	if left, err := filepath.Glob(filepath.Dir(u.dropins) + "/*"); err != nil || len(left) > 0 {
		u.t.Errorf("drop-ins are left: %v, %v", left, err)
	}
}

// A start that was cut off after any of its parts is found and undone by a stop;
// what somebody else started in the unit meanwhile stays.
func TestUnit_StopAfterAStartThatWasCutOff(t *testing.T) {
	u := newUnits(t)
	l := u.unit("cut", freePort(t))
	dir := filepath.Join(u.state, "runs", l.ID)
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.MkdirAll(u.dropins, 0o700))
	must(t, writeFile(dir+"/unit", "user sglang.service\n"))
	must(t, writeFile(u.dropins+"/zz-specrun.conf", "# specrun launch "+l.ID+": it goes when the launch is stopped\n"))
	must(t, os.MkdirAll(u.dir+"/sglang.service.state", 0o700))
	must(t, writeFile(u.dir+"/sglang.service.state/MainPID", itoa(os.Getpid())))
	must(t, writeFile(u.dir+"/sglang.service.state/ActiveState", "active"))
	if _, err := u.stopID(l.ID, StopOptions{}); err != nil {
		t.Fatal(err)
	}
	u.asFound()
	calls, err := os.ReadFile(u.dir + "/calls")
	if err != nil || strings.Contains(string(calls), " stop ") {
		t.Errorf("calls %q, %v", calls, err)
	}
	// A unit with a user of its own.
	if os.Getuid() == 0 {
		cmd := exec.Command("sleep", "600")
		cmd.Env = []string{"SPECRUN_RUN_ID=" + l.ID}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		must(t, cmd.Start())
		ended := make(chan struct{})
		go func() { defer close(ended); cmd.Wait() }()
		t.Cleanup(func() { cmd.Process.Kill(); <-ended })
		must(t, writeFile(u.dir+"/sglang.service.state/MainPID", itoa(cmd.Process.Pid)))
		if _, err := u.stopID(l.ID, StopOptions{Grace: 200 * time.Millisecond}); err != nil || living(cmd.Process.Pid) {
			t.Errorf("stop: %v, the other user's server lives: %v", err, living(cmd.Process.Pid))
		}
	}
	// Another launch's drop-in is not ours to remove.
	must(t, os.MkdirAll(u.dropins, 0o700))
	must(t, writeFile(u.dropins+"/zz-specrun.conf", "# specrun launch other: it goes when the launch is stopped\n"))
	if _, err := u.stopID(l.ID, StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(u.dropins + "/zz-specrun.conf"); err != nil {
		t.Error(err)
	}
}

// Whoever restarts a unit that was left running has the launch's server again, and
// its stop finds that one.
func TestUnit_RestartByHandIsTheLaunchStill(t *testing.T) {
	u := newUnits(t)
	l := u.unit("l1", freePort(t))
	l.Env = map[string]string{"ONLY_HERE": "1"}
	first := u.start(l).Identity.PID
	systemctl := func(verb string) {
		t.Helper()
		if _, err := u.h.Run(t.Context(), remote.Script{Name: "systemctl", Text: "main() { systemctl --user " + verb + " sglang.service; }\n"}); err != nil {
			t.Fatal(err)
		}
	}
	systemctl("stop")
	eventually(t, "the first one has ended", func() bool { return !living(first) && u.look("l1").Phase == Exited })
	systemctl("start")
	var again []int
	eventually(t, "it runs again", func() bool { again = withRunID(t, l.ID); return len(again) == 1 })
	env, err := os.ReadFile("/proc/" + itoa(again[0]) + "/environ")
	if err != nil || !strings.Contains(string(env), "\x00ONLY_HERE=1\x00") {
		t.Errorf("environment %q, %v", env, err)
	}
	if proof, err := u.stop("l1", StopOptions{}); err != nil || !proof.Terminated || living(again[0]) {
		t.Errorf("proof %+v, %v", proof, err)
	}
	u.asFound()
}

// A service's server is started again by the service, not beside it.
func TestSaved_OfAServiceIsNotStartedBesideIt(t *testing.T) {
	u := newUnits(t)
	must(t, os.MkdirAll(u.dir+"/sglang.service.state", 0o700))
	save := func(name string, main int) Saved {
		t.Helper()
		must(t, writeFile(u.dir+"/sglang.service.state/MainPID", itoa(main)))
		p := u.describe(sleeper(t))
		p.Unit = "sglang.service"
		if main == 0 {
			must(t, writeFile(u.dir+"/sglang.service.state/MainPID", itoa(p.Identity.PID)))
		}
		if err := SaveProcess(t.Context(), u.h, u.state, u.id(name), p, ""); err != nil {
			t.Fatal(err)
		}
		s, _, err := ReadSaved(t.Context(), u.h, u.state, u.id(name))
		must(t, err)
		return s
	}
	if s := save("in", 1); s.Unit != "" { // somebody's, in a service's group
		t.Errorf("saved %+v", s)
	}
	if got, err := ClaimSaved(t.Context(), u.h, u.state, u.id("in"), "one", ""); err != nil || got != "one" {
		t.Errorf("claim = %q, %v", got, err)
	}
	if s := save("main", 0); s.Unit != "system sglang.service" {
		t.Errorf("saved %+v", s)
	}
	var service *ServiceError
	if _, err := ClaimSaved(t.Context(), u.h, u.state, u.id("main"), "one", ""); !errors.As(err, &service) || !strings.HasPrefix(service.Hint(), "systemctl start sglang.service on ") {
		t.Errorf("claim: %v", err)
	}
}
