package experiments

import (
	"errors"
	"io"

	"specrun/experiments/record"
	"specrun/experiments/store"
)

// readKept reads a file that a store keeps.
func readKept(a record.Artifact) ([]byte, error) {
	f, err := store.Content(a)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(f)
	return raw, errors.Join(err, f.Close())
}
