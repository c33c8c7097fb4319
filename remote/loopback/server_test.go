package loopback_test

import (
	"testing"

	"specrun/remote"
	"specrun/remote/loopback"
	"specrun/remote/remotetest"
)

func start(t *testing.T, l loopback.Limits) *loopback.Server {
	t.Helper()
	s, err := loopback.Start(t.Context(), loopback.Options{Dir: t.TempDir(), Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestServer_KeepsTheContract(t *testing.T) {
	for name, l := range map[string]loopback.Limits{
		"plain":       {},
		"one session": {MaxSessions: 1},
		"noise":       {NoSFTP: true, Noise: "\x1b[1mWelcome!\x1b[0m\nspecrun begin 1 2 3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, l)
			h, err := remote.Dial(t.Context(), s.Config(name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { h.Close() })
			remotetest.Run(t, func(t *testing.T) *remote.Host { return h })
		})
	}
}
