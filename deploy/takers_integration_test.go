//go:build integration

package deploy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLock_AllInterleavingsOfThreeTakers(t *testing.T) {
	all := interleavings(3, 2)
	t.Logf("%d interleavings of three takers, each stopped between judging and taking", len(all))
	for _, order := range all {
		race(t, []string{stopToMake}, order)
	}
	for range 60 {
		order := slices.Repeat([]int{0, 1, 2}, 4)
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		race(t, []string{stopToMake, stopToOwn, stopToLook}, order)
	}
}
