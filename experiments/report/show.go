package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"specrun/experiments/record"
)

// RunDetail is the JSON line of type run that show prints: all that is stored of
// a run. Numbers that are not finite are null.
type RunDetail struct {
	RunHead
	Launch     string                       `json:"launch"`
	Argv       []string                     `json:"argv"`
	Identity   json.RawMessage              `json:"identity,omitempty"`
	Metrics    []metricJSON                 `json:"metrics"`
	Slope      *SlopeJSON                   `json:"context_slope,omitempty"`
	ByBatch    []BatchJSON                  `json:"by_batch"`
	Labels     []labelJSON                  `json:"labels"`
	Checks     []checkJSON                  `json:"checks"`
	Probes     map[string]*ProbeLine        `json:"probes,omitempty"` // by patch
	Provenance map[string]map[string]string `json:"provenance"`
	Artifacts  []artifactJSON               `json:"artifacts"`
	Events     []eventJSON                  `json:"events"`
	Samples    []sampleJSON                 `json:"samples"`
	LogTail    []string                     `json:"log_tail,omitempty"` // of a failed run: last lines of the server's log
}

type metricJSON struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit"`
	Value  *float64 `json:"value"`
	N      int      `json:"n"`
	Source string   `json:"source"`
}

type labelJSON struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

type checkJSON struct {
	Name        string   `json:"name"`
	Outcome     string   `json:"outcome"`
	Left        *float64 `json:"left"`
	Right       *float64 `json:"right"`
	Explanation string   `json:"explanation"`
}

type artifactJSON struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

type eventJSON struct {
	Seq      int64           `json:"seq"`
	Run      string          `json:"run,omitempty"`
	At       string          `json:"at"`
	Step     string          `json:"step"`
	Kind     string          `json:"kind"`
	Evidence json.RawMessage `json:"evidence,omitempty"`
}

