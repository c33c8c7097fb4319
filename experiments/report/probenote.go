package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"specrun/experiments/record"
)

// probeSync is the kind of a patch that waits for the device, and so certainly
// costs something.
const probeSync = "sync"

// patchesOf are the patches of a row, as planned.
func (s *Summary) patchesOf(row *CellRow) []plannedPatch {
	for _, c := range s.plan.Cells {
		if c.Ord == row.cell.Ord {
			return c.Server.Patches
		}
	}
	return nil // an import, or a quotable row, which has none
}

// probes sets for each row what its patches cost on the host, as far as a probe
// has found out.
func (s *Summary) probes() {
	for i := range s.Cells {
		row := &s.Cells[i]
		for _, p := range s.patchesOf(row) {
			if line := s.probeOf(p); row.Probe == nil && line != nil && line.unlike(s.done(row)) == "" {
				row.Probe = line
			}
		}
	}
}

// probeOf is the newest probe of a patch on the host; nil when there is none.
func (s *Summary) probeOf(p plannedPatch) *ProbeLine {
	if s.options.Probe == nil {
		return nil
	}
	return s.options.Probe(p.SHA256, s.plan.Host.Name)
}

// Conclusive says that the probe found out whether the patch costs something.
func (l ProbeLine) Conclusive() bool { return l.Verdict == Negligible || l.Verdict == Distorts }

// BestProbe is the probe of a patch to be quoted, of several, the newest first:
// the newest that found something out, of the same cell, engine and model as the
// newest of all; else that. Nil when there is none.
func BestProbe(lines []ProbeLine) *ProbeLine {
	for i := range lines {
		l, newest := &lines[i], &lines[0]
		if l.Conclusive() && l.Engine == newest.Engine && l.Model == newest.Model && l.cell() == newest.cell() {
			return l
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return &lines[0]
}

// unlike says in what runs differ from what the probe measured, so that the patch
// may cost something else in them: the engine's version or the model. "" when they
// do not, or that is not known.
func (l *ProbeLine) unlike(runs []record.RunData) string {
	for _, what := range []struct{ word, probed, group, key string }{{"engine", l.Engine, "code", "engine_version"}, {"model", l.Model, "workload", "model"}} {
		mine := factValues(runs, what.group, what.key)
		if what.probed != "" && len(mine) > 0 && !slices.Contains(mine, what.probed) {
			return fmt.Sprintf("%s %s, not %s", what.word, what.probed, strings.Join(mine, " or "))
		}
	}
	return ""
}

// probeNotes says of each patch that took part what it costs, or how to find out
// when it certainly costs something.
func (s *Summary) probeNotes() []string {
	var out, seen []string
	for i := range s.Cells {
		row := &s.Cells[i]
		if row.Runs == 0 {
			continue
		}
		for _, p := range s.patchesOf(row) {
			if slices.Contains(seen, p.SHA256) {
				continue
			}
			seen = append(seen, p.SHA256)
			line := s.probeOf(p)
			unlike := ""
			if line != nil {
				unlike = line.unlike(s.done(row))
			}
			advice := "specrun probe " + plain(cmp.Or(p.Folder, p.Name))
			switch {
			case unlike != "":
				out = append(out, fmt.Sprintf("%s was probed with %s (%s): what it costs now is not known -> %s", plain(p.Name), plain(unlike), line.from(), advice))
			case line != nil:
				out = append(out, line.Cost())
			case p.Probe == probeSync:
				out = append(out, fmt.Sprintf("%s waits for the GPU; what that costs here is not known -> %s", plain(p.Name), advice))
			}
		}
	}
	return out
}

// from names the probe and its day.
func (l ProbeLine) from() string {
	day, _, dated := strings.Cut(l.At, "T")
	if !dated {
		return "probe " + plain(l.Sweep)
	}
	return fmt.Sprintf("probe %s of %s", plain(l.Sweep), day)
}

// Cost is what the patch costs, in a phrase.
func (l ProbeLine) Cost() string {
	at := "here" + strings.Replace(l.cell(), ", ", " at ", 1)
	from := "(" + l.from() + ")"
	if l.Ratio == nil {
		return fmt.Sprintf("what %s costs %s is unclear: no pair of launches could be compared %s", plain(l.Patch), at, from)
	}
	change := *l.Ratio - 1
	interval := ""
	if l.Lo != nil && l.Hi != nil {
		interval = fmt.Sprintf(" (%.1f..%.1f)", 100*(*l.Lo-1), 100*(*l.Hi-1))
	}
	switch {
	case l.Verdict == Negligible:
		return fmt.Sprintf("%s costs less than %.0f %% a token %s: %s%s %s", plain(l.Patch), 100*probeTolerance, at, signedPercent(change), interval, from)
	case l.Verdict == Unclear:
		return fmt.Sprintf("what %s costs %s is unclear: %s a token%s %s", plain(l.Patch), at, signedPercent(change), interval, from)
	case change < 0:
		return fmt.Sprintf("with %s a token takes %s%s less time %s %s", plain(l.Patch), percent(math.Abs(change)), interval, at, from)
	}
	return fmt.Sprintf("%s costs %s%s a token %s %s", plain(l.Patch), percent(change), interval, at, from)
}
