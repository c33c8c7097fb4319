package stats

// LoadKeys are the settings of the benchmark that make the work another one, in
// the order in which they are shown: numbers of different work are not ranked
// against each other.
func LoadKeys() []string {
	return []string{"concurrency", "requests", "max_tokens", "ignore_eos", "temperature", "prompts", "endpoint", "seed"}
}
