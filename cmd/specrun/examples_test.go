package main

import (
	"os"
	"path/filepath"
	"testing"

	"specrun/configs"
	"specrun/experiments"
)

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
		axes, err := experiments.ParseArgs([]string{"steps=1..4", "mode=prefill,decode"})
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
		if got := len(resolved.Cells); got != 9 {
			t.Errorf("%s: %d cells, want the baseline and 8", file, got)
		}
	}
}
