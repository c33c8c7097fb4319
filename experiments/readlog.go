package experiments

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"specrun/experiments/metrics"
	"specrun/experiments/record"
	"specrun/experiments/stats"
	"specrun/experiments/trust"
)

// logReadings is how many summaries and decode lines of a log are kept at most;
// of a longer one every second, fourth, ... is read.
const logReadings = 20000

// Meanings of a TOTAL, as the fact total_meaning has them.
const (
	meaningCycle   = "cycle interval"
	meaningUnknown = "unknown"
)

// LogRun is one server start, or one benchmark, read out of an old file.
type LogRun struct {
	Data record.RunData
	// StartUs and EndUs are the first and last stamp of its readings; 0 when it
	// has no dated ones. Stamps of a log have no zone: they count as UTC, unless
	// the fact host time_zone is absent, which means that the profiler's own clock
	// was there.
	StartUs, EndUs int64
	// Crash is why the start ended, without a kind where the log tells of no end.
	Crash metrics.Crash
}

// Failed says that it crashed before it had any numbers.
func (r LogRun) Failed() bool { return r.Crash.Kind != "" && len(r.Data.Metrics) == 0 }

// Reason is why it ended, for people, without the kind of the crash; "" where the
// log tells of no end.
func (r LogRun) Reason() string {
	if r.Crash.Kind == "" {
		return ""
	}
	text := fmt.Sprintf("line %d of its log: %s", r.Crash.FirstLine, r.Crash.Evidence)
	if r.Crash.Hint != "" {
		text += "\nnext: " + r.Crash.Hint
	}
	return text
}

// ReadLog reads an old log or benchmark output as runs, one for each start of
// each server in it: several services, pods or files of one log are not one
// server (none when nothing is recognised). What the file does not say is
// absent.
func ReadLog(r io.Reader, name string) ([]record.RunData, error) {
	runs, err := ReadLogRuns(r, name)
	if err != nil {
		return nil, err
	}
	var out []record.RunData
	for _, run := range runs {
		if !run.Failed() {
			out = append(out, run.Data)
		}
	}
	return out, nil
}

