//go:build soak

package deploy

import (
	"testing"
)

// TestKillMatrix_EveryShell kills at every command of the main scenes, also
// those that another scene has met already, under each shell. busybox is left
// out: it runs its own mv and cp, so scenes with broken tools cannot be staged.
func TestKillMatrix_EveryShell(t *testing.T) {
	for _, name := range []string{"dash", "bash"} {
		shell := shells[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := func() *site { return newSite(t, shell...) }
			points, commands := killPoints(t, site, "apply", "forward")
			t.Logf("%d commands in the scripts, %d kill points", commands, len(points))
			if len(points) < commands {
				t.Fatalf("%d points are fewer than the %d commands", len(points), commands)
			}
			for i, p := range points {
				killAt(t, site, p.scene, p.line, i)
			}
		})
	}
}
