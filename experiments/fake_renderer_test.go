package experiments

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fakeRenderer renders flags plainly and knows one rule of canonical form: with
// topk 1 the number of draft tokens follows from the steps.
type fakeRenderer struct{}

func (fakeRenderer) Argv(c ServerConfig, port int) ([]string, error) {
	argv := []string{c.Python, "-m", "fake"}
	for _, f := range c.Flags {
		argv = append(argv, "--"+f.Name)
		argv = append(argv, f.Values...)
	}
	argv = append(argv, c.Args...)
	return append(argv, "--port", strconv.Itoa(port)), nil
}

func (r fakeRenderer) Canonical(c ServerConfig) ([]string, error) {
	steps, topk := "", ""
	flags := slices.Clone(c.Flags)
	for _, f := range flags {
		switch f.Name {
		case "speculative-num-steps":
			steps = f.Values[0]
		case "speculative-eagle-topk":
			topk = f.Values[0]
		}
	}
	for i, f := range flags {
		if n, err := strconv.Atoi(steps); err == nil && topk == "1" && f.Name == "speculative-num-draft-tokens" {
			flags[i].Values = []string{strconv.Itoa(n + 1)}
		}
	}
	slices.SortFunc(flags, func(a, b ServerFlag) int { return strings.Compare(a.Name, b.Name) })
	c.Flags = flags
	return r.Argv(c, 0)
}

func (fakeRenderer) Shell(argv []string, env map[string]string, cwd string) string {
	var b strings.Builder
	for _, k := range sortedKeys(env) {
		fmt.Fprintf(&b, "%s=%s ", k, env[k])
	}
	return b.String() + strings.Join(argv, " ")
}

func (fakeRenderer) WithoutSpeculation() string { return "the server changes nothing else" }

func fakePatch(name string) (PatchRef, error) {
	if !strings.HasPrefix(name, "profiling-") {
		return PatchRef{}, fmt.Errorf("unknown patch %s", name)
	}
	return PatchRef{Name: name, Version: "1", SHA256: digest([]byte(name)), Probe: "light", Env: map[string]string{"EAGLE3_PROFILE": "1"}}, nil
}

func fakeOptions(axes ...Axis) Options {
	return Options{Axes: axes, Host: HostConfig{Name: "gpu-01", Env: map[string]string{"LANG": "C"}}, Patches: fakePatch, Renderer: fakeRenderer{}}
}
