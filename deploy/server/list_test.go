package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"specrun/remote"
)

func TestList_OnlyServersThatLive(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	l := b.launch("listed", port)
	l.About = `{"cell":"a b'c"}`
	st := b.start(l)
	if _, err := b.waitReady(st, port); err != nil {
		t.Fatal(err)
	}
	dead := b.launch("dead", freePort(t))
	b.start(dead)
	if _, err := b.stopID(dead.ID, StopOptions{Grace: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	for _, shell := range shells(t) {
		h := remote.Local(remote.LocalConfig{Shell: []string{shell}, Dir: t.TempDir()})
		t.Cleanup(func() { h.Close() })
		if all, err := List(t.Context(), h, filepath.Join(b.state, "none")); err != nil || len(all) != 0 {
			t.Errorf("%s: where nothing was ever started: %+v, %v", shell, all, err)
		}
		all, err := List(t.Context(), h, b.state)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: want the one that lives: %+v, %v", shell, all, err)
		}
		got := all[0]
		if got.Launch != l.ID || got.Phase != Running || got.Identity != st.Identity || got.Port != port || !got.Listens || got.LogPath != st.LogPath || got.About != l.About {
			t.Errorf("%s: %+v", shell, got)
		}
		if got.Started.IsZero() || time.Since(got.Started) > time.Hour || got.Stopped {
			t.Errorf("%s: started %v, stopped %v", shell, got.Started, got.Stopped)
		}
	}
}

// A pid that was given to a stranger, an earlier boot, another machine: none of
// them is a server of ours that lives.
func TestList_AnIdentityThatIsNotAProcess(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	l := b.launch("real", port)
	st := b.start(l)
	id := st.Identity
	for name, text := range map[string]string{
		"ticks":   identityLine(id.HostID, id.BootID, id.PID, id.StartTicks+1, id.SID),
		"boot":    identityLine(id.HostID, "other-boot", id.PID, id.StartTicks, id.SID),
		"machine": identityLine("elsewhere/1", id.BootID, id.PID, id.StartTicks, id.SID),
		"torn":    "x",
	} {
		dir := filepath.Join(b.state, "runs", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "identity"), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := List(t.Context(), b.h, b.state)
	if err != nil || len(all) != 1 || all[0].Launch != l.ID {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestStart_RefusesToKeepMoreThanALineAboutALaunch(t *testing.T) {
	b := newBench(t)
	l := Launch{ID: b.id("lines"), Argv: []string{"true"}, StateDir: b.state, About: "a\nb"}
	if _, err := Start(t.Context(), b.h, l); err == nil || !strings.Contains(err.Error(), "more than a line") {
		t.Errorf("err = %v", err)
	}
}

func identityLine(host, boot string, pid int, ticks uint64, sid int) string {
	return fmt.Sprintf("%s %s %d %d %d", host, boot, pid, ticks, sid)
}
