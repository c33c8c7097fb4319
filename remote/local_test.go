package remote_test

import (
	"os/exec"
	"strings"
	"testing"

	"specrun/internal/tier"
	"specrun/remote"
	"specrun/remote/remotetest"
)

func TestLocal_KeepsTheContract(t *testing.T) {
	remotetest.Run(t, func(t *testing.T) *remote.Host {
		h := remote.Local(remote.LocalConfig{})
		t.Cleanup(func() { h.Close() })
		return h
	})
}

// The same scripts under the other shells that /bin/sh may be.
func TestLocal_KeepsTheContractUnderOtherShells(t *testing.T) {
	for _, shell := range []string{"busybox sh", "bash --posix"}[:tier.Size(1, 2)] {
		argv := strings.Fields(shell)
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("no %s here", argv[0])
			continue
		}
		t.Run(argv[0], func(t *testing.T) {
			remotetest.Run(t, func(t *testing.T) *remote.Host {
				h := remote.Local(remote.LocalConfig{Name: argv[0], Shell: argv})
				t.Cleanup(func() { h.Close() })
				return h
			})
		})
	}
}
