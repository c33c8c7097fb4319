package experiments

import (
	"encoding/json"
	"fmt"
	"strings"

	"specrun/experiments/stats"
)

// oneBest says why the best cell of a plan cannot be what a sweep goes on with:
// each load has a best cell of its own, and a larger load would win over all
// others by its tok/s alone. Where all cells have one server there is no choice.
func (e *Experiment) oneBest(after After) error {
	field, hint := "", ""
	switch {
	case after == AfterBest:
		field, hint = "after", "leave after: best out, and start the best server of the load that counts afterwards (specrun server start KEY=VALUE)"
	case len(e.Quotes) > 0:
		field, hint = "bench.quotable", "leave bench.quotable out, and measure the best cell of each load afterwards (specrun run KEY=VALUE patches=none)"
	default:
		return nil
	}
	loads, err := loadNames(e.Cells)
	if err != nil || len(loads) < 2 {
		return err
	}
	servers := map[string]bool{}
	for _, c := range e.Cells {
		c.Server = withoutProfilers(c.Server)
		key, err := serverKey(c)
		if err != nil {
			return err
		}
		servers[key] = true
	}
	if len(servers) < 2 {
		return nil
	}
	return &SpecError{File: e.Spec.File, Field: field,
		Msg:    fmt.Sprintf("which cell is the best is another question for each load, and the cells have %d: %s", len(loads), strings.Join(loads, ", ")),
		Advice: "sweep one load at a time; or " + hint}
}

// loadNames are the loads of cells, each by the settings in which they differ, in
// the order of the cells.
func loadNames(cells []Cell) ([]string, error) {
	of := make([]map[string]string, len(cells))
	values := map[string]map[string]bool{}
	for i, c := range cells {
		text, err := plainJSON(c.Bench)
		if err != nil {
			return nil, fmt.Errorf("benchmark of a cell: %w", err)
		}
		var bench map[string]json.RawMessage
		if err := json.Unmarshal(text, &bench); err != nil {
			return nil, fmt.Errorf("benchmark of a cell: %w", err)
		}
		of[i] = map[string]string{}
		for _, key := range stats.LoadKeys() {
			of[i][key] = strings.Trim(string(bench[key]), `"`)
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			values[key][of[i][key]] = true
		}
	}
	var names []string
	seen := map[string]bool{}
	for _, bench := range of {
		var parts []string
		for _, key := range stats.LoadKeys() {
			if len(values[key]) > 1 {
				parts = append(parts, key+"="+bench[key])
			}
		}
		if name := strings.Join(parts, " "); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, nil
}
