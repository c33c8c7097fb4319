package engine

// Settle implements Settler. That speculation of 0 tokens is none is all that is
// known of every release.
func (e vllm) Settle(flags []Flag, _ map[string]string, _ string) (Settled, error) {
	return Settled{Flags: flags, Canonical: e.Canonical(flags)}, nil
}
