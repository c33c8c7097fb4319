package store

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"

	"specrun/experiments/record"
)

var contentHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ProbesOf gives the ids of the newest finished probes of a patch of this content
// (SHA-256 in lower-case hex) on the host, at most so many, the newest first; none
// of what is no content hash.
func (s *Store) ProbesOf(ctx context.Context, patchSHA, host string, most int) (ids []string, err error) {
	if !contentHash.MatchString(patchSHA) {
		return nil, nil // and it must not be taken for a pattern
	}
	err = s.read(ctx, func(tx *sql.Tx) (err error) {
		// The plan is the one place that names the patch for certain: provenance
		// is of runs, and for people.
		ids, err = collect(ctx, tx, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) },
			`SELECT sweep.id FROM sweep WHERE sweep.kind = 'probe' AND sweep.state = $1 AND sweep.plan LIKE $2
			AND EXISTS (SELECT 1 FROM launch WHERE launch.sweep_id = sweep.id AND launch.host = $3)
			ORDER BY sweep.ord DESC LIMIT $4`, string(record.SweepDone), `%"sha256":"`+patchSHA+`"%`, host, most)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("probes of %.12s on %s: %w", patchSHA, host, err)
	}
	return ids, nil
}
