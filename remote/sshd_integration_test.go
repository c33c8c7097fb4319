//go:build integration

package remote_test

import (
	"testing"

	"specrun/remote"
	"specrun/remote/remotetest"
)

func TestSSHD_KeepsTheContract(t *testing.T) {
	for name, o := range map[string]remotetest.Options{
		"plain":       {},
		"no sftp":     {NoSFTP: true},
		"MaxSessions": {MaxSessions: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := remotetest.StartSSHD(t, o)
			h := s.Dial(t)
			remotetest.Run(t, func(t *testing.T) *remote.Host { return h })
		})
	}
}
