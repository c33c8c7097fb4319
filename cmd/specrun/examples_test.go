package main

import (
	"os"
	"path/filepath"
	"testing"

	"specrun/configs"
	"specrun/experiments"
)

// exampleSweeps are sweeps of the examples: as many cells with the baseline, and
// the first launches' commands.
var exampleSweeps = map[string]struct {
	args          []string
	cells, merged int
	commands      []string
}{
	"eagle3-steps.yaml": {args: []string{"steps=1..4", "mode=prefill,decode"}, cells: 9},
	"vllm-ngram.yaml": {args: []string{"num_speculative_tokens=0..3"}, cells: 4, merged: 1, commands: []string{
		"env VLLM_LOG_STATS_INTERVAL=2 ~/vllm-env/bin/python3 -m vllm.entrypoints.cli.main serve /data/models/target --tensor-parallel-size 8 --max-model-len 16K --no-enable-prefix-caching --port 30000",
		`env VLLM_LOG_STATS_INTERVAL=2 ~/vllm-env/bin/python3 -m vllm.entrypoints.cli.main serve /data/models/target --tensor-parallel-size 8 --max-model-len 16K --no-enable-prefix-caching ` +
			`--speculative-config '{"method":"ngram","num_speculative_tokens":1,"prompt_lookup_max":4,"prompt_lookup_min":2}' --port 30000`}},
	"llamacpp.yaml": {args: []string{"draft=0,4"}, cells: 2, merged: 1, commands: []string{
		"~/llama.cpp/build/bin/llama-server --port 30000 --model /data/models/target.gguf --gpu-layers 999",
		"~/llama.cpp/build/bin/llama-server --port 30000 --model /data/models/target.gguf --gpu-layers 999 --model-draft /data/models/draft.gguf --draft-max 4"}},
}

// Every example is loaded, so none goes stale.
func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("../../configs/examples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("examples: %v, error %v", files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == configs.FileName {
			hosts, err := configs.Load(file, "/home/user")
			if err != nil {
				t.Error(err)
			} else if _, err := hosts.Expand([]string{"all", "local"}); err != nil {
				t.Error(err)
			}
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := experiments.LoadSpec(file, src)
		if err != nil {
			t.Error(err)
			continue
		}
		sweep, ok := exampleSweeps[filepath.Base(file)]
		if !ok {
			t.Errorf("%s: no sweep of it is known here", file)
			continue
		}
		axes, err := experiments.ParseArgs(sweep.args)
		if err != nil {
			t.Fatal(err)
		}
		engine, err := experiments.Engines(spec.Server.Engine)
		if err != nil {
			t.Fatal(err)
		}
		resolved, err := experiments.Resolve(spec, experiments.Options{Axes: axes, Renderer: engine,
			Host: experiments.HostConfig{Name: "h"},
			Patches: func(name string) (experiments.PatchRef, error) {
				return experiments.PatchRef{Name: name}, nil
			}})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := len(resolved.Cells); got != sweep.cells || !resolved.Cells[0].Baseline || len(resolved.Merged) != sweep.merged {
			t.Errorf("%s: %d cells and %d merged, want %d, the baseline first, and %d", file, got, len(resolved.Merged), sweep.cells, sweep.merged)
		}
		plan, err := experiments.NewPlan(resolved)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for i, want := range sweep.commands {
			if got := plan.Launches[i].Command; got != want {
				t.Errorf("%s: launch %d is\n%s\nwant\n%s", file, i, got, want)
			}
		}
	}
}
