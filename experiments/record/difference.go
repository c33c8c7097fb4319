package record

// Difference is one fact of provenance that differs between two runs. A nil
// side means that the run has no such fact.
type Difference struct {
	Group string
	Key   string
	A, B  *string
}
