package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Tag is a name for a sweep, a cell or a run: exactly one of the ids is set.
type Tag struct {
	Name    string
	SweepID string
	CellID  string
	RunID   string
	SetUs   int64
}

// TagNameError says why a text cannot be a tag.
type TagNameError struct{ Name, Reason string }

func (e *TagNameError) Error() string { return fmt.Sprintf("tag %q: %s", e.Name, e.Reason) }

// Hint says what a tag may look like.
func (e *TagNameError) Hint() string {
	return "a tag has letters, digits and . _ - and begins with a letter, such as before-upgrade"
}

var (
	tagName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`)
	// wholeID is what specrun makes ids of. A tag is found before the beginning
	// of an id, so that only a whole one could be hidden by it.
	wholeID = regexp.MustCompile(`^[a-z2-7]{10}$|^imp-`)
)

// SetTag names a sweep, a cell or a run. A tag that exists is moved; was is what
// it named before, nil when it is new. It fails with *TagNameError when the name
// could be taken for an id or another word that commands understand.
func (s *Store) SetTag(ctx context.Context, t Tag) (was *Tag, err error) {
	switch {
	case !tagName.MatchString(t.Name):
		return nil, &TagNameError{t.Name, "not a name that a tag can have"}
	case wholeID.MatchString(t.Name):
		return nil, &TagNameError{t.Name, "looks like an id"}
	case t.Name == "last" || t.Name == "baseline":
		return nil, &TagNameError{t.Name, "has a meaning of its own"}
	}
	t.SetUs = s.now().UnixMicro()
	err = s.write(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"sweep", "run"} {
			ids, err := collect(ctx, tx, scanText, `SELECT id FROM `+table+` WHERE SUBSTR(id, 1, LENGTH($1)) = $1 LIMIT 1`, t.Name)
			if err != nil {
				return err
			}
			if len(ids) > 0 {
				return &TagNameError{t.Name, "is the beginning of the id of " + table + " " + ids[0]}
			}
		}
		old, err := collect(ctx, tx, scanTag, selectTag+` WHERE name = $1`, t.Name)
		if err != nil {
			return err
		}
		if len(old) > 0 {
			was = &old[0]
			_, err = tx.ExecContext(ctx, `UPDATE tag SET sweep_id = $2, cell_id = $3, run_id = $4, set_us = $5 WHERE name = $1`,
				t.Name, orNull(t.SweepID), orNull(t.CellID), orNull(t.RunID), t.SetUs)
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO tag (name, sweep_id, cell_id, run_id, set_us) VALUES ($1, $2, $3, $4, $5)`,
			t.Name, orNull(t.SweepID), orNull(t.CellID), orNull(t.RunID), t.SetUs)
		return err
	})
	var name *TagNameError
	switch {
	case errors.As(err, &name):
		return nil, name // says it all
	case err != nil:
		return nil, fmt.Errorf("set tag %s: %w", t.Name, err)
	}
	return was, nil
}

// DeleteTag forgets a tag, not what it names. It fails with ErrNotFound.
func (s *Store) DeleteTag(ctx context.Context, name string) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM tag WHERE name = $1`, name)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err == nil && n == 0 {
			err = &NotFoundError{What: "tag", ID: name}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete tag: %w", err)
	}
	return nil
}

// Tags lists all tags by name.
func (s *Store) Tags(ctx context.Context) (tags []Tag, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		tags, err = collect(ctx, tx, scanTag, selectTag+` ORDER BY name`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	return tags, nil
}

// Tag finds a tag by its whole name. It fails with ErrNotFound.
func (s *Store) Tag(ctx context.Context, name string) (t Tag, err error) {
	if strings.TrimSpace(name) == "" {
		return Tag{}, &NotFoundError{What: "tag", ID: name}
	}
	err = s.read(ctx, func(tx *sql.Tx) error {
		tags, err := collect(ctx, tx, scanTag, selectTag+` WHERE name = $1`, name)
		if err != nil {
			return err
		}
		if len(tags) == 0 {
			return &NotFoundError{What: "tag", ID: name}
		}
		t = tags[0]
		return nil
	})
	if err != nil {
		return Tag{}, fmt.Errorf("read tag: %w", err)
	}
	return t, nil
}

// SweepOf gives the sweep that a cell or a run belongs to. It fails with
// ErrNotFound. One of the ids must be given, whole.
func (s *Store) SweepOf(ctx context.Context, cellID, runID string) (sweepID string, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		ids, err := collect(ctx, tx, scanText, `SELECT sweep_id FROM cell WHERE id = $1
			UNION SELECT launch.sweep_id FROM launch JOIN run ON run.launch_id = launch.id WHERE run.id = $2`, cellID, runID)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return &NotFoundError{What: "run or cell", ID: cellID + runID}
		}
		sweepID = ids[0]
		return nil
	})
	return sweepID, err
}

const selectTag = `SELECT name, COALESCE(sweep_id, ''), COALESCE(cell_id, ''), COALESCE(run_id, ''), set_us FROM tag`

func scanTag(rows *sql.Rows) (t Tag, err error) {
	err = rows.Scan(&t.Name, &t.SweepID, &t.CellID, &t.RunID, &t.SetUs)
	return t, err
}

func scanText(rows *sql.Rows) (text string, err error) { return text, rows.Scan(&text) }

func orNull(id string) any {
	if id == "" {
		return nil
	}
	return id
}
