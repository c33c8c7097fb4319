package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"specrun/experiments/recordertest"
)

func TestStoreKeepsTheRecordersContract(t *testing.T) {
	t.Parallel()
	recordertest.Run(t, func(t *testing.T, now func() int64) recordertest.Recorder {
		s, err := Open(context.Background(), filepath.Join(t.TempDir(), "results.db"), WithClock(func() time.Time { return time.UnixMicro(now()) }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}
