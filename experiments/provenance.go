package experiments

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"specrun/experiments/engine"
	"specrun/experiments/record"
)

// provenance is all that is known to explain a run's numbers. It grows with
// the launch: a run that failed early has less of it.
func (a *attempt) provenance(r PlannedRun) []record.Fact {
	var f facts
	hide := a.hider()
	cell := a.x.plan.Cells[r.Cell]
	f.add("code", "specrun", a.x.deps.Version)
	f.add("code", "engine", a.cfg.Engine)
	f.add("code", "engine_version", firstOf(a.facts.Checked.Version, a.patches.EngineVersion))
	f.add("code", "python", a.cfg.Python)
	f.add("code", "python_version", a.patches.PythonVersion)
	for _, file := range a.patches.Files {
		f.add("code", "file "+file.Path, file.SHA256+" "+file.verdict())
	}
	for _, p := range a.cfg.Patches {
		f.add("patches", p.Name, strings.TrimSpace(p.Version+" "+p.SHA256))
	}
	if len(a.cfg.Patches) == 0 {
		f.add("patches", "none", "none")
	}
	f.add("command", "argv", quoteArgv(a.rec.Argv))
	f.add("command", "cwd", a.cfg.Cwd)
	f.list = append(f.list, a.attachFacts()...)
	for _, fl := range a.cfg.Flags {
		text := strings.Join(fl.Values, " ")
		if fl.Kind == engine.Bare.String() {
			text = "true"
		}
		f.add("flags", "asked "+fl.Name, hide.value(fl.Name, text))
	}
	for _, name := range sortedKeys(a.facts.Checked.Effective) {
		if name == "port" || name == "nccl_port" {
			continue // chosen for each launch, and explains nothing
		}
		f.add("flags", name, a.facts.Checked.Effective[name])
	}
	for _, name := range sortedKeys(a.facts.Environ) {
		f.add("env", name, a.facts.Environ[name])
	}
	f.list = append(f.list, a.facts.Host...)
	f.list = append(f.list, a.facts.Launch...)
	f.add("host", "name", a.x.plan.Host.Name)
	b := cell.Bench
	// What requests call the model says nothing about it.
	model := a.facts.Checked.Model
	for _, m := range modelsOf(a.cfg) {
		if m.What == "model" {
			model = m.Path
		}
	}
	f.add("workload", "model", model)
	f.add("workload", "served_model", a.facts.Checked.Model)
	f.add("workload", "driver", b.Driver)
	f.add("workload", "where", a.x.loadedFrom(b))
	f.add("workload", "endpoint", b.Endpoint)
	f.add("workload", "prompts", b.Prompts)
	f.add("workload", "requests", strconv.Itoa(b.Requests))
	f.add("workload", "concurrency", strconv.Itoa(b.Concurrency))
	f.add("workload", "max_tokens", strconv.Itoa(b.MaxTokens))
	f.add("workload", "ignore_eos", strconv.FormatBool(b.IgnoreEOS))
	f.add("workload", "temperature", strconv.FormatFloat(b.Temperature, 'g', -1, 64))
	f.add("workload", "warmup", b.Warmup.String())
	f.add("workload", "seed", strconv.FormatInt(b.Seed, 10))
	return distinct(f.list)
}

// loadedFrom is where the load came from. The controller of a sweep that goes on by
// itself is its host: such a run must not look like one that was loaded from afar.
func (x *execution) loadedFrom(b BenchPlan) string {
	if x.deps.Detached && b.Where == "controller" {
		return "controller, which is the host"
	}
	return b.Where
}

// distinct leaves out what was said before in the same words.
func distinct(list []record.Fact) []record.Fact {
	seen := map[record.Fact]bool{}
	return slices.DeleteFunc(list, func(f record.Fact) bool {
		again := seen[f]
		seen[f] = true
		return again
	})
}

type facts struct{ list []record.Fact }

func (f *facts) add(group, key, value string) {
	if value != "" {
		f.list = append(f.list, record.Fact{Group: group, Key: key, Value: value})
	}
}

// quoteArgv shows an argument vector on one line without losing its words.
func quoteArgv(words []string) string {
	if len(words) == 0 {
		return ""
	}
	text, err := plainJSON(words)
	if err != nil {
		return fmt.Sprintf("%q", words)
	}
	return string(text)
}
