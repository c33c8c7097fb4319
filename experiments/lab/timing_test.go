package lab

import (
	"math"
	"reflect"
	"testing"
)

// What a launch takes by its place among the others, its context and its batch.
func TestTiming(t *testing.T) {
	t.Parallel()
	s := quiet(t)
	s.ContextSlope, s.PlainSlope, s.BatchRequest, s.Prefill = 20, 13, 0.4, 40
	s.DriftEach, s.Drift, s.DriftAfter = 1, 10, 2
	type times struct {
		Verify      float64
		VerifyLong  float64 `json:"verify_long"`
		VerifyFour  float64 `json:"verify_four"`
		Plain       float64
		PlainLong   float64 `json:"plain_long"`
		PlainFour   float64 `json:"plain_four"`
		PrefillHalf float64 `json:"prefill_half"`
		Host        float64
	}
	var got struct {
		Counted   []int
		Launch    []times
		Throttled []float64
		Matches   []int
	}
	runScript(t, newEnvironment(t), s, &got, "timing.py")
	first := times{18, 21.6, 19.2, 11.3, 11.3 * 1.13, 12.5, 20, 0.2}
	for i, drift := range []float64{1, 1.01, 1.02 * 1.1, 1.03 * 1.1} {
		g, w := reflect.ValueOf(got.Launch[i]), reflect.ValueOf(first)
		for f := range g.NumField() {
			if have, want := g.Field(f).Float(), w.Field(f).Float()*drift; math.Abs(have-want) > 1e-9 {
				t.Errorf("launch %d: %s is %.6f ms, want %.6f", i, g.Type().Field(f).Name, have, want)
			}
		}
	}
	if !reflect.DeepEqual(got.Counted, []int{0, 1, 2}) {
		t.Errorf("launches counted: %v", got.Counted)
	}
	for i, want := range []float64{0, 0.3, 1} {
		if math.Abs(got.Throttled[i]-want) > 0.02 {
			t.Errorf("throttled for %.3f of the time, want %.2f", got.Throttled[i], want)
		}
	}
	// The last token of a prompt is always computed, and a match begins at its beginning.
	if want := []int{0, 3, 2, 0, 0}; !reflect.DeepEqual(got.Matches, want) {
		t.Errorf("cached tokens %v, want %v", got.Matches, want)
	}
}
