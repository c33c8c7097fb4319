//go:build soak

package experiments_test

import "testing"

func TestSoak_AHundredLaunchesLeaveNothing(t *testing.T) { launchesLeaveNothing(t, 100) }
