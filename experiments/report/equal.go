package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// EqualValues are the numbers of a cell over the positions that all ranked cells
// have.
type EqualValues struct {
	Tokens  float64                `json:"tokens"` // of a request, compared
	Of      float64                `json:"of"`     // of a request of this cell
	Metrics map[string]MetricValue `json:"metrics"`
}

// done are the runs of a row that have numbers.
func (s *Summary) done(row *CellRow) []record.RunData {
	var out []record.RunData
	for _, r := range s.runs[row.cell.ID] {
		if r.State == record.RunDone {
			out = append(out, s.data[r.ID])
		}
	}
	return out
}

// common finds the positions that all runs of rows have.
func (s *Summary) common(rows ...*CellRow) stats.Positions {
	var samples [][]record.Sample
	for _, row := range rows {
		for _, d := range s.done(row) {
			samples = append(samples, d.Samples)
		}
	}
	return stats.CommonPositions(samples...)
}

// over is a row over positions: the row itself where they are all it has. What
// depends on the length of outputs and cannot be had for them is left out.
func (s *Summary) over(row *CellRow, p stats.Positions) *CellRow {
	if !p.Unequal {
		return row
	}
	data := map[string]record.RunData{}
	for _, r := range s.runs[row.cell.ID] {
		if r.State == record.RunDone {
			data[r.ID] = record.RunData{Metrics: p.Over(s.data[r.ID])}
		}
	}
	out := &CellRow{Params: row.Params, Baseline: row.Baseline, cell: row.cell, name: row.name}
	out.fill(s.runs[row.cell.ID], s.slotOf, data)
	return out
}

// ranked is the row whose numbers rank.
func (row *CellRow) ranked() *CellRow {
	if row.equal != nil {
		return row.equal
	}
	return row
}

// value is the objective of a row as it is ranked.
func (s *Summary) value(row *CellRow) (MetricValue, bool) {
	m, ok := row.ranked().Metrics[s.Objective]
	return m, ok
}

// equalize shows rows as they are ranked, on equal positions, and says why when
// that changes their numbers. Where the objective cannot be had over them the
// rows stay as they are, and the caveat says so.
func (s *Summary) equalize(rows []*CellRow, r stats.Ranking) (caveat string) {
	with := slices.Clone(rows)
	for _, row := range rows {
		if base := s.baselineOf(row); base != nil && !slices.Contains(with, base) {
			with = append(with, base)
		}
	}
	s.positions = r.Positions
	lengths := s.lengths(with)
	if !s.positions.Unequal {
		if lengths.felt && len(s.positions.Tokens) == 0 {
			s.remarks = append(s.remarks, lengths.text+", and their positions are not known: shorter outputs may look faster for that alone")
			return "outputs are not equally long"
		}
		return ""
	}
	if !r.Equal {
		s.remarks = append(s.remarks, fmt.Sprintf("%s, and %s cannot be had over equal positions: shorter outputs may look better for that alone", lengths.text, s.Objective))
		return "outputs are not equally long"
	}
	equal := map[*CellRow]*CellRow{}
	for _, row := range with {
		equal[row] = s.over(row, s.positions)
	}
	tokens := perRequest(s.positions)
	for row, over := range equal {
		row.equal = over
		row.Equal = &EqualValues{Tokens: tokens, Of: requestTokens(s.done(row)), Metrics: map[string]MetricValue{}}
		for name, m := range over.Metrics {
			if stats.OfLength(name) {
				row.Equal.Metrics[name] = m
			}
		}
	}
	over := "the positions that all have"
	if lengths.felt {
		over = fmt.Sprintf("the first %.0f", tokens)
	}
	s.remarks = append(s.remarks, fmt.Sprintf("%s: compared over %s; the columns show whole outputs", lengths.text, over))
	return ""
}

// perRequest is how many tokens of a request positions hold on average.
func perRequest(p stats.Positions) float64 {
	sum := 0
	for _, n := range p.Tokens {
		sum += n + 1
	}
	return float64(sum) / float64(max(1, len(p.Tokens)))
}

// feltLength is from which difference on the length of outputs is worth a name.
const feltLength = 0.02

type lengths struct {
	text string
	felt bool // some cell's outputs are shorter by more than feltLength
}

// lengths says which cells have shorter outputs than the longest.
func (s *Summary) lengths(rows []*CellRow) lengths {
	longest := 0.0
	tokens := make([]float64, len(rows))
	for i, row := range rows {
		tokens[i] = requestTokens(s.done(row))
		longest = math.Max(longest, tokens[i])
	}
	byText := map[string][]string{}
	var order []string
	for i, row := range rows {
		change := tokens[i]/longest - 1
		if tokens[i] == 0 || -change <= feltLength {
			continue
		}
		text := fmt.Sprintf("%s (%.0f of %.0f tokens)", howLong(change), tokens[i], longest)
		if byText[text] == nil {
			order = append(order, text)
		}
		byText[text] = append(byText[text], row.name)
	}
	const most = 3
	switch {
	case len(order) == 0:
		return lengths{text: "some outputs differ in length"}
	case len(order) > most:
		return lengths{fmt.Sprintf("outputs are %.0f to %.0f tokens long", slices.Min(tokens), longest), true}
	}
	var parts []string
	for _, text := range order {
		parts = append(parts, cellsText(byText[text])+" are "+text)
	}
	return lengths{"outputs of " + strings.Join(parts, ", of "), true}
}