// ReadLogRuns is ReadLog with the time of each run and how it ended. A start that
// crashed without any numbers is a run, too.
func ReadLogRuns(r io.Reader, name string) ([]LogRun, error) {
	l, err := metrics.ReadLog(r, name, logReadings)
	if err != nil {
		return nil, err
	}
	keys := l.Runs
	if len(keys) == 0 && len(l.Report.Extract) > 0 {
		keys = []metrics.RunKey{{}} // a document
	}
	crash, crashed := l.Report.Crash, metrics.RunKey{}
	if crash != nil {
		i := slices.IndexFunc(keys, func(k metrics.RunKey) bool {
			return k.Server.Service == crash.Service && k.Server.Pod == crash.Pod && (crash.Run == 0 || crash.Run == k.Start)
		})
		if i < 0 {
			i, keys = len(keys), append(slices.Clone(keys), metrics.RunKey{Server: metrics.Server{Service: crash.Service, Pod: crash.Pod}, Start: max(crash.Run, 1)})
		}
		crashed = keys[i]
	}
	servers := map[metrics.Server]bool{}
	for _, k := range keys {
		servers[k.Server] = true
	}
	var runs []LogRun
	for _, key := range keys {
		run := LogRun{Data: runData(l, name, key)}
		if crash != nil && key == crashed {
			run.Crash = *crash
		}
		if len(servers) > 1 {
			if len(run.Data.Metrics) == 0 && run.Crash.Kind == "" {
				continue // a container beside them, that said nothing of them
			}
			run.Data.Provenance = append(run.Data.Provenance, record.Fact{Group: "host", Key: "server", Value: firstOf(key.Server.String(), "without a name in the log")})
		}
		if t, ok := l.Times[key]; ok {
			run.StartUs, run.EndUs = int64(t.First*1e6), int64(t.Last*1e6)
			if !t.Zoned {
				run.Data.Provenance = append(run.Data.Provenance, record.Fact{Group: "host", Key: "time_zone", Value: "unknown: the log's stamps have none"})
			}
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// runData is what one start of a server says.
func runData(l *metrics.Log, name string, key metrics.RunKey) record.RunData {
	rows := slices.DeleteFunc(slices.Clone(l.Rows), func(r metrics.ProfilerRow) bool { return r.Key() != key })
	lines := slices.DeleteFunc(slices.Clone(l.Decode), func(d metrics.DecodeLine) bool { return d.Key() != key })
	whole := metrics.Summarise(rows, lines, metrics.Window{})
	data := record.RunData{Metrics: whole.Metrics, Samples: whole.Samples}
	addSeries(&data, l.Report, key)

	facts := []record.Fact{{Group: "workload", Key: "file", Value: name}, {Group: "code", Key: "engine", Value: l.Report.Engine}}
	fact := func(group, key, value string) {
		if value != "" {
			facts = append(facts, record.Fact{Group: group, Key: key, Value: value})
		}
	}
	var args map[string]string
	for _, s := range l.Starts {
		if s.RunKey == key && (s.Args != "" || s.Version != "") && args == nil {
			var flags []record.Fact
			flags, args = argFacts(s.Args)
			facts = append(facts, flags...)
			fact("code", "engine_version", s.Version)
		}
	}
	fact("workload", "model", args["model_path"])
	profilers := profilersOf(rows)
	for _, p := range profilers {
		fact("patches", "profiler", p)
	}
	meaning := totalMeaning(rows)
	fact("code", "total_meaning", meaning)
	for _, stride := range []struct {
		n    int
		what string
	}{{l.RowStride, "profiler summary"}, {l.DecodeStride, "decode line"}} {
		if stride.n > 1 {
			fact("workload", "thinned", fmt.Sprintf("one %s in %d was read", stride.what, stride.n))
		}
	}
	data.Provenance = facts
	data.Labels, data.Checks = judgeLog(whole, data.Metrics, args, name, meaning)
	return data
}

// profilersOf names the profilers of the rows: "name version hash"; a text block
// does not say who printed it.
func profilersOf(rows []metrics.ProfilerRow) []string {
	var out []string
	for _, r := range rows {
		p := "unknown: text blocks"
		if !r.Text {
			p = strings.Join(strings.Fields(fmt.Sprintf("%s %s %.12s", r.Profiler, r.Version, r.Hash)), " ")
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// totalMeaning is what the rows' TOTAL spans: specrun's own JSON lines say so by
// their schema, text does not. "" without rows.
func totalMeaning(rows []metrics.ProfilerRow) string {
	if len(rows) == 0 {
		return ""
	}
	if slices.ContainsFunc(rows, func(r metrics.ProfilerRow) bool { return r.Text }) {
		return meaningUnknown
	}
	return meaningCycle
}

// judgeLog labels a run of a log by the same rules as a measured one.
func judgeLog(s metrics.Summary, ms []record.Metric, args map[string]string, name, meaning string) ([]record.Label, []record.TrustCheck) {
	in := trust.Input{Metrics: ms, Imported: true}
	in.Steps, _ = strconv.Atoi(args["speculative_num_steps"])
	if args["speculative_algorithm"] == "" && args != nil {
		in.Steps = 0
	}
	if len(s.Rows) > 0 {
		in.Cycles = cycles(s, s.Rows)
	}
	in.CyclesExpected = len(s.Rows) > 0
	if meaning == meaningUnknown {
		in.TotalUnstated = "the log has text blocks, which do not say what their TOTAL spans"
	}
	labels, checks := trust.Assess(in)
	for i, l := range labels {
		if l.Name == trust.Imported {
			labels[i].Reason = "read from " + name
		}
	}
	return labels, checks
}

// addSeries adds what Summarise does not know, as the median of what the file
// has: results of a benchmark, and the interval lines of other engines than
// SGLang.
func addSeries(data *record.RunData, parsed *metrics.Report, key metrics.RunKey) {
	have := map[string]bool{}
	for _, m := range data.Metrics {
		have[m.Name] = true
	}
	if parsed.Kind != metrics.KindBench && (parsed.Kind != metrics.KindServerLog || parsed.Engine == metrics.EngineSGLang) {
		return
	}
	for _, s := range parsed.Extract {
		if have[s.Metric] || key != (metrics.RunKey{}) && !key.Has(s, parsed.Extract) {
			continue
		}
		var values []float64
		for i, v := range s.Values {
			f, ok := v.Float()
			if !ok {
				continue
			}
			values = append(values, f)
			data.Samples = append(data.Samples, record.Sample{Seq: i, Name: s.Metric, Unit: s.Unit, Value: f, Source: "import", Labels: s.Labels})
		}
		if len(values) > 0 {
			have[s.Metric] = true
			data.Metrics = append(data.Metrics, record.Metric{Name: s.Metric, Unit: s.Unit, Value: stats.Median(values), N: len(values), Source: "import"})
		}
	}
}
