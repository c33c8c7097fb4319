//go:build integration

package experiments_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"specrun/experiments"
	"specrun/experiments/lab"
	"specrun/experiments/record"
)

// factsOf are a run's facts by group and key.
func factsOf(d record.RunData) map[string]string {
	out := map[string]string{}
	for _, f := range d.Provenance {
		out[f.Group+" "+f.Key] = f.Value
	}
	return out
}

// differ are the keys of groups in which two runs differ.
func differ(a, b record.RunData, groups ...string) []string {
	x, y := factsOf(a), factsOf(b)
	var out []string
	for k := range x {
		if v, ok := y[k]; !ok || v != x[k] {
			out = append(out, k)
		}
	}
	for k := range y {
		if _, ok := x[k]; !ok {
			out = append(out, k)
		}
	}
	out = slices.DeleteFunc(out, func(k string) bool {
		group, _, _ := strings.Cut(k, " ")
		return !slices.Contains(groups, group)
	})
	slices.Sort(out)
	return out
}

// Over real SSH, with the practice host's own nvidia-smi: what a run knows of
// itself, and that it knows what was changed between two.
func TestLab_ProvenanceNamesWhatChanged(t *testing.T) {
	t.Parallel()
	l := startLab(t, 0.2, func(s *lab.Settings) { s.Cards = 2 })
	plain := runsOf(t, l, withToken, "steps=2")
	if len(plain) != 2 {
		t.Fatalf("%d runs, want the baseline and a cell", len(plain))
	}
	for _, d := range plain {
		f := factsOf(d)
		for _, k := range []string{"packages sglang", "packages torch", "code engine_files", "code python_version", "env NCCL_PROTO", "env PATH",
			"host kernel", "host cpu_affinity", "host clock_offset_ms", "gpu 1 uuid", "gpu driver", "gpu power_limit", "gpu topology", "gpu measured_clock", "workload model_fingerprint",
			"workload prompts_sha256", "command argv"} {
			if f[k] == "" {
				t.Errorf("no %s", k)
			}
		}
		if v := f["env PRACTICE_TOKEN"]; !strings.HasPrefix(v, "(secret, sha ") {
			t.Errorf("the secret is %q", v)
		}
		if f["gpu other_users"] != "" || f["gpu neighbours"] != "" {
			t.Errorf("the server itself was taken for somebody else: %q %q", f["gpu other_users"], f["gpu neighbours"])
		}
		if metricOf(t, d, "gpu_clock_mean", "nvidia-smi") <= 0 {
			t.Error("no clock was sampled")
		}
	}
	// The baseline runs without the patch: in code, that is the patched file only.
	for _, k := range differ(plain[0], plain[1], "code") {
		if !strings.HasPrefix(k, "code file /") {
			t.Errorf("a patch of ours makes %s differ", k)
		}
	}

	site := filepath.Join(filepath.Dir(filepath.Dir(l.Host().Python)), "lib")
	found, err := filepath.Glob(filepath.Join(site, "python3*/site-packages/sglang/srt/managers/scheduler.py"))
	if err != nil || len(found) != 1 {
		t.Fatalf("scheduler.py: %q %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(found[0], append(text, "# somebody was here\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	settings, err := l.Settings()
	if err != nil {
		t.Fatal(err)
	}
	settings.Neighbours = []lab.Neighbour{{Card: 0, MiB: 512, Name: "somebody"}}
	if err := l.SetSettings(settings); err != nil {
		t.Fatal(err)
	}
	edited := runsOf(t, l, withToken, "steps=2")
	for i := range edited {
		want := []string{"code engine_files", "code file sglang/srt/managers/*", "code file sglang/srt/managers/scheduler.py"}
		if got := differ(plain[i], edited[i], "code", "env", "packages", "patches"); !slices.Equal(got, want) {
			t.Errorf("run %d: differ %q, want %q", i, got, want)
		}
		// The neighbour comes with the server, so the look while that starts may be
		// too early for it; the one beside the benchmark is not.
		f := factsOf(edited[i])
		if before := f["gpu other_users"]; before != "" && !strings.Contains(before, "somebody, 512 MiB") || !strings.Contains(f["gpu neighbours"], "somebody") {
			t.Errorf("run %d: the neighbour is not told: %q, %q", i, f["gpu other_users"], f["gpu neighbours"])
		}
	}
}

func withToken(s *experiments.Spec) {
	s.Server.Env = append(s.Server.Env, experiments.EnvVar{Name: "PRACTICE_TOKEN", From: tokenName})
}
