package report

import (
	"maps"
	"slices"
	"strconv"

	"specrun/experiments/record"
)

// Configuration is what one or more server starts of a file have in common: only
// such starts are launches of one cell.
type Configuration struct {
	Params   record.Params
	Baseline bool  // started without speculation
	Starts   []int // indexes of the runs, in their order
}

// Names and value of the parameters that stand for what is no flag.
const (
	paramFlags  = "flags"
	notRecorded = "not recorded"
)

// shortFlags are the names that sweeps give to the shape of a speculative cycle.
var shortFlags = map[string]string{"speculative-num-steps": "steps", "speculative-eagle-topk": "topk", "speculative-num-draft-tokens": "draft"}

// speculationFlags are absent where a server was started without speculation.
var speculationFlags = [...]string{"speculative-algorithm", "speculative-num-steps", "speculative-config"}

// Configurations groups the server starts read out of one file by what they were
// started with: flags, but for those that differ between any two launches or touch
// no cycle (ports, seeds, logging), the engine's version, the model and the
// profiler. The parameters are the shape of the speculative cycle, as sweeps name
// it, and all in which the groups differ. Starts of which no flag is recorded are
// one group, which says so when there is more than one start. Groups stand in the
// order in which they first occur.
func Configurations(runs []record.RunData) []Configuration {
	var out []Configuration
	var settings []map[string]string
	for i, run := range runs {
		mine := startedWith(run)
		at := slices.IndexFunc(settings, func(s map[string]string) bool { return maps.Equal(s, mine) })
		if at < 0 {
			at = len(out)
			settings = append(settings, mine)
			_, unknown := mine[paramFlags]
			speculates := slices.ContainsFunc(speculationFlags[:], func(key string) bool { _, ok := mine[key]; return ok }) ||
				slices.ContainsFunc(run.Metrics, func(m record.Metric) bool { return m.Name == "cycle_total" }) // whatever its flags say
			out = append(out, Configuration{Params: record.Params{}, Baseline: !unknown && !speculates})
		}
		out[at].Starts = append(out[at].Starts, i)
	}
	for i := range out {
		for key, value := range settings[i] {
			short, shape := shortFlags[key]
			differs := slices.ContainsFunc(settings, func(s map[string]string) bool { v, ok := s[key]; return !ok || v != value })
			switch {
			case shape:
				out[i].Params[short] = paramValue(value)
			case differs, key == paramFlags && len(runs) > 1:
				out[i].Params[key] = paramValue(value)
			}
		}
	}
	return out
}

// startedWith is what a start's provenance says of its configuration, flags in the
// spelling of the rules.
func startedWith(run record.RunData) map[string]string {
	out := map[string]string{}
	flags, model := false, ""
	for _, f := range run.Provenance {
		key := ruleKey(f.Group, f.Key)
		switch {
		case f.Group == "flags":
			flags = true
			if weight, _ := cause("flags", f.Key); weight > rare && !nothing(f.Value) {
				out[key] = f.Value
			}
		case f.Group == "code" && key == "engine-version":
			out["engine_version"] = f.Value
		case f.Group == "workload" && key == "model":
			model = f.Value
		case f.Group == "patches" && key == "profiler":
			if out[key] != "" {
				f.Value = out[key] + ", " + f.Value
			}
			out[key] = f.Value
		}
	}
	if !flags { // which have the model's path
		out[paramFlags] = notRecorded
		if model != "" {
			out["model"] = model
		}
	}
	return out
}

// paramValue reads a value as parameters of a sweep have it.
func paramValue(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	if b, err := strconv.ParseBool(text); err == nil {
		return b
	}
	return text
}
