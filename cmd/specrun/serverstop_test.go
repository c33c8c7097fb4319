package main

import (
	"errors"
	"net"
	"os"
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
