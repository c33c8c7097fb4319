package store

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"

	"specrun/experiments/record"
)

var contentHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// LatestProbe reads the newest finished probe of a patch of this content
// (SHA-256 in lower-case hex) on the host; ok is false when there is none, and of
// what is no content hash.
func (s *Store) LatestProbe(ctx context.Context, patchSHA, host string) (v record.SweepView, ok bool, err error) {
	if !contentHash.MatchString(patchSHA) {
		return v, false, nil // and it must not be taken for a pattern
	}
	var ids []string
	err = s.read(ctx, func(tx *sql.Tx) (err error) {
		// The plan is the one place that names the patch for certain: provenance
		// is of runs, and for people.
		ids, err = collect(ctx, tx, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) },
			`SELECT sweep.id FROM sweep WHERE sweep.kind = 'probe' AND sweep.state = $1 AND sweep.plan LIKE $2
			AND EXISTS (SELECT 1 FROM launch WHERE launch.sweep_id = sweep.id AND launch.host = $3)
			ORDER BY sweep.ord DESC LIMIT 1`, string(record.SweepDone), `%"sha256":"`+patchSHA+`"%`, host)
		return err
	})
	if err != nil {
		return v, false, fmt.Errorf("latest probe of %.12s on %s: %w", patchSHA, host, err)
	}
	if len(ids) == 0 {
		return v, false, nil
	}
	v, err = s.View(ctx, ids[0])
	return v, err == nil, err
}
