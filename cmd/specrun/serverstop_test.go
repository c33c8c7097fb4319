package main

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"specrun/configs"
	"specrun/deploy/server"
	"specrun/remote"
)

// The end of a launch that measures somebody else's server is not that server's end.
func TestStopOn_AnAttachedServerIsNotSaidToBeStopped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := &connection{Host: remote.Local(remote.LocalConfig{Name: "gpu-01"}), entry: configs.Host{StateDir: t.TempDir()}}
	defer c.Close()
	_, err = server.Attach(t.Context(), c, server.AttachTo{StateDir: c.entry.StateDir, Launch: "k3v7", PID: os.Getpid(), Port: l.Addr().(*net.TCPAddr).Port})
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&app{}).stopOn(t.Context(), c, "k3v7", stopFlags{})
	var usage *usageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "launch k3v7 measures a server that specrun did not start") {
		t.Errorf("%v", err)
	}
	st, err := server.Look(t.Context(), c, c.entry.StateDir, "k3v7")
	if err != nil || st.Stopped || st.Phase != server.Running {
		t.Errorf("it was ended all the same: %+v, %v", st, err)
	}
}

// Twenty workers of a compiler are one line, and what says which server it is stays.
func TestMembersText_EqualOnesAreOneLine(t *testing.T) {
	worker := "python -m torch._inductor.compile_worker --pickler=torch._inductor.compile_worker.subproc_pool.SubprocPickler --kind=fork --workers=32 --parent=7"
	all := []server.Member{{PID: 8, Command: "sglang::scheduler_TP0"}, {PID: 9, Command: worker}, {PID: 10, Command: "ninja"}, {PID: 11, Command: worker}}
	want := []string{"8 sglang::scheduler_TP0", "2 times " + worker[:briefRow] + " ... (pids 9, 11)", "10 ninja"}
	if got := membersText(all); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for pid := range 20 {
		all = append(all, server.Member{PID: 100 + pid, Command: worker})
	}
	if got := membersText(all); len(got) != 3 || !strings.HasSuffix(got[1], " ... (pids 9, 11, 100, ...)") || !strings.HasPrefix(got[1], "22 times ") {
		t.Errorf("%q", got)
	}
	if got := brief("python -c 'import x\n\n  x.run()'", 100); got != "python -c 'import x x.run()'" {
		t.Errorf("on more than a line, or cut: %q", got)
	}
}
