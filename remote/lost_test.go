package remote_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"specrun/remote"
	"specrun/remote/loopback"
	"specrun/remote/remotetest"
)

// golang/go#26643: a server that never answers the opening of a channel.
func TestRun_UnansweredChannelTimesOut(t *testing.T) {
	s := serve(t, loopback.Limits{MuteChannels: true})
	c := s.Config("gpu-01")
	c.ChannelTimeout = 50 * time.Millisecond
	h := mustDial(t, c)
	r, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { :; }"})
	if !errors.Is(err, remote.ErrTimeout) || r.Outcome != remote.NotStarted {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := h.DialContext(t.Context(), "tcp", "127.0.0.1:1"); !errors.Is(err, remote.ErrTimeout) {
		t.Errorf("forward: %v", err)
	}
}

// golang/go#19338: operations on a dead connection never return.
func TestRun_DeadConnectionIsNoticed(t *testing.T) {
	s := serve(t, loopback.Limits{})
	p := remotetest.StartProxy(t, s.Addr())
	c := p.Through(s.Config("gpu-01"))
	c.KeepAlive = 100 * time.Millisecond
	h := mustDial(t, c)
	began := filepath.Join(t.TempDir(), "began")
	end := make(chan error, 1)
	go func() {
		r, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { echo $$ >$f; sleep 1000; }", Vars: []remote.Var{{Name: "f", Value: began}}})
		if r.Outcome != remote.Unknown {
			err = fmt.Errorf("outcome %v: %w", r.Outcome, err)
		}
		end <- err
	}()
	waitFor(t, func() bool { b, _ := os.ReadFile(began); return len(b) > 1 })
	p.Mute(true)
	if err := <-end; !errors.Is(err, remote.ErrLost) {
		t.Errorf("error %v", err)
	}
	// The next operation dials anew.
	p.Mute(false)
	p.Cut()
	if _, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { kill $(cat $f); }", Vars: []remote.Var{{Name: "f", Value: began}}}); err != nil {
		t.Error(err)
	}
}

func TestRun_ConnectionCut(t *testing.T) {
	s := serve(t, loopback.Limits{})
	p := remotetest.StartProxy(t, s.Addr())
	h := mustDial(t, p.Through(s.Config("gpu-01")))
	dir := t.TempDir()
	// While the script travels: nothing of it runs.
	mark := filepath.Join(dir, "mark")
	p.CutAfter(300_000)
	r, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { : >" + mark + "; }",
		Vars: []remote.Var{{Name: "v", Value: strings.Repeat("x", 8<<20)}}})
	if !errors.Is(err, remote.ErrLost) || r.Outcome != remote.NotStarted {
		t.Errorf("cut in the script: %v, %v", r.Outcome, err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a cut script ran")
	}
	// While it runs: unknown.
	go func() {
		waitFor(t, func() bool { _, err := os.Stat(mark); return err == nil })
		p.Cut()
	}()
	r, err = h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { mkfifo " + dir + "/fifo; : >" + mark + "; read -r x <" + dir + "/fifo; }"})
	if !errors.Is(err, remote.ErrLost) || r.Outcome != remote.Unknown {
		t.Errorf("cut while running: %v, %v", r.Outcome, err)
	}
	if f, err := os.OpenFile(dir+"/fifo", os.O_RDWR, 0); err == nil {
		f.WriteString("\n") // lets the script end
		f.Close()
	}
}

// pkg/sftp#300: an upload that reports success though the server has gone.
func TestPut_ConnectionCutIsAnError(t *testing.T) {
	for name, l := range map[string]loopback.Limits{"sftp": {}, "script": {NoSFTP: true}} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, l)
			p := remotetest.StartProxy(t, s.Addr())
			h := mustDial(t, p.Through(s.Config("gpu-01")))
			if err := h.CheckSFTP(t.Context()); err != nil && !l.NoSFTP {
				t.Fatal(err)
			}
			p.CutAfter(200_000)
			err := h.Put(t.Context(), remote.File{Path: filepath.Join(t.TempDir(), "f"), Data: bytes.Repeat([]byte("x"), 1<<20)})
			if !errors.Is(err, remote.ErrLost) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// pkg/sftp#658: a server whose answers are shorter than asked for can end a
// download early and without an error.
func TestGet_ShortReadsNeverPassForAFile(t *testing.T) {
	s := serve(t, loopback.Limits{SFTPRead: 1000})
	h := mustDial(t, s.Config("gpu-01"))
	data := bytes.Repeat([]byte("0123456789"), 40_000)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	_, _, err := h.Get(t.Context(), file, &got)
	if err == nil && !bytes.Equal(got.Bytes(), data) || err != nil && !errors.Is(err, remote.ErrMismatch) {
		t.Errorf("%d bytes of %d, %v", got.Len(), len(data), err)
	}
}

// The exit status overtakes the output on a slow link.
func TestRun_SlowOutputIsWhole(t *testing.T) {
	s := serve(t, loopback.Limits{})
	p := remotetest.StartProxy(t, s.Addr())
	h := mustDial(t, p.Through(s.Config("gpu-01")))
	p.Delay(30 * time.Millisecond)
	r, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { head -c 6000000 /dev/zero; }"})
	if err != nil || len(r.Stdout) != 6_000_000 {
		t.Errorf("%d bytes, %v", len(r.Stdout), err)
	}
}
