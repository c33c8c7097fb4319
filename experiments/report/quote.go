package report

import "fmt"

// quotes marks the rows that a quotable sweep measured after its planned ones:
// the best cell without its profiling patches. They are not ranked, since they
// did not take turns with the others.
func (s *Summary) quotes(p plan) {
	s.mayQuote = map[int]bool{}
	for _, q := range p.Quotes {
		s.mayQuote[q.Of] = true
	}
	for i := range s.Cells {
		for _, q := range p.Quotes {
			if s.Cells[i].cell.Ord == q.Cell.Ord {
				s.Cells[i].Quotable = true
				s.Cells[i].quoteOf = q.Of
			}
		}
	}
}

// quotable says what may be quoted: the best cell alone, since another one may
// have been it when a quote was begun. "" when nothing was measured for that.
func (s *Summary) quotable() string {
	if best := s.Best; best >= 0 && len(s.mayQuote) > 0 && !s.mayQuote[s.Cells[best].cell.Ord] {
		m := s.Cells[best].Metrics[s.Objective]
		return fmt.Sprintf("\nquotable: %s, which has no profiling patches (%s)", quoteText(m), s.Cells[best].name)
	}
	other := ""
	for _, row := range s.Cells {
		m, ok := row.Metrics[s.Objective]
		if !row.Quotable || !ok {
			continue
		}
		of, isBest := row.name, false
		for i, r := range s.Cells {
			if r.cell.Ord == row.quoteOf {
				of, isBest = r.name, i == s.Best
			}
		}
		if isBest {
			return fmt.Sprintf("\nquotable: %s without profiling patches (%s)", quoteText(m), of)
		}
		other = of
	}
	if other != "" {
		return fmt.Sprintf("\nnothing is quotable: what was measured without profiling patches (%s) is not the best", other)
	}
	return ""
}

// quoteText is a number as it may be quoted: with its interval and how many
// launches it rests on.
func quoteText(m MetricValue) string {
	t := valueText(map[string]MetricValue{"": m}, "", map[string]bool{}) + " " + m.Unit
	if m.N == 1 {
		return t + " of one launch, so without interval"
	}
	if m.Lo == nil {
		return fmt.Sprintf("%s of %d launches, so without interval", t, m.N)
	}
	return fmt.Sprintf("%s of %d launches", t, m.N)
}
