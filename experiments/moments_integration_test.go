//go:build integration && !soak

package experiments_test

// moments is how often a sweep is killed at a random moment.
const moments = 3
