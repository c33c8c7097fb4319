package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// acceptLen is the metric that up to three count, each in its own way: a profiler
// its cycles, the requests their tokens, the server a window of steps.
const acceptLen = "accept_len"

// oneSource leaves of a metric the numbers of one source, the nearest of those that
// every row with that metric has in all its runs, so that a column of the table
// counts one way. Where there is no such source it says which row has which.
func (s *Summary) oneSource(metric string, cells []record.Cell) {
	var common map[string]bool
	for _, c := range cells {
		of := s.sourcesOf(metric, c)
		switch {
		case len(of) == 0:
		case common == nil:
			common = of
		default:
			maps.DeleteFunc(common, func(source string, _ bool) bool { return !of[source] })
		}
	}
	if len(common) == 0 {
		if common != nil {
			s.mixedSource = metric
		}
		return
	}
	chosen := slices.SortedFunc(maps.Keys(common), stats.NearerSource)[0]
	data := maps.Clone(s.data)
	for id, d := range data {
		d.Metrics = slices.DeleteFunc(slices.Clone(d.Metrics), func(m record.Metric) bool { return m.Name == metric && m.Source != chosen })
		data[id] = d
	}
	s.data = data
}

// sourcesOf are the sources of a metric that all runs of a cell have which have it
// at all.
func (s *Summary) sourcesOf(metric string, cell record.Cell) map[string]bool {
	var out map[string]bool
	for _, r := range s.runs[cell.ID] {
		if r.State != record.RunDone {
			continue
		}
		of := map[string]bool{}
		for _, m := range s.data[r.ID].Metrics {
			if m.Name == metric && finite(m.Value) != nil {
				of[m.Source] = true
			}
		}
		switch {
		case len(of) == 0:
		case out == nil:
			out = of
		default:
			maps.DeleteFunc(out, func(source string, _ bool) bool { return !of[source] })
		}
	}
	return out
}

// mixedNote says which row counts in which way, "" where all do alike.
func (s *Summary) mixedNote() string {
	if s.mixedSource == "" {
		return ""
	}
	by := map[string][]string{}
	for _, row := range s.Cells {
		if source := row.sources[s.mixedSource]; source != "" {
			by[source] = append(by[source], row.name)
		}
	}
	if len(by) < 2 {
		return ""
	}
	var parts []string
	for _, source := range slices.SortedFunc(maps.Keys(by), stats.NearerSource) {
		parts = append(parts, fmt.Sprintf("%s (%s)", sourceText(source), cellsText(by[source])))
	}
	return fmt.Sprintf("%s: counted by %s, which differ for that alone", head(s.mixedSource), strings.Join(parts, ", by "))
}

// sourceText names a source to people.
func sourceText(source string) string { return cmp.Or(sourceWords[source], "the "+source) }