type sampleJSON struct {
	Seq    int               `json:"seq"`
	At     string            `json:"at,omitempty"`
	Name   string            `json:"name"`
	Unit   string            `json:"unit"`
	Value  *float64          `json:"value"`
	Source string            `json:"source"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Detail gives the JSON of one run. Empty lists are [], not null. Of the options
// LogTail and Probe count.
func Detail(v record.RunView, o Options) RunDetail {
	d := RunDetail{RunHead: headOf(v.Run, v.Cell, v.Slot, v.Sweep.ID, v.Sweep.Name, v.Sweep.Kind), Launch: v.Launch.ID,
		Argv: v.Launch.Argv, Identity: v.Launch.Identity, Slope: contextSlope(v.Data.Samples), ByBatch: byBatch(v.Data.Samples),
		Metrics: []metricJSON{}, Labels: []labelJSON{}, Checks: []checkJSON{}, Provenance: map[string]map[string]string{},
		Artifacts: []artifactJSON{}, Events: []eventJSON{}, Samples: []sampleJSON{}, LogTail: o.LogTail}
	_, d.Probes = costs(v, o)
	if d.Argv == nil {
		d.Argv = []string{}
	}
	for _, m := range v.Data.Metrics {
		d.Metrics = append(d.Metrics, metricJSON{m.Name, m.Unit, finite(m.Value), m.N, m.Source})
	}
	for _, l := range v.Data.Labels {
		d.Labels = append(d.Labels, labelJSON{l.Name, l.Reason})
	}
	for _, c := range v.Data.Checks {
		d.Checks = append(d.Checks, checkJSON{c.Name, string(c.Outcome), finite(c.Left), finite(c.Right), c.Explanation})
	}
	for _, f := range v.Data.Provenance {
		if d.Provenance[f.Group] == nil {
			d.Provenance[f.Group] = map[string]string{}
		}
		value := f.Value
		if was, ok := d.Provenance[f.Group][f.Key]; ok { // a key given several times keeps all its values
			value = was + "\n" + value
		}
		d.Provenance[f.Group][f.Key] = value
	}
	for _, a := range v.Artifacts {
		d.Artifacts = append(d.Artifacts, artifactJSON{a.Name, a.Path, a.SHA256, a.Bytes})
	}
	for _, e := range v.Events {
		d.Events = append(d.Events, eventJSON{e.Seq, e.RunID, precise(e.AtUs), e.Step, string(e.Kind), e.Evidence})
	}
	for _, s := range v.Data.Samples {
		line := sampleJSON{Seq: s.Seq, Name: s.Name, Unit: s.Unit, Value: finite(s.Value), Source: s.Source, Labels: s.Labels}
		if s.AtUs != 0 {
			line.At = precise(s.AtUs)
		}
		d.Samples = append(d.Samples, line)
	}
	return d
}

// WriteRun writes one run for people: what speaks against its numbers, the
// numbers, and where they come from. Samples and events are left to --json.
func WriteRun(w io.Writer, v record.RunView, o Options) error {
	var b strings.Builder
	if err := runHeadGrid(v).write(&b); err != nil {
		return err
	}
	if reason := strings.TrimSpace(v.Run.Reason); reason != "" {
		lines := strings.Split(reason, "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], "\r")
		}
		writeText(&b, "reason", lines)
	}
	if len(o.LogTail) > 0 {
		writeText(&b, "end of the server's log", o.LogTail)
	}
	for _, s := range runSections(v, o) {
		if err := s.write(&b); err != nil {
			return err
		}
	}
	if err := writeProvenance(&b, v.Data.Provenance, o.All); err != nil {
		return err
	}
	if err := keptFiles(v.Artifacts).write(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// runHeadGrid says which run it is and how it ended.
func runHeadGrid(v record.RunView) *grid {
	head := &grid{}
	head.add("run", plain(v.Run.ID))
	head.add("sweep", fmt.Sprintf("%s (%s, %s)", plain(v.Sweep.ID), plain(v.Sweep.Name), v.Sweep.Kind))
	head.add("cell", allParams(v.Cell))
	head.add("round", fmt.Sprintf("%d, repeat %d, attempt %d", v.Slot.Round+1, v.Slot.Repeat+1, v.Run.Attempt))
	if v.Run.Host != "" {
		head.add("host", plain(v.Run.Host))
	}
	head.add("state", stateText(v.Run, ": "))
	if v.Run.EndUs > v.Run.StartUs && v.Run.StartUs > 0 {
		took := time.Duration(v.Run.EndUs-v.Run.StartUs) * time.Microsecond
		head.add("begun", fmt.Sprintf("%s, took %s", stamp(v.Run.StartUs), took.Round(100*time.Millisecond)))
	} else if v.Run.StartUs > 0 {
		head.add("begun", stamp(v.Run.StartUs))
	}
	return head
}

// section is a titled table; without rows nothing is written of it.
type section struct {
	title string
	grid
}

func (s section) write(b *strings.Builder) error {
	if len(s.rows) == 0 {
		return nil
	}
	b.WriteString("\n" + s.title + "\n")
	return s.grid.write(b)
}

func writeText(b *strings.Builder, title string, lines []string) {
	b.WriteString("\n" + title + "\n")
	for _, line := range lines {
		b.WriteString("  " + plain(line) + "\n")
	}
}

// runSections are the tables of a run, what speaks against its numbers first.
func runSections(v record.RunView, o Options) []section {
	metrics := grid{right: []bool{false, true}}
	for _, m := range v.Data.Metrics {
		metrics.add("  "+plain(m.Name), number(m.Value, m.Unit), plain(m.Unit), fmt.Sprintf("n=%d", m.N), plain(m.Source))
	}
	labels := grid{}
	for _, l := range v.Data.Labels {
		advice := ""
		if o.Advice != nil && o.Advice(l.Name) != "" {
			advice = "-> " + o.Advice(l.Name)
		}
		labels.add("  "+plain(l.Name), plain(l.Reason), advice)
	}
	bad, checks := grid{}, grid{}
	for _, c := range v.Data.Checks {
		if c.Outcome == record.Fail {
			bad.add("  "+plain(c.Name), plain(c.Explanation))
		} else {
			checks.add("  "+string(c.Outcome), plain(c.Name), plain(c.Explanation))
		}
	}
	measured := measuredSection(v.Data)
	lines, _ := costs(v, o)
	for _, line := range lines {
		measured.add("  patch", line)
	}
	return []section{{"failed checks", bad}, {"labels", labels}, {"how it was measured", measured},
		{"metrics", metrics}, {"by batch size", batchSection(v.Data)}, {"checks", checks}}
}

func keptFiles(as []record.Artifact) section {
	s := section{title: "kept files"}
	for _, a := range as {
		s.add("  "+plain(a.Name), fmt.Sprintf("%d bytes", a.Bytes), plain(a.Path))
	}
	return s
}

// writeProvenance writes the facts by group, each with columns of its own, so
// that one long key widens no other. Facts without a value are counted only,
// unless all are wanted: an engine has many flags that nobody set.
func writeProvenance(b *strings.Builder, facts []record.Fact, all bool) error {
	if len(facts) == 0 {
		return nil
	}
	b.WriteString("\nprovenance\n")
	hidden := 0
	var g grid
	flush := func() error {
		err := g.write(b)
		g = grid{}
		return err
	}
	group := ""
	for _, f := range byGroup(facts) {
		if !all && (f.Value == "null" || f.Value == "None") {
			hidden++
			continue
		}
		if f.Group != group {
			if err := flush(); err != nil {
				return err
			}
			group = f.Group
		}
		g.add("  "+plain(f.Group), plain(f.Key), plain(f.Value))
	}
	if err := flush(); err != nil {
		return err
	}
	if hidden > 0 {
		fmt.Fprintf(b, "  and %s without a value (-v)\n", plural(hidden, "fact"))
	}
	return nil
}

// byGroup sorts facts by group, likely causes of a difference first, and key.
func byGroup(facts []record.Fact) []record.Fact {
	out := slices.Clone(facts)
	slices.SortStableFunc(out, func(a, b record.Fact) int {
		if c := compareGroups(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	return out
}
