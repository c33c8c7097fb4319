package metrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var nan = math.NaN()

// Where a number comes from, as record.Metric.Source names it.
const (
	sourceProfiler = "profiler"
	sourceServer   = "server_log"
	sourceClient   = "client"
)

func warnAt(line int, text string) string { return fmt.Sprintf("line %d: %s", line, text) }

func itoa(n int) string { return strconv.Itoa(n) }

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
