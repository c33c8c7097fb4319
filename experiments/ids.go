package experiments

import (
	"fmt"

	"specrun/experiments/record"
)

// Ids of cells and slots follow from the sweep's and the plan's numbers, so a
// resumed sweep finds them without asking.

func cellID(sweepID string, ord int) string { return fmt.Sprintf("%s.c%d", sweepID, ord) }

func slotID(sweepID string, ord, round, repeat int) string {
	return fmt.Sprintf("%s.c%d.r%d.p%d", sweepID, ord, round, repeat)
}

// sweepPlan is what begins a sweep in the store.
func sweepPlan(sweepID string, p *Plan, nowUs int64) (record.SweepPlan, error) {
	text, sha, err := p.Encode()
	if err != nil {
		return record.SweepPlan{}, err
	}
	out := record.SweepPlan{Sweep: record.Sweep{ID: sweepID, Name: p.Name, Kind: p.Kind, Spec: p.Spec, Plan: text, PlanSHA: sha,
		State: record.SweepActive, CreatedUs: nowUs}}
	for _, c := range p.Cells {
		out.Cells = append(out.Cells, recordCell(sweepID, c))
	}
	seen := map[string]bool{}
	for _, l := range p.Launches {
		for _, r := range l.Runs {
			id := slotID(sweepID, r.Cell, l.Round, r.Repeat)
			if !seen[id] {
				seen[id] = true
				out.Slots = append(out.Slots, recordSlot(sweepID, l.Round, r))
			}
		}
	}
	return out, nil
}

func recordCell(sweepID string, c Cell) record.Cell {
	return record.Cell{ID: cellID(sweepID, c.Ord), SweepID: sweepID, Ord: c.Ord, Key: c.Key, Params: c.Params, Baseline: c.Baseline}
}

func recordSlot(sweepID string, round int, r PlannedRun) record.Slot {
	return record.Slot{ID: slotID(sweepID, r.Cell, round, r.Repeat), CellID: cellID(sweepID, r.Cell), Round: round, Repeat: r.Repeat}
}
