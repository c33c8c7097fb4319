//go:build integration && soak

package remote_test

import (
	"testing"

	"specrun/remote"
	"specrun/remote/remotetest"
)

// The contract of every Host, of one in a container that shares the folders and the
// network which the suite looks at from outside.
func TestContainer_KeepsTheContractSoak(t *testing.T) {
	p := remotetest.StartPodman(t)
	for _, image := range []string{remotetest.HostImage, remotetest.BusyboxImage} {
		t.Run(image, func(t *testing.T) {
			args := []string{"--network", "host", "--pid", "host", "-v", "/tmp:/tmp"}
			if image == remotetest.HostImage {
				args = append(args, remotetest.HostMounts()...)
			}
			name := p.Start(append(args, image)...)
			remotetest.Run(t, func(t *testing.T) *remote.Host {
				h, err := inPodman(t, p, name)
				if err != nil {
					t.Fatal(err)
				}
				return h
			})
		})
	}
}
