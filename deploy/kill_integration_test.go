//go:build integration

package deploy

import (
	"testing"
)

func TestKillMatrixLocal(t *testing.T) {
	points, commands := killPoints(t, func() *site { return newSite(t) }, "apply", "rollback", "forward", "back")
	t.Logf("%d commands, %d points", commands, len(points))
	if len(points) < commands {
		t.Fatalf("%d points are fewer than the %d commands", len(points), commands)
	}
	const workers = 4
	for w := range workers {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for i := w; i < len(points); i += workers {
				killAt(t, func() *site { return newSite(t) }, points[i].scene, points[i].line, i)
			}
		})
	}
}
