
// Stride is the distance between the points of a product that only the soak
// takes whole: 1 there, and n in the tiers before.
func Stride(n int) int {
	if soak {
		return 1
	}
	return n
}
