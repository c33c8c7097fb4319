package tier

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
)

// Main runs the tests of a package with n times as many at once as there are
// cores, unless -parallel says how many: for tests that mostly wait for other
// processes. It returns what to exit with.
func Main(m *testing.M, n int) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(n*runtime.GOMAXPROCS(0))); err != nil {
			panic(err) // package testing has no such flag any more
		}
	}
	return m.Run()
}
