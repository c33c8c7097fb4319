package server

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/remote"
)

const placeID = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// deaf makes a shell script's signals reach nobody, as those to a process that waits
// in a driver; it counts for bash with BASH_ENV while the file is there.
const deaf = "kill() { return 0; }\n"

// contained is a bench around a container of a made up engine: exec runs on this
// machine, and rm ends the process in the file "inside".
type contained struct {
	*bench
	dir   string
	place Place
	in    *remote.Host
}

func newContained(t *testing.T, own bool) contained {
	t.Helper()
	b, dir := newBench(t), t.TempDir()
	engine := `#!/bin/sh
case $1 in
container)
	[ ! -e ` + dir + `/gone ] || exit 1
	case "$*" in *'{{.Id}}'*) printf 'id %s\nstate running\npid 1\nnetwork host\n' ` + placeID + ` ;; *) echo running ;; esac ;;
ps) [ -e ` + dir + `/gone ] || echo ` + placeID + ` ;;
rm)
	[ ! -e ` + dir + `/stuck ] || { echo "could not kill" >&2; exit 1; }
	kill -s KILL "$(cat ` + dir + `/inside)"
	: >` + dir + `/gone ;;
exec)
	while [ "$1" != /bin/sh ]; do shift; done
	shift
	PATH=` + dir + `/bin:$PATH BASH_ENV=` + dir + `/deaf exec bash "$@" ;;
*) exit 1 ;;
esac
`
	must(t, os.WriteFile(filepath.Join(dir, "podman"), []byte(engine), 0o700))
	// Scripts go into sessions of their own there.
	session, err := exec.LookPath("setsid")
	must(t, err)
	must(t, os.Mkdir(dir+"/bin", 0o700))
	must(t, os.WriteFile(dir+"/bin/setsid", []byte("#!/bin/sh\n[ \"$1\" != /bin/sh ] || { shift; set -- bash \"$@\"; }\nexec "+session+" \"$@\"\n"), 0o700))
	home := t.TempDir()
	h := remote.Local(remote.LocalConfig{Env: []string{"HOME=" + home, "PATH=" + dir + ":" + os.Getenv("PATH")}, Dir: home})
	t.Cleanup(func() { h.Close() })
	b.h = h
	place := Place{Container: remote.Container{Engine: "podman", Name: "sglang"}, ID: placeID, Own: own, StateDir: b.state + "-inside"}
	in, err := Enter(t.Context(), h, place)
	must(t, err)
	t.Cleanup(func() { in.Close() })
	return contained{b, dir, place, in}
}

// serve starts a launch inside and makes signals reach nobody there.
func (c contained) serve(name string) Launch {
	c.t.Helper()
	l := c.launch(name, freePort(c.t))
	l.StateDir = c.place.StateDir
	must(c.t, NotePlace(c.t.Context(), c.h, c.state, l, c.place, l.Port, Identity{}))
	id, err := Start(c.t.Context(), c.in, l)
	must(c.t, err)
	must(c.t, writeFile(c.dir+"/inside", itoa(id.PID)))
	c.endKeeper(l.ID) // it would be waited for
	must(c.t, writeFile(c.dir+"/deaf", deaf))
	c.t.Cleanup(func() {
		os.Remove(c.dir + "/deaf")
		os.Remove(filepath.Join(c.state, "runs", l.ID, "container")) // its engine is the test's alone
		if _, err := Stop(context.Background(), remote.Local(remote.LocalConfig{}), c.place.StateDir, l.ID, StopOptions{Grace: time.Millisecond}); err != nil {
			c.t.Error(err)
		}
	})
	return l
}

