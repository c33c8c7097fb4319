package server

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestSaved_GPUsAreCards(t *testing.T) {
	s := Saved{Cards: map[string]string{"0": "GPU-a", "1": "GPU-b", "MIG-77": "GPU-b"}}
	for visible, want := range map[string][]string{
		"":                              nil,
		"0, 1":                          {"GPU-a", "GPU-b"},
		"GPU-b":                         {"GPU-b"},
		"7":                             {"7"},              // no such card is known
		"MIG-77":                        {"GPU-b"},          // its card's, as others lease that
		"1,MIG-77":                      {"GPU-b"},          // once
		"MIG-GPU-a/1/0,MIG-GPU-a/2/0,1": {"GPU-a", "GPU-b"}, // as it was written before
		"0,MIG-88":                      nil,                // of a card that is not known
	} {
		got := s.GPUs(visible)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", visible, got, want)
		}
		for _, name := range GPULeases(got) {
			if !leaseName.MatchString(name) {
				t.Errorf("%q: %q is no name of a lease", visible, name)
			}
		}
	}
}

// What a card was cut into has names of its own; the lease is the card's.
func TestReadSaved_KnowsWhichCardAPartIsOf(t *testing.T) {
	b := newBench(t)
	fakeSMI(t, b)
	must(t, writeFile(filepath.Join(filepath.Dir(b.cards), "list"), `GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)
  MIG 3g.20gb     Device  0: (UUID: MIG-11)
  MIG 3g.20gb     Device  1: (UUID: MIG-12)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)
  MIG 7g.40gb     Device  0: (UUID: MIG-21)
`))
	id := b.id("s")
	must(t, SaveProcess(t.Context(), b.h, b.state, id, b.describe(sleeper(t)), ""))
	s, _, err := ReadSaved(t.Context(), b.h, b.state, id)
	if want := map[string]string{"0": "GPU-a", "1": "GPU-b", "MIG-11": "GPU-a", "MIG-12": "GPU-a", "MIG-21": "GPU-b"}; err != nil || !maps.Equal(s.Cards, want) {
		t.Errorf("cards %v, %v; want %v", s.Cards, err, want)
	}
}

// The port of a server in another network is another one's here.
func TestDescribe_AnotherNetwork(t *testing.T) {
	asRoot(t)
	b := newBench(t)
	if b.describe(os.Getpid()).OtherNetwork {
		t.Error("this network is another one")
	}
	cmd := exec.Command("unshare", "--net", "sleep", "600")
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	eventually(t, "it is in another network", func() bool { return b.describe(cmd.Process.Pid).OtherNetwork })
}
