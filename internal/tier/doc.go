// Package tier tells tests how much of a repetition belongs into the tier they
// run in. The unit tier takes a sample of every product of shells, samples and
// points of a kill, so that it tests each rule in little time under the race
// detector; the integration tier takes all of it.
package tier

// Every is the stride through a repetition: 1 in the integration tier, so that
// nothing is left out, and n in the unit tier.
func Every(n int) int {
	if Full {
		return 1
	}
	return n
}

// Size is how much of something is made: full in the integration tier, and
// sample in the unit tier.
func Size(sample, full int) int {
	if Full {
		return full
	}
	return sample
}

// Stride is the distance between the points of a product that only the soak
// takes whole: 1 there, and n in the tiers before.
func Stride(n int) int {
	if soak {
		return 1
	}
	return n
}
