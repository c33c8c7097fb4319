package lab

import _ "embed"

//go:embed practice.yaml
var practice []byte

// SpecName is what the practice spec is called in messages.
const SpecName = "practice.yaml (built in)"

// Spec returns the experiment file of the practice host.
func Spec() []byte { return append([]byte(nil), practice...) }
