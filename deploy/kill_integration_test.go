//go:build integration

package deploy

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"specrun/internal/tier"
	"specrun/remote/remotetest"
)

// TestKillMatrix_EveryCommandOnARealSSHD kills the shipped scripts after each
// of their commands; before the soak, after some of them, others each time.
func TestKillMatrix_EveryCommandOnARealSSHD(t *testing.T) {
	t.Parallel()
	on := sshdSites(t)
	points, commands := killPoints(t, on)
	t.Logf("%d commands in the scripts, %d kill points", commands, len(points))
	if len(points) < commands {
		t.Fatalf("%d points are fewer than the %d commands", len(points), commands)
	}
	const workers = 3
	for w := range workers {
		t.Run(strconv.Itoa(w), func(t *testing.T) {
			t.Parallel()
			on := sshdSites(t)
			stride := tier.Stride(8)
			for i := w + workers*rand.IntN(stride); i < len(points); i += workers * stride {
				killAt(t, on, points[i].scene, points[i].line, i)
			}
		})
	}
}

// sshdSites starts an sshd and returns a maker of sites behind it, one at a time.
func sshdSites(t *testing.T) func() *site {
	bin := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	host := remotetest.StartSSHD(t, remotetest.Options{Env: map[string]string{"PATH": bin + ":/usr/local/bin:/usr/bin:/bin"}}).Dial(t)
	return func() *site { return newSite(t).on(host, bin) }
}
