package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"specrun/experiments/record"
)

// Durations are what launches and runs of one experiment took on one host.
type Durations struct {
	// Launch is the median time of a launch outside its runs: from its begin until
	// the server was ready, and from its last run until it was stopped.
	Launch   time.Duration
	Launches int           // that the median is of; 0 = none
	Run      time.Duration // median, warm-up included
	Runs     int
}

// durationsOf bounds how many launches and runs count: the latest tell best.
const durationsOf = 100

// Durations reads what launches and runs of the experiment took on the host.
// Only those that came to their end count.
func (s *Store) Durations(ctx context.Context, experiment, host string) (Durations, error) {
	var launches, runs []int64 // microseconds
	one := func(rows *sql.Rows) (us int64, err error) { return us, rows.Scan(&us) }
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		launches, err = collect(ctx, tx, one, `SELECT MAX(event.at_us) - MIN(event.at_us)
			- (SELECT COALESCE(SUM(run.end_us - run.start_us), 0) FROM run WHERE run.launch_id = launch.id)
			FROM launch JOIN sweep ON sweep.id = launch.sweep_id
			JOIN event ON event.launch_id = launch.id AND event.step = 'launch'
			WHERE sweep.name = $1 AND launch.host = $2 AND launch.state = $3
			AND NOT EXISTS (SELECT 1 FROM run WHERE run.launch_id = launch.id AND run.end_us = 0)
			GROUP BY launch.id ORDER BY launch.ord DESC LIMIT $4`, experiment, host, string(record.LaunchDone), durationsOf)
		if err != nil {
			return err
		}
		runs, err = collect(ctx, tx, one, `SELECT run.end_us - run.start_us
			FROM run JOIN launch ON launch.id = run.launch_id JOIN sweep ON sweep.id = launch.sweep_id
			WHERE sweep.name = $1 AND run.host = $2 AND run.state = $3
			ORDER BY run.ord DESC LIMIT $4`, experiment, host, string(record.RunDone), durationsOf)
		return err
	})
	if err != nil {
		return Durations{}, fmt.Errorf("durations of %s on %s: %w", experiment, host, err)
	}
	return Durations{Launch: medianUs(launches), Launches: len(launches), Run: medianUs(runs), Runs: len(runs)}, nil
}

// medianUs is the middle one, the lower of two; 0 of none.
func medianUs(us []int64) time.Duration {
	if len(us) == 0 {
		return 0
	}
	slices.Sort(us)
	return time.Duration(us[(len(us)-1)/2]) * time.Microsecond
}
