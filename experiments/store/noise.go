package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"specrun/experiments/record"
)

// noiseOf bounds how many launches are remembered: a host changes.
const noiseOf = 200

// LaunchNoise reads what launches of the experiment measured on the host: the
// values of the runs that are done, by launch, and these by cell of one sweep, the
// newest sweep first. Only cells with two launches or more are
// there, of sweeps, A/A sweeps and probes, and only what one source measured: the
// one that has most. Only sweeps that were created before that time (microseconds
// since the epoch) count, so that what is said of a sweep neither rests on the
// sweep itself nor changes with those after it. No group means that nothing is
// remembered.
func (s *Store) LaunchNoise(ctx context.Context, host, experiment, metric string, beforeUs int64) ([][][]float64, error) {
	return s.launchNoise(ctx, host, experiment, metric, beforeUs, noiseOf)
}

func (s *Store) launchNoise(ctx context.Context, host, experiment, metric string, beforeUs int64, newest int) ([][][]float64, error) {
	type reading struct {
		cell, launch, source string
		value                sql.NullFloat64
		special              string
	}
	var all []reading
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		all, err = collect(ctx, tx, func(rows *sql.Rows) (r reading, err error) {
			return r, rows.Scan(&r.cell, &r.launch, &r.source, &r.value, &r.special)
		}, `SELECT slot.cell_id, launch.id, metric.source, metric.value, metric.value_special
			FROM launch JOIN run ON run.launch_id = launch.id AND run.state = $1
			JOIN slot ON slot.id = run.slot_id JOIN metric ON metric.run_id = run.id AND metric.name = $2
			WHERE launch.id IN (SELECT launch.id FROM launch JOIN sweep ON sweep.id = launch.sweep_id
				WHERE launch.host = $3 AND sweep.name = $4 AND launch.state = $5 AND sweep.kind IN ('sweep', 'aa', 'probe')
				AND sweep.created_us < $7
				ORDER BY launch.ord DESC LIMIT $6)
			ORDER BY launch.ord DESC, run.ord`,
			string(record.RunDone), metric, host, experiment, string(record.LaunchDone), newest, beforeUs)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("noise of %s on %s: %w", experiment, host, err)
	}
	count := map[string]int{}
	for _, r := range all {
		count[r.source]++
	}
	source := ""
	for s, n := range count {
		if source == "" || cmp.Or(cmp.Compare(n, count[source]), cmp.Compare(source, s)) > 0 {
			source = s
		}
	}
	var cells []string
	launches := map[string][]string{} // by cell
	values := map[[2]string][]float64{}
	for _, r := range all {
		if r.source != source || !r.value.Valid || r.special != "" {
			continue
		}
		if !slices.Contains(cells, r.cell) {
			cells = append(cells, r.cell)
		}
		key := [2]string{r.cell, r.launch}
		if values[key] == nil {
			launches[r.cell] = append(launches[r.cell], r.launch)
		}
		values[key] = append(values[key], r.value.Float64)
	}
	var groups [][][]float64
	for _, cell := range cells {
		if len(launches[cell]) < 2 {
			continue
		}
		var group [][]float64
		for _, launch := range launches[cell] {
			group = append(group, values[[2]string{cell, launch}])
		}
		groups = append(groups, group)
	}
	return groups, nil
}
