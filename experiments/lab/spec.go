package lab

import (
	_ "embed"
	"time"
)

//go:embed practice.yaml
var practice []byte

// SpecName is what the practice spec is called in messages.
const SpecName = "practice.yaml (built in)"

// Spec returns the experiment file of the practice host.
func Spec() []byte { return append([]byte(nil), practice...) }

// What the practice spec takes with the default settings, for estimates: a
// launch beside its run, and a run.
const (
	UsualLaunch = 800 * time.Millisecond
	UsualRun    = 2300 * time.Millisecond
)
