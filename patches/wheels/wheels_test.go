//go:build integration

package wheels_test

import (
	"os"
	"path/filepath"
	"testing"

	"specrun/patches/wheels"
)

func TestGet_HasTheWorkersOfEachRelease(t *testing.T) {
	for _, v := range wheels.Versions() {
		t.Run(v, func(t *testing.T) {
			dir := filepath.Join(wheels.Get(t, v), "sglang", "srt", "speculative")
			v1, err1 := os.Stat(filepath.Join(dir, "eagle_worker.py"))
			v2, err2 := os.Stat(filepath.Join(dir, "eagle_worker_v2.py"))
			if err1 != nil && err2 != nil {
				t.Fatalf("neither worker file: %v, %v", err1, err2)
			}
			t.Logf("v1 %t, v2 %t", v1 != nil, v2 != nil)
		})
	}
}
