package report

import (
	"fmt"
	"maps"
	"slices"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// paired is a cell of both sides in numbers.
type paired struct {
	pair
	left, right  []record.RunData
	rowA, rowB   CellRow
	flags        []string
	sources      bySource
	positions    stats.Positions
	tokA, tokB   float64  // output tokens of a request, as the positions tell
	shapesDiffer bool     // other steps: a cycle is other work
	hosts        []string // of both sides, each once
}

// remembered is the noise between launches that memory has of the hosts of a
// pair: the largest. Nil is no memory.
func (r *paired) remembered(metric string, o CompareOptions) *stats.Noise {
	if o.Noise == nil {
		return nil
	}
	var most *stats.Noise
	for _, host := range r.hosts {
		if n := o.Noise(host, metric); n != nil && n.SD > 0 && (most == nil || n.SD > most.SD) {
			most = n
		}
	}
	return most
}

// pair reduces the runs of a cell to what both sides have in common.
func (c *Comparison) pair(p pair) *paired {
	r := &paired{pair: p}
	r.left, r.right = c.A.done(p.a), c.B.done(p.b)
	var samples [][]record.Sample
	for _, d := range slices.Concat(r.left, r.right) {
		samples = append(samples, d.Samples)
	}
	r.positions = stats.CommonPositions(samples...)
	r.tokA, r.tokB = requestTokens(r.left), requestTokens(r.right)
	if len(r.left) == 0 || len(r.right) == 0 { // nothing to compare, and of failed runs little is known
		return r
	}
	r.sources = commonSources(r.left, r.right)
	r.rowA, r.rowB = c.A.row(p.a, r.positions, r.sources), c.B.row(p.b, r.positions, r.sources)
	c.noteSource(r)
	stepsA, stepsB := steps(p.a, c.A.runsOf(p.a), c.A.View.Data), steps(p.b, c.B.runsOf(p.b), c.B.View.Data)
	r.shapesDiffer = stepsA != "" && stepsB != "" && stepsA != stepsB
	hosts, hostsB := c.A.hosts(p.a), c.B.hosts(p.b)
	r.hosts = slices.Compact(slices.Sorted(slices.Values(slices.Concat(hosts, hostsB))))
	_, totalA := r.rowA.Metrics["cycle_total"]
	_, totalB := r.rowB.Metrics["cycle_total"]
	r.flags = flagsOf(r.left, r.right, hosts, hostsB, totalA && totalB)
	if totalA && totalB {
		switch {
		case stepsA == "" && stepsB == "":
			r.flags = append(r.flags, "a and b: the speculative steps are not known: TOTAL may be of other work")
		case stepsA == "":
			r.flags = append(r.flags, "a: the speculative steps are not known: TOTAL may be of other work")
		case stepsB == "":
			r.flags = append(r.flags, "b: the speculative steps are not known: TOTAL may be of other work")
		}
	}
	for _, side := range []struct {
		letter string
		cell   record.Cell
		runs   int
	}{{"a", p.a, len(r.left)}, {"b", p.b, len(r.right)}} {
		if side.cell.Params[paramFlags] == notRecorded && side.runs > 1 {
			r.flags = append(r.flags, fmt.Sprintf("%s: how the server was started is not recorded: its %d starts count as launches of one cell", side.letter, side.runs))
		}
	}
	for _, f := range r.flags {
		c.flag(f)
	}
	return r
}

// noteSource says by whom the accept length is compared, where a side alone shows
// it by another.
func (c *Comparison) noteSource(r *paired) {
	used := r.rowA.sources[acceptLen]
	if used == "" || used != r.rowB.sources[acceptLen] {
		return
	}
	alone := [2]string{c.A.row(r.a, r.positions, nil).sources[acceptLen], c.B.row(r.b, r.positions, nil).sources[acceptLen]}
	for i, letter := range []string{"a", "b"} {
		if alone[i] != used {
			c.note("accept len: by %s, which both sides have; %s alone has it by %s too", sourceText(used), letter, sourceText(alone[i]))
		}
	}
}

// done are the runs of a cell that have numbers.
func (s *Side) done(cell record.Cell) (out []record.RunData) {
	for _, r := range s.runsOf(cell) {
		if r.State == record.RunDone {
			out = append(out, s.View.Data[r.ID])
		}
	}
	return out
}

// bySource are the sources of each metric that both sides of a pair have.
type bySource map[string]map[string]bool

// commonSources finds what all sides have of each metric, so that a number of the
// profiler is never compared with one of the client.
func commonSources(sides ...[]record.RunData) bySource {
	var common bySource
	for _, runs := range sides {
		of := bySource{}
		for _, d := range runs {
			for _, m := range d.Metrics {
				if of[m.Name] == nil {
					of[m.Name] = map[string]bool{}
				}
				of[m.Name][m.Source] = true
			}
		}
		if common == nil {
			common = of
			continue
		}
		for name, sources := range common {
			maps.DeleteFunc(sources, func(source string, _ bool) bool { return !of[name][source] })
		}
	}
	return common
}

// mixed says that a metric has no source in common, nil being no pair.
func (s bySource) mixed(name string) bool { return s != nil && len(s[name]) == 0 }

func (s bySource) keep(ms []record.Metric) []record.Metric {
	if s == nil {
		return ms
	}
	return slices.DeleteFunc(slices.Clone(ms), func(m record.Metric) bool { return !s.mixed(m.Name) && !s[m.Name][m.Source] })
}

// row is a cell in numbers, over the positions that all runs of a comparison have
// and from sources that both sides have. Where the positions are not the whole
// run, metrics that cannot be had for them are left out.
func (s *Side) row(cell record.Cell, p stats.Positions, common bySource) CellRow {
	slotOf := map[string]record.Slot{}
	for _, sl := range s.View.Slots {
		slotOf[sl.ID] = sl
	}
	runs, data := s.runsOf(cell), map[string]record.RunData{}
	for _, r := range runs {
		d := s.View.Data[r.ID]
		if p.Unequal {
			d.Metrics = p.Over(d)
		}
		data[r.ID] = record.RunData{Metrics: common.keep(d.Metrics)}
	}
	row := CellRow{Params: cell.Params, Baseline: cell.Baseline, cell: cell}
	row.fill(runs, slotOf, data)
	return row
}

// requestTokens is how many tokens the outputs of runs have on average; 0 when
// that is not known.
func requestTokens(runs []record.RunData) float64 {
	var all []float64
	for _, d := range runs {
		if p := stats.CommonPositions(d.Samples); len(p.Tokens) > 0 {
			all = append(all, float64(p.Most)/float64(len(p.Tokens)))
			continue
		}
		total, completed := 0.0, 0.0
		for _, m := range d.Metrics {
			switch m.Name {
			case "total_output_tokens":
				total = m.Value
			case "completed":
				completed = m.Value
			}
		}
		if total > 0 && completed > 0 {
			all = append(all, total/completed)
		}
	}
	if m := stats.Median(all); m > 0 {
		return m
	}
	return 0
}

// whole is the side with all cells and runs of its sweep.
func (s *Side) whole() *Side {
	w := *s
	w.Cells, w.Run = nil, ""
	return &w
}
