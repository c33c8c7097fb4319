package recordertest

import "testing"

func TestMemoryKeepsTheContract(t *testing.T) {
	Run(t, func(_ *testing.T, now func() int64) Recorder { return &Memory{NowUs: now} })
}