// The host's user may not see processes in a container, as with docker as root: the
// container is asked whether the holder of a lease lives.
func TestLease_HeldByALaunchThatOnlyItsContainerSees(t *testing.T) {
	c := newContained(t, false)
	p := c.describe(sleeper(t)).Identity // no mark of the launch on it: only the container's answer counts
	l := c.launch("kept", 7)
	t.Cleanup(func() { os.Remove(filepath.Join(c.state, "runs", l.ID, "container")) }) // its engine is the test's alone
	names := []string{PortLease(l.Port), "gpu-0"}
	must(t, AcquireLease(t.Context(), c.h, c.state, names, Owner{Launch: l.ID, Controller: "me"}, time.Minute))
	for _, name := range names {
		c.expire(name)
	}
	unseen := Identity{PID: p.PID, StartTicks: p.StartTicks + 1} // no process here is that one
	must(t, NotePlace(t.Context(), c.h, c.state, l, c.place, l.Port, unseen))
	alive := func() (n int) {
		t.Helper()
		leases, err := Leases(t.Context(), c.h, c.state)
		must(t, err)
		for _, lease := range leases {
			if lease.Alive {
				n++
			}
		}
		return n
	}
	if n := alive(); n != 0 {
		t.Errorf("%d leases are held by a stranger with the server's number", n)
	}
	kept := filepath.Join(c.state, "runs", l.ID, "inside")
	text, err := os.ReadFile(kept)
	must(t, err)
	must(t, writeFile(kept, strings.Replace(string(text), strconv.FormatUint(unseen.StartTicks, 10), strconv.FormatUint(p.StartTicks, 10), 1)))
	if n := alive(); n != len(names) {
		t.Errorf("%d of %d leases are held while the server lives", n, len(names))
	}
	must(t, os.Remove(c.dir+"/podman")) // no answer
	if n := alive(); n != 0 {
		t.Errorf("%d leases are held after the end of the container", n)
	}
}

// endKeeper kills the launcher that stays beside the server.
func (c contained) endKeeper(launch string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.place.StateDir, "runs", launch, "keeper.*"))
	must(c.t, err)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		must(c.t, err)
		pid, err := strconv.Atoi(strings.Fields(string(raw))[2])
		must(c.t, err)
		must(c.t, syscall.Kill(pid, syscall.SIGKILL))
	}
	if len(files) == 0 {
		c.t.Error("it has no keeper")
	}
}

func (c contained) brief(name string) (Proof, error) {
	return c.stop(name, StopOptions{Grace: 10 * time.Millisecond, KillWait: 10 * time.Millisecond})
}

func TestStop_WhatIsLeftGoesWithTheContainerOfTheLaunch(t *testing.T) {
	c := newContained(t, true)
	c.serve("own")
	must(t, writeFile(c.dir+"/stuck", ""))
	if _, err := c.brief("own"); !errors.As(err, new(*SurvivorError)) || !strings.Contains(err.Error(), "could not kill") {
		t.Errorf("a container that stays: %v", err)
	}
	if marks, err := Marks(t.Context(), c.h, c.state); err != nil || len(marks) != 1 || marks[0].Launch != c.id("own") || len(marks[0].Processes) == 0 {
		t.Errorf("marks of its host: %+v, %v", marks, err)
	}
	must(t, os.Remove(c.dir+"/stuck"))
	proof, err := c.brief("own")
	if err != nil || len(proof.Notes) != 1 || !strings.Contains(proof.Notes[0], "went with the container: pid ") {
		t.Errorf("%+v, %v", proof, err)
	}
	if _, err := os.Stat(c.dir + "/gone"); err != nil {
		t.Error("the container was not removed")
	}
	if marks, err := Marks(t.Context(), c.h, c.state); err != nil || len(marks) != 0 {
		t.Errorf("after the proof: %+v, %v", marks, err)
	}
}

func TestStop_WhatIsLeftInAContainerMarksItsHost(t *testing.T) {
	c := newContained(t, false)
	c.serve("shared")
	if _, err := c.brief("shared"); !errors.As(err, new(*SurvivorError)) {
		t.Fatalf("stop: %v", err)
	}
	next := c.launch("next", 0)
	var marked *MarkedError
	err := NotePlace(t.Context(), c.h, c.state, next, c.place, 0, Identity{})
	if !errors.As(err, &marked) || marked.Marks[0].Launch != c.id("shared") || len(marked.Marks[0].Processes) == 0 {
		t.Errorf("the next one in a container: %v", err)
	}
	if st := c.look("next"); st.In != nil {
		t.Errorf("its place was kept: %+v", st.In)
	}
	must(t, os.Remove(c.dir+"/deaf"))
	if _, err := c.stop("shared", StopOptions{}); err != nil {
		t.Fatal(err)
	}
	must(t, NotePlace(t.Context(), c.h, c.state, next, c.place, 0, Identity{}))
	must(t, os.Remove(filepath.Join(c.state, "runs", next.ID, "container")))
}
