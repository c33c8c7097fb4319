package experiments

import (
	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// Best is the ord of the plan's cell that a report calls the best, by the same
// rule, see stats.RankCells; a plan that needs one has one load, or one server, see
// Experiment.oneBest. Results of cells that were added later do not count.
// False when there is none. It is pure.
func (p *Plan) Best(results []record.Result) (ord int, ok bool) {
	cells := make([]stats.Candidate, len(p.Cells))
	for i, c := range p.Cells {
		cells[i].Cell = recordCell("", c)
	}
	for _, r := range results {
		if r.Cell.Ord >= len(cells) {
			continue
		}
		c := &cells[r.Cell.Ord]
		c.Facts = append(c.Facts, r.Data.Provenance)
		switch r.Run.State {
		case record.RunFailed:
			c.Failed = true
		case record.RunDone:
			c.Runs = append(c.Runs, stats.CellRun{Launch: r.Run.LaunchID, Round: r.Slot.Round, Data: r.Data})
		}
	}
	best, ok := stats.RankCells(cells, p.Objective).Best()
	if !ok {
		return 0, false
	}
	return p.Cells[best].Ord, true
}
